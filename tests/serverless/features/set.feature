Feature: Set tasks

  Scenario: A set replaces what was there
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: set-1, version: 0.1.0}
      do:
        - a:
            set: {x: 1}
        - b:
            set: {y: 2}
      """
    And given the workflow input is:
      """yaml
      {z: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {y: 2}
      """

  Scenario: A text that only contains an expression is a text
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: set-2, version: 0.1.0}
      do:
        - a:
            set: {x: 'Hello ${ .who }!'}
      """
    And given the workflow input is:
      """yaml
      {who: Ada}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {x: 'Hello ${ .who }!'}
      """

  Scenario: In loose mode a text is evaluated where that works
    Given a workflow with definition:
      """yaml
      evaluate: {language: jq, mode: loose}
      document: {dsl: 1.0.4, namespace: kit, name: loose, version: 0.1.0}
      do:
        - a:
            set: {x: .who, y: not an expression at all}
      """
    And given the workflow input is:
      """yaml
      {who: Ada}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {x: Ada, y: not an expression at all}
      """

  Scenario: What comes from data is never evaluated
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: set-4, version: 0.1.0}
      do:
        - a:
            set: {x: '${ .text }'}
        - b: {set: '${ . }'}
      """
    And given the workflow input is:
      """yaml
      {text: '${ .secret }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {x: '${ .secret }'}
      """

  Scenario: An integer keeps all its digits on a path
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: set-5, version: 0.1.0}
      do:
        - a:
            set: {x: '${ .n }', l: '${ [.n] | length }'}
            input: {from: '{n: .m}'}
      """
    And given the workflow input is:
      """yaml
      {m: 3}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {x: 3, l: 1}
      """

  Scenario: Values of all kinds are kept
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: set-6, version: 0.1.0}
      do:
        - a:
            set:
              t: text
              n: 1.5
              i: 2
              b: true
              z: null
              l: [1, '${ .k }']
              o: {inner: '${ .k }'}
      """
    And given the workflow input is:
      """yaml
      {k: v}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      t: text
      n: 1.5
      i: 2
      b: true
      z: null
      l: [1, v]
      o: {inner: v}
      """
