Feature: Data flow

  Scenario: Set replaces the data
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-1, version: 0.1.0}
      do:
        - a:
            set: {x: '${ .n + 1 }', k: 1}
        - b:
            set: {y: '${ .x * 2 }'}
      """
    And given the workflow input is:
      """yaml
      {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {y: 4}
      """

  Scenario: Data flows through input, output and export
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-2, version: 0.1.0}
      do:
        - a:
            input: {from: .n}
            set: '${ {v: (. + 1), raw: $task.input.n, given: $input} }'
            output: {as: .v}
            export: {as: '{kept: ., out: $output}'}
        - b:
            set: {o: '${ . }', c: '${ $context }'}
      """
    And given the workflow input is:
      """yaml
      {n: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      o: 6
      c: {kept: 6, out: 6}
      """

  Scenario: The workflow has its own input and output
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-3, version: 0.1.0}
      input: {from: .a}
      output: {as: '{out: .}'}
      do:
        - a: {set: '${ . + $workflow.input.b }'}
      """
    And given the workflow input is:
      """yaml
      {a: 1, b: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {out: 3}
      """

  Scenario: A skipped task gives its input and goes on with the next
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-4, version: 0.1.0}
      do:
        - a:
            if: .no
            set: {x: 1}
            then: end
        - b:
            set: {was: '${ . }'}
      """
    And given the workflow input is:
      """yaml
      {k: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      was: {k: 2}
      """

  Scenario: What is not said is null
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-5, version: 0.1.0}
      do:
        - a:
            set: {i: '${ . }', c: '${ $context }', n: '${ $task.name }', r: '${ $task.reference }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {i: null, c: null, n: a, r: /do/0/a}
      """

  Scenario: Several outputs are a list
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-6, version: 0.1.0}
      do:
        - a:
            set: {x: '${ 1, 2 }', y: '${ empty }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      x: [1, 2]
      y: null
      """

  Scenario: The instant at which a task or the workflow began stays
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-7, version: 0.1.0}
      do:
        - w: {wait: PT2S}
        - l:
            do:
              - a: {wait: PT3S}
              - b: {set: '${ $workflow.startedAt.epoch.seconds }'}
            output: {as: '[$task.startedAt.epoch.seconds - ., $task.input.n]'}
      """
    And given the workflow input is:
      """yaml
      {n: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [2, 1]
      """

  Scenario: The condition sees the raw input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-8, version: 0.1.0}
      do:
        - a:
            if: .raw
            input: {from: '{n: 1}'}
            set: ${ . }
      """
    And given the workflow input is:
      """yaml
      {raw: true}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {n: 1}
      """

  Scenario: The condition sees the context
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-9, version: 0.1.0}
      do:
        - a:
            set: {v: 1}
            export: {as: '{go: false}'}
        - b:
            if: $context.go
            set: {v: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1}
      """

  Scenario: Templates of input and output
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-10, version: 0.1.0}
      do:
        - a:
            input:
              from: {x: '${ .a }', y: const}
            set: ${ . }
            output:
              as: {z: '${ .x }', w: '${ $input.y }'}
      """
    And given the workflow input is:
      """yaml
      {a: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {z: 1, w: const}
      """

  Scenario: A context grows
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-11, version: 0.1.0}
      do:
        - a:
            set: {v: 1}
            export: {as: '$context + {a: .v}'}
        - b:
            set: {v: 2}
            export: {as: '$context + {b: .v}'}
        - c: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {a: 1, b: 2}
      """

  Scenario: A list exports before those outside of it
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-12, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  set: {v: 1}
                  export: {as: '"inner"'}
            export: {as: '[$context, .v]'}
        - c: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [inner, 1]
      """

  Scenario: What a task is told of itself
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-13, version: 0.1.0}
      do:
        - d:
            do:
              - a:
                  input: {from: .x}
                  set: {name: '${ $task.name }', reference: '${ $task.reference }', raw: '${ $task.input.x }',
                    began: '${ $task.startedAt.epoch.seconds > 0 }'}
      """
    And given the workflow input is:
      """yaml
      {x: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {name: a, reference: /do/0/d/do/0/a, raw: 1, began: true}
      """

  Scenario: What is told of the workflow and the runtime
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: told-name, version: 0.1.0}
      input: {from: .inner}
      do:
        - a:
            set: {raw: '${ $workflow.input.n }', name: '${ $workflow.definition.document.name }', begun: '${
                $workflow.startedAt.epoch.milliseconds > 0 }', runtime: '${ $runtime.name }', kit: '${ $runtime.metadata.kit
                }'}
      """
    And given the workflow input is:
      """yaml
      n: 1
      inner: {}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {raw: 1, name: told-name, begun: true, runtime: outlast, kit: true}
      """

  Scenario: No input is null all the way
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: data-flow-15, version: 0.1.0}
      do:
        - a:
            set: {t: '${ . | type }', plus: '${ .x + [1] }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      t: 'null'
      plus: [1]
      """
