Feature: Schemas

  Scenario: A schema that does not fit
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-1, version: 0.1.0}
      do:
        - a:
            input:
              schema:
                document:
                  type: object
                  required: [n]
            set: {v: 1}
      """
    And given the workflow input is:
      """yaml
      {m: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /do/0/a}
      """

  Scenario: The schema of the workflow's input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-2, version: 0.1.0}
      input:
        schema:
          document:
            type: object
            properties:
              n: {type: integer}
      do:
        - a:
            set: {v: 1}
      """
    And given the workflow input is:
      """yaml
      {n: no}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /}
      """

  Scenario: A schema of the output
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-3, version: 0.1.0}
      do:
        - a:
            set: {v: text}
            output:
              schema:
                document:
                  type: object
                  properties:
                    v: {type: integer}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /do/0/a}
      """

  Scenario: A schema of what is exported
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-4, version: 0.1.0}
      do:
        - a:
            set: {v: 1}
            export:
              as: .v
              schema:
                document: {type: string}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /do/0/a}
      """

  Scenario: A schema of the workflow's output
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-5, version: 0.1.0}
      output:
        as: .v
        schema:
          document: {type: string}
      do:
        - a:
            set: {v: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /}
      """

  Scenario: A schema with definitions of its own
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-6, version: 0.1.0}
      input:
        schema:
          document:
            $ref: '#/$defs/n'
            $defs:
              n:
                type: object
                required: [n]
      do:
        - a: {set: '${ .n }'}
      """
    And given the workflow input is:
      """yaml
      {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      1
      """

  Scenario: The schema sees the input before its transformation
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-7, version: 0.1.0}
      do:
        - a:
            input:
              schema:
                document:
                  type: object
                  required: [raw]
              from: .raw
            set: ${ . }
      """
    And given the workflow input is:
      """yaml
      {raw: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      5
      """

  Scenario: The schema sees the output after its transformation
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: schema-8, version: 0.1.0}
      do:
        - a:
            set: {v: 5}
            output:
              as: .v
              schema:
                document: {type: integer}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      5
      """
