Feature: Fork tasks

  Scenario: Fork gives all outputs in the order of declaration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-1, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    do:
                      - w: {wait: PT2S}
                      - s:
                          set: {v: 1}
                - b:
                    set: {v: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        - {v: 1}
        - {v: 2}
      """

  Scenario: The first success of a competition counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-2, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a:
                    do:
                      - w: {wait: PT2S}
                      - s:
                          set: {v: 1}
                - b:
                    do:
                      - w: {wait: PT1S}
                      - s:
                          set: {v: 2}
                - c:
                    raise:
                      error: {type: x, status: 501}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 2}
      """

  Scenario: If all of a competition fail the first error counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-3, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a:
                    do:
                      - w: {wait: PT2S}
                      - r:
                          raise:
                            error: {type: a, status: 501}
                - b:
                    raise:
                      error: {type: b, status: 501}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: b, status: 501, instance: /do/0/f/fork/branches/1/b}
      """

  Scenario: An error in a branch cancels the others
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-4, version: 0.1.0}
      do:
        - t:
            try:
              - f:
                  fork:
                    branches:
                      - a: {wait: PT1H}
                      - b:
                          raise:
                            error: {type: b, status: 501}
            catch:
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: A branch sees the context of the start, and exports to all
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-5, version: 0.1.0}
      do:
        - c:
            set: {v: 1}
            export: {as: '{n: 1}'}
        - f:
            fork:
              branches:
                - a:
                    set: ${ $context.n }
                    export: {as: '{n: 2}'}
                - b:
                    do:
                      - w: {wait: PT1S}
                      - s: {set: '${ $context.n }'}
        - o:
            set: {f: '${ . }', c: '${ $context.n }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      f: [1, 1]
      c: 2
      """

  Scenario: End in a branch ends the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-6, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a: {wait: PT1H}
                - b:
                    set: {v: 2}
                    then: end
        - s:
            set: {v: no}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 2}
      """

  Scenario: All branches have the same input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-7, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a: {set: '${ .n + 1 }'}
                - b: {set: '${ .n + 2 }'}
                - c: {set: '${ .n + 3 }'}
      """
    And given the workflow input is:
      """yaml
      {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [2, 3, 4]
      """

  Scenario: Forks in forks
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-8, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    fork:
                      branches:
                        - x: {set: '${ 1 }'}
                        - y: {set: '${ 2 }'}
                - b: {set: '${ 3 }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        - [1, 2]
        - 3
      """

  Scenario: Branches wait side by side
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-9, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a: {wait: PT5S}
                - b: {wait: PT3S}
                - c: {wait: PT4S}
      """
    And given the workflow input is:
      """yaml
      1
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [1, 1, 1]
      """
    And it should take PT5S

  Scenario: Exit in a branch ends the branch
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-10, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    set: {v: 1}
                    then: exit
                - b:
                    do:
                      - w: {wait: PT1S}
                      - s:
                          set: {v: 2}
        - s: {set: '${ map(.v) }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [1, 2]
      """

  Scenario: A loser of a competition exports nothing any more
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-11, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a:
                    do:
                      - w: {wait: PT1S}
                      - s:
                          set: {v: a}
                - b:
                    do:
                      - w: {wait: PT2S}
                      - s:
                          set: {v: b}
                          export: {as: '"b"'}
        - w: {wait: PT5S}
        - s: {set: '${ {won: .v, context: $context} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {won: a, context: null}
      """

  Scenario: The first error of a fork counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: fork-12, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    do:
                      - w: {wait: PT2S}
                      - r:
                          raise:
                            error: {type: a, status: 501}
                - b:
                    do:
                      - w: {wait: PT1S}
                      - r:
                          raise:
                            error: {type: b, status: 502}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: b, status: 502, instance: /do/0/f/fork/branches/1/b/do/1/r}
      """
    And it should take PT1S
