Feature: Secrets and authentication

  Scenario: Basic authentication
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-1, version: 0.1.0}
      do:
        - c:
            call: http
            with:
              method: get
              endpoint:
                uri: https://httpbin.org/basic-auth/{username}/{password}
                authentication:
                  basic: {username: '${ .username }', password: '${ .password }'}
      """
    And given the workflow input is:
      """yaml
      {username: serverless-workflow, password: conformance-test}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {authenticated: true}
      """

  Scenario: Basic authentication by a secret
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-2, version: 0.1.0}
      use:
        secrets: [login]
      do:
        - c:
            call: http
            with:
              method: get
              endpoint:
                uri: https://httpbin.org/basic-auth/ada/pw
                authentication:
                  basic: {use: login}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {authenticated: true}
      """

  Scenario: A bearer's token by a reusable policy
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-3, version: 0.1.0}
      use:
        secrets: [token]
        authentications:
          known:
            bearer: {token: '${ $secrets.token }'}
      do:
        - c:
            call: http
            with:
              method: get
              endpoint:
                uri: https://api.example.com/bearer
                authentication: {use: known}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {authenticated: true}
      """

  Scenario: A secret in a header
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-4, version: 0.1.0}
      use:
        secrets: [token]
      do:
        - c:
            call: http
            with:
              method: get
              endpoint: https://api.example.com/measured
              headers: {x-kit: '${ $secrets.token }'}
            output: {as: .length}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      5
      """

  Scenario: A secret that nobody has
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-5, version: 0.1.0}
      use:
        secrets: [missing]
      do:
        - c:
            call: http
            with:
              method: get
              endpoint: https://api.example.com/echo
              headers: {x-kit: '${ $secrets.missing }'}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: authorization, status: 403, instance: /do/0/c}
      """

  Scenario: The wrong password
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: secret-6, version: 0.1.0}
      do:
        - c:
            call: http
            with:
              method: get
              endpoint:
                uri: https://httpbin.org/basic-auth/ada/pw
                authentication:
                  basic: {username: ada, password: wrong}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: communication, status: 401, instance: /do/0/c}
      """
