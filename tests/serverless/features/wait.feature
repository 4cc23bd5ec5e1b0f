Feature: Wait tasks

  Scenario: Wait waits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-1, version: 0.1.0}
      do:
        - w:
            wait: {minutes: 2}
        - v: {wait: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      {d: PT30S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {d: PT30S}
      """
    And it should take PT150S

  Scenario: A wait by an object of several units
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-2, version: 0.1.0}
      do:
        - w:
            wait: {minutes: 2, seconds: 3, milliseconds: 500}
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
    And it should take PT123.5S

  Scenario: A wait of nothing by an expression is over at once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-3, version: 0.1.0}
      do:
        - w: {wait: '${ {seconds: .n} }'}
      """
    And given the workflow input is:
      """yaml
      {n: 0}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {n: 0}
      """
    And it should take no time

  Scenario: A wait by a text with fractions
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-4, version: 0.1.0}
      do:
        - w: {wait: PT1.5S}
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
    And it should take PT1.5S

  Scenario: A wait by what is no duration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-5, version: 0.1.0}
      do:
        - w: {wait: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      d: [1]
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/w}
      """

  Scenario: A wait survives its workers
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: wait-6, version: 0.1.0}
      do:
        - w: {wait: PT10S}
        - s:
            set: {v: done}
      """
    When the workflow is executed
    And time advances by PT3S
    Then '/do/0/w' should be open as 'wait'
    When every worker is killed
    And time advances by PT3S
    And a worker is started
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT10S
