Feature: Functions

  Scenario: A function has a scope of its own
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-1, version: 0.1.0}
      use:
        functions:
          f:
            set: {y: '${ .x + 1 }'}
      do:
        - c:
            call: f
            with: {x: '${ .n }'}
      """
    And given the workflow input is:
      """yaml
      {n: 4}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {y: 5}
      """

  Scenario: Errors of a function are the caller's
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-2, version: 0.1.0}
      use:
        functions:
          f:
            do:
              - r:
                  raise:
                    error: {type: x, status: 501}
      do:
        - c: {call: f}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: x, status: 501, instance: /do/0/c}
      """

  Scenario: A function with tasks of its own sees what it was given
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-3, version: 0.1.0}
      use:
        functions:
          f:
            do:
              - a: {set: '${ {v: (.x * 2), i: $input.x} }'}
              - b: {set: '${ .v + 1 }'}
      do:
        - c:
            set: ${ 0 }
            export: {as: '{n: 4}'}
        - d:
            call: f
            with: {x: '${ $context.n }'}
        - e:
            set: {was: '${ . }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {was: 9}
      """

  Scenario: A function calls another one
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-4, version: 0.1.0}
      use:
        functions:
          inner: {set: '${ {v: (.v * 2)} }'}
          outer:
            do:
              - c:
                  call: inner
                  with: {v: '${ .v + 1 }'}
      do:
        - c:
            call: outer
            with: {v: '${ .n }'}
      """
    And given the workflow input is:
      """yaml
      {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 4}
      """

  Scenario: A function shares the context
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-5, version: 0.1.0}
      use:
        functions:
          f:
            set: {v: 1}
            export: {as: '"from f"'}
      do:
        - c: {call: f}
        - s: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      from f
      """

  Scenario: A function without arguments has an empty input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-6, version: 0.1.0}
      use:
        functions:
          f: {set: '${ {t: (. | type)} }'}
      do:
        - c: {call: f}
      """
    And given the workflow input is:
      """yaml
      {k: 1}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 't'

  Scenario: A function waits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: function-7, version: 0.1.0}
      use:
        functions:
          f:
            do:
              - w: {wait: '${ .d }'}
              - s:
                  set: {v: waited}
      do:
        - c:
            call: f
            with: {d: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      {d: PT3S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: waited}
      """
    And it should take PT3S
