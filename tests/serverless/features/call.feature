Feature: Call tasks

  Scenario: Content is deserialised
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-1, version: 0.1.0}
      do:
        - c:
            call: http
            with:
              method: get
              endpoint: {uri: 'https://petstore.swagger.io/v2/pet/findByStatus?status={status}'}
            output: {as: '.[0]'}
      """
    And given the workflow input is:
      """yaml
      {status: available}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'id', 'name', 'status'

  Scenario: The whole response
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-2, version: 0.1.0}
      do:
        - c:
            call: http
            with:
              method: get
              endpoint: {uri: 'https://petstore.swagger.io/v2/pet/{petId}'}
              output: response
      """
    And given the workflow input is:
      """yaml
      {petId: 1}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'request', 'request.method', 'request.uri', 'request.headers', 'headers', 'statusCode', 'content', 'content.id', 'content.name'

  Scenario: Raw content
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-3, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/text, output: raw}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      cGxhaW4=
      """

  Scenario: Text, binary and empty content
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-4, version: 0.1.0}
      do:
        - a:
            call: http
            with: {method: get, endpoint: https://api.example.com/text}
            export: {as: '[.]'}
        - b:
            call: http
            with: {method: get, endpoint: https://api.example.com/binary}
            export: {as: '$context + [.]'}
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/empty}
            export: {as: '$context + [.]'}
        - d: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [plain, AP8=, null]
      """

  Scenario: What is sent
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-5, version: 0.1.0}
      do:
        - c:
            call: http
            with:
              method: post
              endpoint: https://api.example.com/echo
              query: {q: '${ .q }'}
              headers: {x-kit: '${ .h }'}
              body: {b: '${ .b }'}
      """
    And given the workflow input is:
      """yaml
      q: a b
      h: header
      b: [1]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      method: POST
      query: {q: a b}
      header: header
      body:
        b: [1]
      """

  Scenario: An answer without success
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-6, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/status/503}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: communication, status: 503, instance: /do/0/c}
      """

  Scenario: An answer that says who it is not
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-7, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/status/401}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: communication, status: 401, instance: /do/0/c}
      """

  Scenario: A redirect is an error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-8, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/moved}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: communication, status: 302, instance: /do/0/c}
      """

  Scenario: A redirect that is followed
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-9, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/moved, redirect: true}
            output: {as: .id}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      7
      """

  Scenario: A template of an endpoint with nothing to fill in
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-10, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: 'https://api.example.com/echo?q={nothing}'}
            output: {as: .query}
      """
    And given the workflow input is:
      """yaml
      {k: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {q: ''}
      """

  Scenario: A template of an endpoint with an object
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-11, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: 'https://api.example.com/echo?q={o}'}
      """
    And given the workflow input is:
      """yaml
      o: {}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/c}
      """

  Scenario: An operation of OpenAPI
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-12, version: 0.1.0}
      do:
        - c:
            call: openapi
            with:
              document: {endpoint: https://petstore.swagger.io/v2/swagger.json}
              operationId: findPetsByStatus
              parameters: {status: '${ .status }'}
            output: {as: . | length}
      """
    And given the workflow input is:
      """yaml
      {status: available}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      3
      """

  Scenario: The whole response of an operation
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-13, version: 0.1.0}
      do:
        - c:
            call: openapi
            with:
              document: {endpoint: https://petstore.swagger.io/v2/swagger.json}
              operationId: getPetById
              parameters: {petId: '${ .petId }'}
              output: response
      """
    And given the workflow input is:
      """yaml
      {petId: 1}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'request', 'request.method', 'request.uri', 'request.headers', 'headers', 'statusCode', 'content', 'content.id', 'content.name'

  Scenario: An operation that lacks a parameter
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-14, version: 0.1.0}
      do:
        - c:
            call: openapi
            with:
              document: {endpoint: https://petstore.swagger.io/v2/swagger.json}
              operationId: getPetById
              parameters: {}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: configuration, status: 400, instance: /do/0/c}
      """

  Scenario: Calls in a loop and in branches
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: call-15, version: 0.1.0}
      do:
        - l:
            for: {in: '${ [1, 2] }'}
            do:
              - c:
                  call: http
                  with: {method: get, endpoint: '${ "https://petstore.swagger.io/v2/pet/\($item)" }'}
                  export: {as: '($context // []) + [.id]'}
        - f:
            fork:
              branches:
                - a:
                    call: http
                    with: {method: get, endpoint: https://petstore.swagger.io/v2/pet/8}
                    output: {as: .id}
                - b:
                    call: http
                    with: {method: get, endpoint: https://petstore.swagger.io/v2/pet/9}
                    output: {as: .id}
        - s: {set: '${ [$context, .] }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        - [1, 2]
        - [8, 9]
      """
