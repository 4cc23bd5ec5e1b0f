Feature: Flow directives

  Scenario: The flow may go back
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-1, version: 0.1.0}
      do:
        - a: {set: '${ {n: (.n + 1)} }'}
        - s:
            switch:
              - m: {when: .n < 5, then: a}
      """
    And given the workflow input is:
      """yaml
      {n: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {n: 5}
      """

  Scenario: A loop without waits takes breath
    Given a workflow that is too long to continue as new after each task
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-2, version: 0.1.0}
      do:
        - a: {set: '${ {n: (.n + 1)} }'}
        - s:
            switch:
              - m: {when: .n < 1200, then: a}
      """
    And given the workflow input is:
      """yaml
      {n: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {n: 1200}
      """

  Scenario: Exit leaves the list, end the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-3, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  set: {v: 1}
                  then: exit
              - b:
                  set: {v: 2}
        - e:
            do:
              - x:
                  set: {v: '${ .v + 10 }'}
                  then: end
        - f:
            set: {v: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 11}
      """

  Scenario: Tasks run in their order
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-4, version: 0.1.0}
      do:
        - red: {set: '${ {v: (.v + ["a"])} }'}
        - green: {set: '${ {v: (.v + ["b"])} }'}
        - blue: {set: '${ {v: (.v + ["c"])} }'}
      """
    And given the workflow input is:
      """yaml
      v: []
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      v: [a, b, c]
      """
    And red should run first
    And green should run after red
    And green should run before blue
    And blue should run last
    And green should complete

  Scenario: Directives change the order
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-5, version: 0.1.0}
      do:
        - a: {set: '${ {v: (.v + ["a"])} }', then: c}
        - b: {set: '${ {v: (.v + ["b"])} }', then: end}
        - c: {set: '${ {v: (.v + ["c"])} }', then: b}
      """
    And given the workflow input is:
      """yaml
      v: []
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      v: [a, c, b]
      """
    And a should run first
    And c should run before b
    And b should run last

  Scenario: Exit at the top ends the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-6, version: 0.1.0}
      do:
        - a:
            set: {v: 1}
            then: exit
        - b:
            set: {v: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1}
      """

  Scenario: The output of a workflow that is ended goes through its transformation
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-7, version: 0.1.0}
      output: {as: '{ended: .v}'}
      do:
        - l:
            for: {in: '${ [1, 2, 3] }'}
            do:
              - d:
                  do:
                    - a: {set: '${ {v: $item} }'}
                    - s:
                        switch:
                          - two: {when: .v == 2, then: end}
        - z:
            set: {v: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {ended: 2}
      """

  Scenario: Exit leaves no more than its own list
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-8, version: 0.1.0}
      do:
        - d:
            do:
              - e:
                  do:
                    - a:
                        set: {v: 1}
                        then: exit
                    - b:
                        set: {v: 2}
              - c: {set: '${ {v: (.v + 10)} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 11}
      """

  Scenario: A list is left from the middle of a loop that goes back
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: flow-9, version: 0.1.0}
      do:
        - d:
            do:
              - a: {set: '${ {n: (.n + 1)} }'}
              - s:
                  switch:
                    - m: {when: .n > 3, then: exit}
                  then: a
        - z: {set: '${ {total: .n} }'}
      """
    And given the workflow input is:
      """yaml
      {n: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {total: 4}
      """
