Feature: Raise tasks

  Scenario: Raise gives the error as it is written, with the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-1, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: https://x/e, status: 418, title: '${ "no " + .k }'}
      """
    And given the workflow input is:
      """yaml
      {k: tea}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 418, title: no tea, instance: /do/0/r}
      """

  Scenario: An error of an expression names the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-2, version: 0.1.0}
      do:
        - a:
            do:
              - b:
                  set: {x: '${ .k.z }'}
      """
    And given the workflow input is:
      """yaml
      {k: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/a/do/0/b}
      """

  Scenario: An error by reference
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-3, version: 0.1.0}
      use:
        errors:
          gone: {type: https://x/gone, status: 410, title: Gone, detail: '${ "no " + .k }'}
      do:
        - r:
            raise: {error: gone}
      """
    And given the workflow input is:
      """yaml
      {k: tea}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/gone, status: 410, title: Gone, detail: no tea, instance: /do/0/r}
      """

  Scenario: An instance that is given is kept
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-4, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: https://x/e, status: 418, instance: /somewhere/else}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 418, instance: /somewhere/else}
      """

  Scenario: What is not said of an error stays unsaid
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-5, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://x/e, status: 418}
            catch:
              do:
                - s: {set: '${ $error | keys }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [instance, status, type]
      """

  Scenario: An error's status may be an expression
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raise-6, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: '${ .type }', status: 418}
      """
    And given the workflow input is:
      """yaml
      {type: https://x/e}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 418}
      """
