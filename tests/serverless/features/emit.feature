Feature: Emit tasks

  Scenario: Emit gives the event, and tells what it does not say itself
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-1, version: 0.1.0}
      do:
        - e:
            emit:
              event:
                with:
                  type: order.placed
                  subject: ${ .who }
                  data: {n: '${ .n }'}
            output: {as: '{type, subject, data, source, specversion, told: (has("id") and has("time"))}'}
      """
    And given the workflow input is:
      """yaml
      {who: ada, n: 2}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      type: order.placed
      subject: ada
      data: {n: 2}
      source: /kit/emit-1/0.1.0
      specversion: '1.0'
      told: true
      """

  Scenario: What a task emits is no event where an attribute is none
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-2, version: 0.1.0}
      do:
        - e:
            emit:
              event:
                with: {type: t, subject: '${ .o }'}
      """
    And given the workflow input is:
      """yaml
      o: {x: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: validation, status: 400, instance: /do/0/e}
      """

  Scenario: A branch hears what another one emits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-3, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - l:
                    listen:
                      to:
                        one:
                          with: {type: ping}
                - e:
                    do:
                      - w: {wait: PT2S}
                      - p:
                          emit:
                            event:
                              with:
                                type: ping
                                data: {v: 7}
                      - q:
                          set: {sent: true}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        -   - {v: 7}
        - {sent: true}
      """

  Scenario: What is emitted again where the flow goes back is another event
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-4, version: 0.1.0}
      do:
        - a:
            do:
              - e:
                  emit:
                    event:
                      with: {type: t}
                  export: {as: '($context // []) + [.id]'}
        - s:
            switch:
              - m: {when: ($context | length) < 3, then: a}
        - o: {set: '${ $context | unique | length }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      3
      """

  Scenario: What an extension emits for each task is another event
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-5, version: 0.1.0}
      use:
        extensions:
          - m:
              extend: wait
              before:
                - e:
                    emit:
                      event:
                        with: {type: t}
                    export: {as: '($context // []) + [.id]'}
      do:
        - a: {wait: PT1S}
        - b: {wait: PT1S}
        - o: {set: '${ $context | unique | length }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      2
      """

  Scenario: What an event says itself is kept
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-6, version: 0.1.0}
      do:
        - e:
            emit:
              event:
                with:
                  id: ${ $workflow.id }
                  source: https://fake-source.com
                  type: com.fake-source.user.greeted.v1
                  subject: s
                  data: {greetings: '${ "Hello \(.first)!" }'}
      """
    And given the workflow input is:
      """yaml
      {first: John}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'id', 'specversion', 'source', 'type', 'data'
    And the workflow output should have a 'source' property with value:
      """yaml
      https://fake-source.com
      """
    And the workflow output should have a 'type' property with value:
      """yaml
      com.fake-source.user.greeted.v1
      """
    And the workflow output should have a 'data' property with value:
      """yaml
      {greetings: Hello John!}
      """

  Scenario: A workflow hears what it has emitted itself where it looks back
    Given a workflow with definition:
      """yaml
      do:
        - e:
            emit:
              event:
                with: {type: emit.back, data: '${ .n }'}
        - l:
            listen:
              to:
                one:
                  with: {type: emit.back}
            metadata:
              outlast: {lookback: PT1M}
      document: {dsl: 1.0.3, namespace: kit, name: emit-back, version: 0.1.0}
      """
    And given the workflow input is:
      """yaml
      {n: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      [5]
      """

  Scenario: A subflow's event reaches its parent
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emitting, version: 0.1.0}
      do:
        - w: {wait: PT2S}
        - e:
            emit:
              event:
                with: {type: emit.child, data: '${ .n }'}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: emit-8, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - l:
                    listen:
                      to:
                        one:
                          with: {type: emit.child}
                - r:
                    run:
                      workflow:
                        namespace: kit
                        name: emitting
                        version: 0.1.0
                        input: {n: 3}
                    output: {as: .data}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        - [3]
        - 3
      """
