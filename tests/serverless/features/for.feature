Feature: For tasks

  Scenario: For hands the output of each iteration on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-1, version: 0.1.0}
      do:
        - l:
            for: {in: .xs}
            do:
              - a: {set: '${ {xs: .xs, t: ((.t // 0) + $item * 10 + $index)} }'}
      """
    And given the workflow input is:
      """yaml
      xs: [1, 2, 3]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      xs: [1, 2, 3]
      t: 63
      """

  Scenario: While stops a loop
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-2, version: 0.1.0}
      do:
        - l:
            for: {each: n, at: i, in: .xs}
            while: $i < 2
            do:
              - a: {set: '${ {xs: .xs, last: $n} }'}
      """
    And given the workflow input is:
      """yaml
      xs: [1, 2, 3]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      xs: [1, 2, 3]
      last: 2
      """

  Scenario: Exit ends an iteration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-3, version: 0.1.0}
      do:
        - l:
            for: {in: .xs}
            do:
              - a: {set: '${ {xs: .xs, n: ((.n // 0) + 1)} }', then: exit}
              - b:
                  set: {v: 9}
      """
    And given the workflow input is:
      """yaml
      xs: [1, 2]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      xs: [1, 2]
      n: 2
      """

  Scenario: An empty loop changes nothing, null is empty
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-4, version: 0.1.0}
      do:
        - l:
            for: {in: .xs}
            do:
              - a:
                  set: {v: 1}
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

  Scenario: A loop over something else faults
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-5, version: 0.1.0}
      do:
        - l:
            for: {in: .xs}
            do:
              - a:
                  set: {v: 1}
      """
    And given the workflow input is:
      """yaml
      {xs: 3}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/l}
      """

  Scenario: Loops in loops keep their places, variables and context
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-6, version: 0.1.0}
      do:
        - l:
            for: {each: x, at: i, in: .xs}
            while: $i < 3
            do:
              - m:
                  for: {each: y, at: j, in: '${ [$x, ($context // 0)] }'}
                  do:
                    - a: {set: '${ {xs: .xs, t: ((.t // []) + ["\($i)\($j)\($y)"])} }'}
                    - b:
                        set: ${ . }
                        export: {as: ($context // 0) + 1}
      """
    And given the workflow input is:
      """yaml
      xs: [a, b, c, d]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      xs: [a, b, c, d]
      t: [00a, '010', 10b, '112', 20c, '214']
      """

  Scenario: Items that were worked out from the context stay as they were
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-7, version: 0.1.0}
      do:
        - c:
            set: ${ 0 }
            export: {as: '[1, 2, 3]'}
        - l:
            for: {in: '${ $context }'}
            do:
              - a:
                  set: ${ . + $item }
                  export: {as: '[7]'}
              - b: {set: '${ . }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      6
      """

  Scenario: The names of the item and its index
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-8, version: 0.1.0}
      do:
        - l:
            for: {in: '${ ["a", "b"] }'}
            do:
              - s: {set: '${ {v: ((.v // []) + [[$item, $index]])} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      v:
        - [a, 0]
        - [b, 1]
      """

  Scenario: Loops in loops see the variables of both
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-9, version: 0.1.0}
      do:
        - l:
            for: {each: x, in: '${ [1, 2] }'}
            do:
              - m:
                  for: {each: y, in: '${ [10, 20] }'}
                  do:
                    - s: {set: '${ {v: ((.v // []) + [$x * $y])} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      v: [10, 20, 20, 40]
      """

  Scenario: While sees what the last iteration gave
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-10, version: 0.1.0}
      do:
        - l:
            for: {in: '${ range(10) }'}
            while: (.sum // 0) < 6
            do:
              - s: {set: '${ {sum: ((.sum // 0) + $item)} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {sum: 6}
      """

  Scenario: A variable is gone after its loop
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-11, version: 0.1.0}
      do:
        - l:
            for: {each: x, in: '${ [1] }'}
            do:
              - s: {set: '${ {v: $x} }'}
        - a: {set: '${ {after: .v} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {after: 1}
      """

  Scenario: An object cannot be looped over
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-12, version: 0.1.0}
      do:
        - l:
            for: {in: '${ {a: 1} }'}
            do:
              - s:
                  set: {v: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/l}
      """

  Scenario: An error names the task and no iteration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-13, version: 0.1.0}
      do:
        - l:
            for: {in: '${ [1, 2] }'}
            do:
              - s:
                  switch:
                    - two: {when: $item == 2, then: r}
                  then: exit
              - r:
                  raise:
                    error: {type: x, status: 501}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: x, status: 501, instance: /do/0/l/do/1/r}
      """

  Scenario: What an iteration exports the next one sees
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-14, version: 0.1.0}
      do:
        - l:
            for: {in: '${ [1, 2, 3] }'}
            do:
              - s:
                  set: ${ ($context // 0) + $item }
                  export: {as: .}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      6
      """

  Scenario: A loop waits in each iteration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: for-15, version: 0.1.0}
      do:
        - l:
            for: {in: '${ [1, 2, 3] }'}
            do:
              - w: {wait: '${ {seconds: $item} }'}
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
    And it should take PT6S
