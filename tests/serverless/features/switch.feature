Feature: Switch tasks

  Scenario: Switch takes the first case that matches
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-1, version: 0.1.0}
      do:
        - s:
            switch:
              - a: {when: .x > 1, then: big}
              - b: {when: .x > 0, then: end}
        - small:
            set: {v: 1}
            then: end
        - big:
            set: {r: big}
      """
    And given the workflow input is:
      """yaml
      {x: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {r: big}
      """

  Scenario: Switch without a match goes where the task goes
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-2, version: 0.1.0}
      do:
        - s:
            switch:
              - a: {when: .x > 9, then: end}
            then: last
        - no:
            set: {r: no}
        - last:
            set: {r: last}
      """
    And given the workflow input is:
      """yaml
      {x: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {r: last}
      """

  Scenario: The default is taken where nothing matches
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-3, version: 0.1.0}
      do:
        - s:
            switch:
              - a: {when: .x > 9, then: end}
              - d: {then: last}
        - no:
            set: {r: no}
        - last:
            set: {r: last}
      """
    And given the workflow input is:
      """yaml
      {x: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {r: last}
      """

  Scenario: A switch gives its input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-4, version: 0.1.0}
      do:
        - s:
            switch:
              - d: {then: continue}
      """
    And given the workflow input is:
      """yaml
      {x: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {x: 5}
      """

  Scenario: Zero and empty texts are true, null and false are not
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-5, version: 0.1.0}
      do:
        - a:
            switch:
              - z: {when: .zero, then: b}
              - d: {then: end}
        - b:
            switch:
              - t: {when: .text, then: c}
              - d: {then: end}
        - c:
            switch:
              - n: {when: .none, then: end}
              - f: {when: 'false', then: end}
              - d: {then: e}
        - e:
            set: {v: reached}
      """
    And given the workflow input is:
      """yaml
      {zero: 0, text: '', none: null}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: reached}
      """

  Scenario: A case may leave the list
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-6, version: 0.1.0}
      do:
        - d:
            do:
              - s:
                  switch:
                    - a: {when: .x == 1, then: exit}
              - n:
                  set: {x: 2}
        - e: {set: '${ {after: .x} }'}
      """
    And given the workflow input is:
      """yaml
      {x: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {after: 1}
      """

  Scenario: A condition that fails is an error of the switch
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: switch-7, version: 0.1.0}
      do:
        - s:
            switch:
              - a: {when: .x.y.z, then: end}
      """
    And given the workflow input is:
      """yaml
      {x: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/s}
      """
