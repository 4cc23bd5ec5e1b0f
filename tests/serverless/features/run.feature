Feature: Run tasks

  Scenario: A shell command with arguments, input and environment
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-1, version: 0.1.0}
      do:
        - r:
            run:
              shell:
                command: printf "%s-%s-%s-" "$1" "$2" "$WHO"; cat
                stdin: ${ .text }
                arguments: [a, '${ .b }']
                environment: {WHO: ada}
      """
    And given the workflow input is:
      """yaml
      {text: given, b: bee}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      a-bee-ada-given
      """

  Scenario: All that a shell command says
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-2, version: 0.1.0}
      do:
        - r:
            run:
              shell: {command: echo out; echo err >&2; exit 3}
              return: all
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {code: 3, stdout: "out\n", stderr: "err\n"}
      """

  Scenario: The code of a shell command
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-3, version: 0.1.0}
      do:
        - r:
            run:
              shell: {command: exit 4}
              return: code
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      4
      """

  Scenario: A shell command that fails
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-4, version: 0.1.0}
      do:
        - r:
            run:
              shell: {command: echo broken >&2; exit 5}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: runtime, status: 500, instance: /do/0/r}
      """

  Scenario: Nothing of a shell command
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-5, version: 0.1.0}
      do:
        - r:
            run:
              shell: {command: echo out}
              return: none
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      null
      """

  Scenario: A script
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-6, version: 0.1.0}
      do:
        - r:
            run:
              script:
                language: python
                code: "import sys\nprint(sys.argv[1] * 2, end='')"
                arguments: ['${ .a }']
      """
    And given the workflow input is:
      """yaml
      {a: ab}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      abab
      """

  Scenario: A script in a language that is not allowed
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-7, version: 0.1.0}
      do:
        - r:
            run:
              script: {language: js, code: console.log(1)}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: configuration, status: 400, instance: /do/0/r}
      """

  Scenario: Another document
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: doubling, version: 0.1.0}
      do:
        - s: {set: '${ {v: (.v * 2)} }'}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-8, version: 0.1.0}
      do:
        - r:
            run:
              workflow:
                namespace: kit
                name: doubling
                version: 0.1.0
                input: {v: '${ .n }'}
      """
    And given the workflow input is:
      """yaml
      {n: 4}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 8}
      """

  Scenario: The latest version of another document
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: versions, version: 0.9.0}
      do:
        - s:
            set: {v: old}
      """
    And a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: versions, version: 0.10.0}
      do:
        - s:
            set: {v: new}
      """
    And a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: versions, version: 0.11.0-rc.1}
      do:
        - s:
            set: {v: newer}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-9, version: 0.1.0}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: versions, version: latest}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: new}
      """

  Scenario: A document that is not there
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-10, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  run:
                    workflow: {namespace: kit, name: nowhere, version: 0.1.0}
            catch:
              do:
                - s: {set: '${ $error.instance }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      /do/0/t/try/0/r
      """

  Scenario: A document whose end is not awaited
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: forgotten, version: 0.1.0}
      do:
        - w: {wait: PT1M}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-11, version: 0.1.0}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: forgotten, version: 0.1.0}
              await: false
      """
    And given the workflow input is:
      """yaml
      {k: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {k: 1}
      """
    And it should take no time

  Scenario: The error of another document is that of the task
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: raising, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: https://x/e, status: 418}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-12, version: 0.1.0}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: raising, version: 0.1.0}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 418, instance: /do/0/r}
      """

  Scenario: Documents three deep
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: third, version: 0.1.0}
      do:
        - w: {wait: PT1S}
        - s: {set: '${ .v + 1 }'}
      """
    And a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: second, version: 0.1.0}
      do:
        - r:
            run:
              workflow:
                namespace: kit
                name: third
                version: 0.1.0
                input: {v: '${ .v }'}
        - s: {set: '${ . * 10 }'}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: run-13, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    run:
                      workflow:
                        namespace: kit
                        name: second
                        version: 0.1.0
                        input: {v: 1}
                - b:
                    run:
                      workflow:
                        namespace: kit
                        name: second
                        version: 0.1.0
                        input: {v: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [20, 30]
      """
    And it should take PT1S
