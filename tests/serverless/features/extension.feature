Feature: Extensions

  Scenario: An extension may take the place of a task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-1, version: 0.1.0}
      use:
        extensions:
          - m:
              extend: set
              when: $task.set.x == 1
              before:
                - z:
                    set: {mock: true}
                    then: exit
      do:
        - c:
            set: {x: 1}
        - d:
            set: {x: 2, was: '${ . }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      x: 2
      was: {mock: true}
      """

  Scenario: Extensions of several tasks go around a list, in order
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-2, version: 0.1.0}
      use:
        extensions:
          - m:
              extend: composite
              before:
                - a:
                    set: ${ [$context[], "m1"] }
                    export: {as: .}
                - b:
                    set: ${ [$context[], "m2"] }
                    export: {as: .}
              after:
                - a:
                    set: ${ [$context[], "m3"] }
                    export: {as: .}
                - b:
                    set: ${ [$context[], "m4"] }
                    export: {as: .}
          - n:
              extend: composite
              when: .k == 1
              before:
                - a:
                    set: ${ [$context[], "n1"] }
                    export: {as: .}
              after:
                - a:
                    set: ${ [$context[], "n2"] }
                    export: {as: .}
          - o:
              extend: composite
              when: .k == 2
              before:
                - a:
                    raise:
                      error: {type: x, status: 501}
      do:
        - c:
            set: {k: 1}
            export: {as: '[]'}
        - d:
            do:
              - x:
                  set: {v: 1}
              - y:
                  set: {v: 2}
                  then: exit
            then: f
        - e:
            set: {no: 1}
        - f:
            set: {v: '${ .v }', c: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      v: 2
      c: [m1, m2, n1, n2, m3, m4]
      """

  Scenario: Before and after do not change what flows
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-3, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: set
              before:
                - b:
                    set: {v: before}
                    export: {as: '(($context // []) + ["before"])'}
              after:
                - a:
                    set: {v: after}
                    export: {as: '(($context // []) + ["after"])'}
      do:
        - s:
            set: {v: mine}
        - w:
            wait: '${ {seconds: 0} }'
            output: {as: '{data: ., context: $context}'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      data: {v: mine}
      context: [before, after]
      """

  Scenario: Extensions nest in the order of their declaration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-4, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: wait
              before:
                - b:
                    set: {v: 1}
                    export: {as: '(($context // []) + ["x before"])'}
              after:
                - a:
                    set: {v: 1}
                    export: {as: '($context + ["x after"])'}
          - y:
              extend: all
              when: $task.wait != null
              before:
                - b:
                    set: {v: 1}
                    export: {as: '(($context // []) + ["y before"])'}
              after:
                - a:
                    set: {v: 1}
                    export: {as: '($context + ["y after"])'}
      do:
        - w: {wait: PT1S}
        - s: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [x before, y before, y after, x after]
      """

  Scenario: Extensions do not extend their own tasks
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-5, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: set
              before:
                - b:
                    set: {v: 1}
                    export: {as: ($context // 0) + 1}
      do:
        - s:
            set: {v: 1}
        - t: {set: '${ {v: .v, n: $context} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1, n: 2}
      """

  Scenario: An extension sees the definition of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-6, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: call
              when: $task.with.endpoint == "https://api.example.com/mocked"
              before:
                - m:
                    set: {mocked: true}
                    then: exit
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/mocked}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {mocked: true}
      """

  Scenario: An error in an extension is an error of the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: extension-7, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: set
              before:
                - r:
                    raise:
                      error: {type: x, status: 501}
      do:
        - t:
            try:
              - s:
                  set: {v: 1}
            catch: {as: e, when: $e.status == 501}
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
