Feature: Do tasks

  Scenario: The output of a list is that of its last task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: do-1, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  set: {v: 1}
              - b: {set: '${ {v: (.v + 1)} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 2}
      """

  Scenario: Lists in lists
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: do-2, version: 0.1.0}
      do:
        - d:
            do:
              - e:
                  do:
                    - f:
                        do:
                          - a: {set: '${ {v: (.v + 1)} }'}
                    - b: {set: '${ {v: (.v * 10)} }'}
        - c: {set: '${ {v: (.v - 1)} }'}
      """
    And given the workflow input is:
      """yaml
      {v: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 19}
      """

  Scenario: A task that is skipped last gives what it got
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: do-3, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  set: {v: 1}
              - b:
                  if: .v > 5
                  set: {v: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1}
      """

  Scenario: The input of a list is transformed once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: do-4, version: 0.1.0}
      do:
        - d:
            input: {from: .inner}
            do:
              - a: {set: '${ {n: (.n + 1)} }'}
            output: {as: '{out: .n, was: $input.n}'}
      """
    And given the workflow input is:
      """yaml
      inner: {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {out: 2, was: 1}
      """
