Feature: Expressions

  Scenario: Now is the time of the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-1, version: 0.1.0}
      do:
        - a:
            set: {same: '${ (now - $workflow.startedAt.epoch.seconds) < 2 }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {same: true}
      """

  Scenario: Dates are in UTC
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-2, version: 0.1.0}
      do:
        - a: {set: '${ 0 | localtime | mktime }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      0
      """

  Scenario: The error function of jq is an error of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-3, version: 0.1.0}
      do:
        - a: {set: '${ error("no") }'}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/a}
      """

  Scenario: A failing transformation of the output is an error of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-4, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  set: {v: 1}
                  output: {as: .v.w}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/d/do/0/a}
      """

  Scenario: A failing transformation of the workflow's output is an error of the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-5, version: 0.1.0}
      output: {as: .v.w}
      do:
        - a:
            set: {v: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /}
      """

  Scenario: Reduce, paths and texts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: expression-6, version: 0.1.0}
      do:
        - a:
            set: {sum: '${ reduce .xs[] as $x (0; . + $x) }', text: '${ "n=\(.xs | length)" }', sorted: '${
                .xs | sort | reverse }', picked: '${ [.xs[] | select(. > 1)] }'}
      """
    And given the workflow input is:
      """yaml
      xs: [2, 3, 1]
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      sum: 6
      text: n=3
      sorted: [3, 2, 1]
      picked: [2, 3]
      """
