Feature: Listen tasks

  Scenario: Listen to one gives an array of its data
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-1, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: paid}
      """
    When the workflow is executed
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: shipped, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {n: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {n: 2}
      """
    Then the workflow should complete with output:
      """yaml
        - {n: 1}
      """

  Scenario: A listen reads envelopes
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-2, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: paid}
              read: envelope
            output: {as: '.[0] | {source, type, data}'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {n: 1}
      """
    Then the workflow should complete with output:
      """yaml
      source: /test
      type: paid
      data: {n: 1}
      """

  Scenario: A listen reads raw data
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-3, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any: []
                until: length == 2
              read: raw
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {n: 1}
      """
    And the event is published:
      """yaml
      {type: paid, data: text}
      """
    Then the workflow should complete with output:
      """yaml
      ['{"n":1}', text]
      """

  Scenario: Events from before a listen are not seen
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-4, version: 0.1.0}
      do:
        - w: {wait: PT5S}
        - l:
            listen:
              to:
                one:
                  with: {type: paid}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: paid, data: 1}
      """
    And time advances by PT8S
    And the event is published:
      """yaml
      {type: paid, data: 2}
      """
    Then the workflow should complete with output:
      """yaml
      [2]
      """

  Scenario: A listen may look back
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-5, version: 0.1.0}
      do:
        - w: {wait: PT5S}
        - l:
            listen:
              to:
                any:
                  - with: {type: paid}
                until: length == 2
            metadata:
              outlast: {lookback: PT3S}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: paid, data: 1}
      """
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: paid, data: 2}
      """
    And time advances by PT6S
    And the event is published:
      """yaml
      {type: paid, data: 3}
      """
    Then the workflow should complete with output:
      """yaml
      [2, 3]
      """

  Scenario: What is sent to a run alone is kept for it
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-6, version: 0.1.0}
      do:
        - w: {wait: PT5S}
        - l:
            listen:
              to:
                one:
                  with: {type: paid}
        - m:
            listen:
              to:
                one:
                  with: {type: paid}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is sent to the workflow:
      """yaml
      {type: paid, data: 1}
      """
    And time advances by PT1S
    And the event is sent to the workflow:
      """yaml
      {type: paid, data: 2}
      """
    Then the workflow should complete with output:
      """yaml
      [2]
      """

  Scenario: Listen to any without until ends with the first
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-7, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a, data: '${ . > 5 }'}
                  - with: {type: b}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 3}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 4}
      """
    Then the workflow should complete with output:
      """yaml
      [4]
      """

  Scenario: Listen to any of nothing is every event
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-8, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any: []
      """
    When the workflow is executed
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: whatever, data: 4}
      """
    Then the workflow should complete with output:
      """yaml
      [4]
      """

  Scenario: Until a condition on what was consumed
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-9, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a}
                until: (map(.n) | add) > 5
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {n: 3}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: b
      data: {n: 9}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {n: 3}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {n: 1}
      """
    Then the workflow should complete with output:
      """yaml
        - {n: 3}
        - {n: 3}
      """

  Scenario: Until another event, which is no part of the output
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-10, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a}
                until:
                  one:
                    with: {type: stop}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: stop, data: 3}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 4}
      """
    Then the workflow should complete with output:
      """yaml
      [1, 2]
      """

  Scenario: Listen to all wants one event for each filter
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-11, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                all:
                  - with: {type: a}
                  - with: {type: b}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 3}
      """
    Then the workflow should complete with output:
      """yaml
      [1, 3]
      """

  Scenario: Filters take texts, patterns, parts of objects and expressions
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-12, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                all:
                  - with: {type: order\.(paid|sent), source: /shop}
                  - with:
                      type: t
                      data: {kind: x}
                  - with: {type: u, subject: '${ $input.who }'}
      """
    And given the workflow input is:
      """yaml
      {who: ada}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: order.lost, source: /shop, data: 0}
      """
    And the event is published:
      """yaml
      {type: order.sent, source: /shop, data: 1}
      """
    And the event is published:
      """yaml
      type: t
      data: {kind: y}
      """
    And the event is published:
      """yaml
      type: t
      data: {kind: x, more: 1}
      """
    And the event is published:
      """yaml
      {type: u, subject: bob, data: 2}
      """
    And the event is published:
      """yaml
      {type: u, subject: ada, data: 3}
      """
    Then the workflow should complete with output:
      """yaml
        - 1
        - {kind: x, more: 1}
        - 3
      """

  Scenario: A filter that fails takes nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-13, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: a, data: '${ .temperature > 38 }'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: text}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {temperature: 39}
      """
    Then the workflow should complete with output:
      """yaml
        - {temperature: 39}
      """

  Scenario: Correlation with what is expected
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-14, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: paid}
                  correlate:
                    order: {from: .data.order, expect: '${ .id }'}
      """
    And given the workflow input is:
      """yaml
      {id: 7}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {order: 8}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: paid
      data: {order: 7.0}
      """
    Then the workflow should complete with output:
      """yaml
        - {order: 7.0}
      """

  Scenario: Correlation with the first value that was seen
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-15, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                all:
                  - with: {type: a}
                    correlate:
                      room: {from: .data.room}
                  - with: {type: b}
                    correlate:
                      room: {from: .data.room}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {room: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: b
      data: {room: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: b
      data: {room: 1}
      """
    Then the workflow should complete with output:
      """yaml
        - {room: 1}
        - {room: 1}
      """

  Scenario: Correlation by more than a path
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-16, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: a}
                  correlate:
                    room: {from: .data.rooms | first, expect: '3'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data:
        rooms: ['4', '3']
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data:
        rooms: ['3']
      """
    Then the workflow should complete with output:
      """yaml
        - rooms: ['3']
      """

  Scenario: Tasks are run for each event, one after the other
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-17, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a}
                until: length == 3
            foreach:
              item: e
              at: i
              do:
                - w: {wait: PT5S}
                - s:
                    set: {n: '${ $e.n }', i: '${ $i }', c: '${ $context }'}
              output: {as: '{v: (.n * 10), c}'}
              export: {as: .v}
        - s:
            set: {out: '${ . }', context: '${ $context }'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      type: a
      data: {n: 1}
      """
    And the event is published:
      """yaml
      type: a
      data: {n: 2}
      """
    And the event is published:
      """yaml
      type: a
      data: {n: 3}
      """
    Then the workflow should complete with output:
      """yaml
      out:
        - {v: 10, c: null}
        - {v: 20, c: 10}
        - {v: 30, c: 20}
      context: 30
      """
    And it should take PT16S

  Scenario: Exit ends what is done for an event
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-18, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a}
                until: length == 2
            foreach:
              do:
                - s: {set: '${ . + 1 }', then: exit}
                - t:
                    set: {v: 0}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And the event is published:
      """yaml
      {type: a, data: 2}
      """
    Then the workflow should complete with output:
      """yaml
      [2, 3]
      """

  Scenario: A listen that hears nothing times out
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-19, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: a}
            timeout: {after: PT30S}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b}
      """
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/l}
      """
    And it should take PT30S

  Scenario: The timeout of a listen is caught, and it listens again
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-20, version: 0.1.0}
      do:
        - t:
            try:
              - l:
                  listen:
                    to:
                      one:
                        with: {type: a}
                  timeout: {after: PT5S}
            catch:
              errors:
                with: {status: 408}
              retry: {delay: PT1S}
      """
    When the workflow is executed
    And time advances by PT5.5S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And time advances by PT2.5S
    And the event is published:
      """yaml
      {type: a, data: 2}
      """
    Then the workflow should complete with output:
      """yaml
      [2]
      """
    And it should take PT8S

  Scenario: The first of competing listens counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-21, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a:
                    listen:
                      to:
                        one:
                          with: {type: a}
                - b:
                    listen:
                      to:
                        one:
                          with: {type: b}
      """
    When the workflow is executed
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: b, data: b}
      """
    Then the workflow should complete with output:
      """yaml
      [b]
      """

  Scenario: Both listens of a fork hear an event
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-22, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    listen:
                      to:
                        one:
                          with: {type: a}
                - b:
                    listen:
                      to:
                        one:
                          with: {type: a}
      """
    When the workflow is executed
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    Then the workflow should complete with output:
      """yaml
        - [1]
        - [1]
      """

  Scenario: A loop listens again and again
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-23, version: 0.1.0}
      do:
        - c:
            for: {in: '${ [1, 2, 3] }'}
            do:
              - l:
                  listen:
                    to:
                      one:
                        with: {type: a}
                  output: {as: '.[0]'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 3}
      """
    Then the workflow should complete with output:
      """yaml
      3
      """

  Scenario: An event that another listen let go is still from before
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-24, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    listen:
                      to:
                        one:
                          with: {type: t, data: '${ . > 5 }'}
                - b:
                    do:
                      - w: {wait: PT3S}
                      - l:
                          listen:
                            to:
                              one:
                                with: {type: t}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: t, data: 1}
      """
    And time advances by PT4S
    And the event is published:
      """yaml
      {type: t, data: 7}
      """
    Then the workflow should complete with output:
      """yaml
        - [7]
        - [7]
      """

  Scenario: A listen inside of what is done for an event loses nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-25, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: a}
                until:
                  one:
                    with: {type: stop}
            foreach:
              item: e
              do:
                - w: {wait: PT2S}
                - i:
                    listen:
                      to:
                        any:
                          - with: {type: b}
                - s: {set: '${ [$e, .[0]] }'}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And time advances by PT0.5S
    And the event is published:
      """yaml
      {type: a, data: 2}
      """
    And time advances by PT0.5S
    And the event is published:
      """yaml
      {type: b, data: 0}
      """
    And time advances by PT2S
    And the event is published:
      """yaml
      {type: b, data: 3}
      """
    And time advances by PT3S
    And the event is published:
      """yaml
      {type: a, data: 4}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 5}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 6}
      """
    And time advances by PT4S
    And the event is published:
      """yaml
      {type: stop}
      """
    And the event is published:
      """yaml
      {type: b, data: 7}
      """
    Then the workflow should complete with output:
      """yaml
        - [1, 3]
        - [2, 5]
        - [4, 7]
      """

  Scenario: What is done for an event may end the workflow, where nothing else does
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-26, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any: []
                until: ${ false }
            foreach:
              item: e
              at: i
              do:
                - a: {set: '${ [$i, .] }'}
                - s:
                    switch:
                      - m: {when: $e == "stop", then: end}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: a, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: b, data: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: c, data: stop}
      """
    Then the workflow should complete with output:
      """yaml
      [2, stop]
      """

  Scenario: A worker dies while a workflow listens
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-27, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: listen.a}
                until: length == 2
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: listen.a, data: 1}
      """
    And time advances by PT1S
    And the worker is killed
    And time advances by PT1S
    Then '/do/0/l' should be open as 'listen'
    When the event is published:
      """yaml
      {type: listen.a, data: 2}
      """
    Then the workflow should complete with output:
      """yaml
      [1, 2]
      """

  Scenario: An event comes while no worker is there
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-28, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: listen.b}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: listen.b, data: 1}
      """
    And time advances by PT10S
    And a worker is started
    Then the workflow should complete with output:
      """yaml
      [1]
      """

  Scenario: Events of other types are let go
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: listen-29, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: listen.c}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: listen.d, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: listen.e, data: 2}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: listen.c, data: 3}
      """
    Then the workflow should complete with output:
      """yaml
      [3]
      """
