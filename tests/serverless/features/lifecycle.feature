Feature: Suspending, resuming and cancelling

  Scenario: A workflow is suspended between its tasks
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-1, version: 0.1.0}
      do:
        - w: {wait: PT5S}
        - s:
            set: {v: done}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And time advances by PT10S
    Then the workflow should be suspended
    When time advances by PT10S
    And the workflow is resumed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT21S

  Scenario: A workflow that is suspended twice is resumed once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-2, version: 0.1.0}
      do:
        - w: {wait: PT5S}
        - s:
            set: {v: done}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And the workflow is suspended
    And time advances by PT9S
    And the workflow is resumed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT10S

  Scenario: What is under way goes on while a workflow is suspended
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-3, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: lifecycle.a}
        - s: {set: '${ . }'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: lifecycle.a, data: 1}
      """
    And time advances by PT1S
    Then the workflow should be suspended
    When time advances by PT1S
    And the workflow is resumed
    Then the workflow should complete with output:
      """yaml
      [1]
      """
    And it should take PT4S

  Scenario: A workflow is cancelled while it waits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-4, version: 0.1.0}
      do:
        - t:
            try:
              - w: {wait: PT1H}
            catch:
              do:
                - s:
                    set: {v: no}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is cancelled
    Then the workflow should cancel
    And it should take PT1S

  Scenario: A workflow is cancelled while branches wait
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-5, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a: {wait: PT1H}
                - b:
                    listen:
                      to:
                        one:
                          with: {type: lifecycle.b}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is cancelled
    Then the workflow should cancel
    And it should take PT1S

  Scenario: A workflow is cancelled while a call is under way
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-6, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is cancelled
    Then the workflow should cancel
    And it should take PT1S

  Scenario: A workflow is cancelled while it is suspended
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-7, version: 0.1.0}
      do:
        - w: {wait: PT2S}
        - s:
            set: {v: 1}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And time advances by PT3S
    And the workflow is cancelled
    Then the workflow should cancel
    And it should take PT4S

  Scenario: A suspension outlives the worker
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: lifecycle-8, version: 0.1.0}
      do:
        - w: {wait: PT2S}
        - s:
            set: {v: done}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And time advances by PT1S
    And the worker is killed
    And time advances by PT3S
    Then the workflow should be suspended
    When the worker is killed
    And the workflow is resumed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
