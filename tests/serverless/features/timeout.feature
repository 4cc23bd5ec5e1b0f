Feature: Timeouts

  Scenario: A task's timeout is an error of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-1, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT5S

  Scenario: An enclosing try catches it, the task's own does not
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-2, version: 0.1.0}
      do:
        - t:
            try:
              - u:
                  try:
                    - w: {wait: PT1H}
                  catch:
                    do:
                      - s:
                          set: {v: inner}
                  timeout: {after: '${ .d }'}
            catch:
              errors:
                with: {type: https://open-workflow-specification.org/dsl/errors/types/timeout}
              do:
                - s: {set: '${ $error.instance }'}
      """
    And given the workflow input is:
      """yaml
      d: {seconds: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      /do/0/t/try/0/u
      """
    And it should take PT5S

  Scenario: Of nested timeouts the nearer counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-3, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    do:
                      - w: {wait: PT2S}
                    timeout: {after: PT1S}
                - b: {wait: PT9S}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/f/fork/branches/0/a}
      """
    And it should take PT1S

  Scenario: Of equal timeouts the outer counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-4, version: 0.1.0}
      do:
        - d:
            do:
              - w:
                  wait: PT9S
                  timeout: {after: PT5S}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/d}
      """

  Scenario: Each attempt has its own clock
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-5, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
            catch:
              retry:
                delay: PT1S
                limit:
                  attempt: {count: 2}
              do:
                - s:
                    set: {v: late}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: late}
      """
    And it should take PT17S

  Scenario: The duration of an attempt is caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-6, version: 0.1.0}
      do:
        - t:
            try:
              - w: {wait: PT1H}
            catch:
              retry:
                limit:
                  attempt: {count: 1, duration: PT5S}
              do:
                - s:
                    set: {v: late}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: late}
      """
    And it should take PT10S

  Scenario: The duration of all retries is not
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-7, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT2S
                limit: {duration: PT5S}
              do:
                - s:
                    set: {v: no}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t}
      """
    And it should take PT5S

  Scenario: The workflow's timeout
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-8, version: 0.1.0}
      timeout: {after: PT10S}
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
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT10S

  Scenario: The workflow's timeout below a second
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-9, version: 0.1.0}
      timeout: {after: PT0.5S}
      do:
        - w: {wait: PT1H}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """

  Scenario: The workflow's timeout as an expression and as a reference
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-10, version: 0.1.0}
      use:
        timeouts:
          t: {after: '${ .d }'}
      timeout: t
      do:
        - w: {wait: PT1H}
      """
    And given the workflow input is:
      """yaml
      {d: PT7S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT7S

  Scenario: A dynamic timeout of nothing is up at once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-11, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      d: {seconds: 0}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take no time

  Scenario: A timeout spans the tasks of a list
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-12, version: 0.1.0}
      do:
        - t:
            try:
              - d:
                  do:
                    - a: {wait: PT2S}
                    - b: {wait: PT2S}
                    - c: {wait: PT2S}
                  timeout: {after: '${ "PT" + "5S" }'}
            catch:
              do:
                - x:
                    set: {v: 1}
                - s: {set: '${ $error.detail }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      the task took longer than 5 s
      """
    And it should take PT5S

  Scenario: Of nested timeouts the outer may be the nearer
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-13, version: 0.1.0}
      do:
        - d:
            do:
              - e:
                  do:
                    - a: {wait: PT2S}
                    - b: {wait: PT2S}
                  timeout: {after: PT9S}
              - c: {wait: PT2S}
            timeout: {after: PT3S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/d}
      """
    And it should take PT3S

  Scenario: The duration of an attempt spans its tasks, and begins anew
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-14, version: 0.1.0}
      do:
        - t:
            try:
              - a: {wait: PT2S}
              - b: {wait: PT2S}
              - c: {wait: PT2S}
            catch:
              retry:
                limit:
                  attempt: {count: 1, duration: PT5S}
              do:
                - x: {wait: PT1S}
                - s: {set: '${ $error.detail }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      an attempt took longer than 5 s
      """
    And it should take PT11S

  Scenario: The duration of all retries spans their tasks, and what the catch does
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-15, version: 0.1.0}
      do:
        - t:
            try:
              - a: {wait: PT1S}
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT1S
                limit:
                  duration: ${ .d }
                  attempt: {count: 1}
              do:
                - x: {wait: PT1S}
                - y: {wait: PT1S}
      """
    And given the workflow input is:
      """yaml
      {d: PT4.5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t, detail: the retries took longer than 4.5 s}
      """
    And it should take PT4.5S

  Scenario: The workflow's timeout below a second spans its tasks
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-16, version: 0.1.0}
      timeout: {after: PT0.5S}
      do:
        - a: {wait: PT0.2S}
        - b: {wait: PT0.2S}
        - c: {wait: PT0.2S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /, detail: the workflow took longer than 0.5 s}
      """
    And it should take PT0.5S

  Scenario: A wait, inline
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-17, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout:
              after: {seconds: 5}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w, title: Timed out, detail: 'the task took longer than {"seconds":5}'}
      """
    And it should take PT5S

  Scenario: A wait, by an expression that gives a text
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-18, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: '${ "PT\(.n)S" }'}
      """
    And given the workflow input is:
      """yaml
      {n: 6}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT6S

  Scenario: A wait, by reference
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-19, version: 0.1.0}
      use:
        timeouts:
          short: {after: PT7S}
      do:
        - w: {wait: PT1H, timeout: short}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT7S

  Scenario: A wait, by reference to an expression
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-20, version: 0.1.0}
      use:
        timeouts:
          asked: {after: '${ .d }'}
      do:
        - w: {wait: PT1H, timeout: asked}
      """
    And given the workflow input is:
      """yaml
      d: {minutes: 1, seconds: 5}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT65S

  Scenario: A wait that ends in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-21, version: 0.1.0}
      do:
        - w:
            wait: PT4S
            timeout: {after: PT5S}
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
    And it should take PT4S

  Scenario: A call over HTTP, inline
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-22, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
            timeout:
              after: {seconds: 15}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT15S

  Scenario: A call over HTTP, by reference
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-23, version: 0.1.0}
      use:
        timeouts:
          t: {after: PT20S}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
            timeout: t
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT20S

  Scenario: A call over HTTP, by an expression, is caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-24, version: 0.1.0}
      do:
        - t:
            try:
              - c:
                  call: http
                  with: {method: get, endpoint: https://api.example.com/hang}
                  timeout: {after: '${ .d }'}
            catch:
              errors:
                with: {type: https://serverlessworkflow.io/spec/1.0.0/errors/timeout, status: 408}
              do:
                - s:
                    set: {late: '${ $error.instance }'}
      """
    And given the workflow input is:
      """yaml
      {d: PT3S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {late: /do/0/t/try/0/c}
      """
    And it should take PT3S

  Scenario: A call over HTTP that is answered in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-25, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://petstore.swagger.io/v2/pet/5}
            timeout: {after: PT15S}
            output: {as: .id}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      5
      """
    And it should take no time

  Scenario: A call of an operation that is answered in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-26, version: 0.1.0}
      do:
        - c:
            call: openapi
            with:
              document: {endpoint: https://petstore.swagger.io/v2/swagger.json}
              operationId: getPetById
              parameters: {petId: 4}
            timeout: {after: PT15S}
            output: {as: .id}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      4
      """
    And it should take no time

  Scenario: A call of a function
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-27, version: 0.1.0}
      use:
        functions:
          f: {wait: PT1H}
      do:
        - c:
            call: f
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT5S

  Scenario: The timeout of a function's own task is the caller's error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-28, version: 0.1.0}
      use:
        functions:
          f:
            do:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
      do:
        - c: {call: f}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT5S

  Scenario: A list of tasks
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-29, version: 0.1.0}
      do:
        - d:
            do:
              - a: {wait: PT3S}
              - b: {wait: PT3S}
              - c:
                  set: {v: 1}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/d}
      """
    And it should take PT5S

  Scenario: A loop is cut in an iteration
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-30, version: 0.1.0}
      do:
        - t:
            try:
              - l:
                  for: {in: '${ [1, 2, 3, 4] }'}
                  do:
                    - w: {wait: PT2S}
                    - s:
                        set: ${ $item }
                        export: {as: .}
                  timeout: {after: PT5S}
            catch:
              do:
                - s:
                    set: {seen: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {seen: 2}
      """
    And it should take PT5S

  Scenario: Each iteration has a clock of its own
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-31, version: 0.1.0}
      do:
        - l:
            for: {in: '${ [1, 2, 3] }'}
            do:
              - w:
                  wait: PT4S
                  timeout: {after: PT5S}
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
    And it should take PT12S

  Scenario: An iteration of a loop is late
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-32, version: 0.1.0}
      do:
        - l:
            for: {in: '${ ["PT1S", "PT2S", "PT9S"] }'}
            do:
              - w:
                  wait: ${ $item }
                  timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/l/do/0/w}
      """
    And it should take PT8S

  Scenario: A fork cancels its branches
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-33, version: 0.1.0}
      do:
        - t:
            try:
              - f:
                  fork:
                    branches:
                      - a: {wait: PT1H}
                      - b:
                          do:
                            - w: {wait: PT2S}
                            - s:
                                set: {v: 1}
                                export: {as: .v}
                  timeout: {after: PT5S}
            catch:
              do:
                - s:
                    set: {seen: '${ $context }', who: '${ $error.instance }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {seen: 1, who: /do/0/t/try/0/f}
      """
    And it should take PT5S

  Scenario: A competition without a winner
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-34, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a: {wait: PT1H}
                - b: {wait: PT2H}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/f}
      """
    And it should take PT5S

  Scenario: A competitor that is late loses
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-35, version: 0.1.0}
      do:
        - f:
            fork:
              compete: true
              branches:
                - a:
                    wait: PT1H
                    timeout: {after: PT2S}
                - b:
                    do:
                      - w: {wait: PT4S}
                      - s:
                          set: {v: b}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: b}
      """
    And it should take PT4S
    And a should fault
    And s should complete
    And a should run before s

  Scenario: A listen with its iterator
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-36, version: 0.1.0}
      do:
        - l:
            listen:
              to:
                any:
                  - with: {type: timeout.a}
                until: length == 9
            foreach:
              do:
                - w: {wait: PT1S}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: timeout.a, data: 1}
      """
    And time advances by PT1S
    And the event is published:
      """yaml
      {type: timeout.a, data: 2}
      """
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/l}
      """
    And it should take PT5S

  Scenario: A listen by reference hears it in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-37, version: 0.1.0}
      use:
        timeouts:
          t: {after: PT20S}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: timeout.b}
            timeout: t
      """
    When the workflow is executed
    And time advances by PT4S
    And the event is published:
      """yaml
      {type: timeout.b, data: 1}
      """
    Then the workflow should complete with output:
      """yaml
      [1]
      """
    And it should take PT4S

  Scenario: A shell command
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-38, version: 0.1.0}
      do:
        - r:
            run:
              shell: {command: sleep 0.1; echo done}
            timeout: {after: PT30S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      "done\n"
      """
    And it should take no time

  Scenario: A subflow
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: slow-child, version: 0.1.0}
      do:
        - w: {wait: PT1H}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-39, version: 0.1.0}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: slow-child, version: 0.1.0}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/r}
      """
    And it should take PT5S

  Scenario: The timeout of a subflow's workflow is the error of the task
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: late-child, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - w: {wait: PT1H}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-40, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  run:
                    workflow: {namespace: kit, name: late-child, version: 0.1.0}
            catch:
              errors:
                with: {status: 408}
              do:
                - s: {set: '${ $error.instance }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      /do/0/t/try/0/r
      """
    And it should take PT5S

  Scenario: The timeout of a task in a subflow is the error of the task that runs it
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: tasked-child, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: PT5S}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-41, version: 0.1.0}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: tasked-child, version: 0.1.0}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/r}
      """
    And it should take PT5S

  Scenario: What takes no time is done in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-42, version: 0.1.0}
      do:
        - a:
            set: {x: 1}
            timeout: {after: PT1S}
        - b:
            switch:
              - m: {when: .x == 1, then: c}
            timeout:
              after: {seconds: 1}
        - c:
            emit:
              event:
                with: {type: timeout.c, data: '${ .x }'}
            timeout: {after: '${ "PT1S" }'}
            output: {as: .data}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      1
      """
    And it should take no time

  Scenario: A task that raises in time has its own error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-43, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: https://x/e, status: 418}
            timeout: {after: PT1S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 418, instance: /do/0/r}
      """
    And it should take no time

  Scenario: A set whose time is up at once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-44, version: 0.1.0}
      do:
        - a:
            set: {x: 1}
            timeout: {after: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      {d: PT0S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/a}
      """
    And it should take no time

  Scenario: An emit whose time is up at once publishes nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-45, version: 0.1.0}
      do:
        - t:
            try:
              - e:
                  emit:
                    event:
                      with: {type: timeout.d}
                  timeout: {after: '${ {seconds: 0} }'}
            catch:
              do:
                - s: {set: '${ $error.status }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      408
      """
    And it should take no time

  Scenario: A switch whose time is up at once goes nowhere
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-46, version: 0.1.0}
      do:
        - s:
            switch:
              - m: {then: b}
            timeout: {after: '${ "PT0S" }'}
        - a:
            set: {v: a}
        - b:
            set: {v: b}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/s}
      """

  Scenario: A raise whose time is up at once
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-47, version: 0.1.0}
      do:
        - r:
            raise:
              error: {type: https://x/e, status: 418}
            timeout: {after: '${ "PT0S" }'}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/r}
      """

  Scenario: Of three nested timeouts the innermost is nearest
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-48, version: 0.1.0}
      do:
        - a:
            do:
              - b:
                  do:
                    - c:
                        wait: PT1H
                        timeout: {after: PT2S}
                  timeout: {after: PT5S}
            timeout: {after: PT9S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/a/do/0/b/do/0/c}
      """
    And it should take PT2S

  Scenario: Of three nested timeouts the outermost is nearest
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-49, version: 0.1.0}
      do:
        - a:
            do:
              - b:
                  do:
                    - c:
                        wait: PT1H
                        timeout: {after: PT9S}
                  timeout: {after: PT5S}
            timeout: {after: PT2S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/a}
      """
    And it should take PT2S

  Scenario: Of three equal timeouts the outermost counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-50, version: 0.1.0}
      do:
        - a:
            do:
              - b:
                  do:
                    - c:
                        wait: PT1H
                        timeout: {after: PT5S}
                  timeout: {after: PT5S}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/a}
      """
    And it should take PT5S

  Scenario: An inner timeout that is caught lets the outer one run on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-51, version: 0.1.0}
      do:
        - d:
            do:
              - t:
                  try:
                    - w:
                        wait: PT1H
                        timeout: {after: PT2S}
                  catch:
                    do:
                      - s:
                          set: {v: caught}
              - x: {wait: PT1H}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/d}
      """
    And it should take PT5S

  Scenario: A timeout of the try spans its attempts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-52, version: 0.1.0}
      do:
        - t:
            try:
              - w: {wait: PT2S}
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry: {delay: PT1S}
              do:
                - s:
                    set: {v: no}
            timeout: {after: PT10S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t}
      """
    And it should take PT10S

  Scenario: A delay that passes the deadline still waits for it
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-53, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry: {delay: PT10S}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t}
      """
    And it should take PT5S

  Scenario: The timeout of the try spans its catch
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-54, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - w: {wait: PT1H}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t}
      """
    And it should take PT5S

  Scenario: A task of the catch is late
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-55, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - w:
                    wait: PT1H
                    timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t/catch/do/0/w}
      """
    And it should take PT5S

  Scenario: The second attempt is in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-56, version: 0.1.0}
      do:
        - t:
            try:
              - n:
                  set: ${ ($context // 0) + 1 }
                  export: {as: .}
              - w:
                  wait: ${ if $context == 1 then "PT1H" else "PT1S" end }
                  timeout: {after: PT5S}
            catch:
              errors:
                with: {status: 408}
              retry:
                delay: PT2S
                limit:
                  attempt: {count: 3}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      2
      """
    And it should take PT8S

  Scenario: The duration of an attempt, by an expression
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-57, version: 0.1.0}
      do:
        - t:
            try:
              - w: {wait: PT1H}
            catch:
              retry:
                limit:
                  attempt: {count: 2, duration: '${ .d }'}
              do:
                - s:
                    set: {v: late}
      """
    And given the workflow input is:
      """yaml
      {d: PT3S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: late}
      """
    And it should take PT9S

  Scenario: The duration of all attempts ends what is under way
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-58, version: 0.1.0}
      do:
        - t:
            try:
              - w: {wait: PT3S}
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT1S
                limit: {duration: PT10S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/t}
      """
    And it should take PT10S

  Scenario: The workflow, inline, while a list waits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-59, version: 0.1.0}
      timeout:
        after: {seconds: 10}
      do:
        - d:
            do:
              - w: {wait: PT1H}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT10S

  Scenario: The workflow, by an expression on its raw input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-60, version: 0.1.0}
      timeout: {after: '${ "PT\(.n)S" }'}
      input: {from: .inner}
      do:
        - w: {wait: PT1H}
      """
    And given the workflow input is:
      """yaml
      n: 8
      inner: {n: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT8S

  Scenario: The workflow, while a call is under way
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-61, version: 0.1.0}
      timeout: {after: PT10S}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
            timeout: {after: PT30S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT10S

  Scenario: The workflow, while it listens
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-62, version: 0.1.0}
      timeout: {after: PT10S}
      do:
        - l:
            listen:
              to:
                one:
                  with: {type: timeout.e}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT10S

  Scenario: The workflow, while a subflow runs, ends that, too
    Given a registered workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: cut-child, version: 0.1.0}
      do:
        - w: {wait: PT1H}
      """
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-63, version: 0.1.0}
      timeout: {after: PT10S}
      do:
        - r:
            run:
              workflow: {namespace: kit, name: cut-child, version: 0.1.0}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT10S

  Scenario: The workflow in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-64, version: 0.1.0}
      timeout: {after: PT10S}
      do:
        - w: {wait: PT9S}
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
    And it should take PT9S

  Scenario: A task before the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-65, version: 0.1.0}
      timeout: {after: PT10S}
      do:
        - w:
            wait: PT1H
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT5S

  Scenario: The workflow before the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-66, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT10S}
            catch:
              do:
                - s:
                    set: {v: no}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT5S

  Scenario: At one instant the workflow comes before the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-67, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - w:
            wait: PT1H
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT5S

  Scenario: At one instant a wait comes after its timeout
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-68, version: 0.1.0}
      do:
        - w:
            wait: PT5S
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT5S

  Scenario: At one instant the first branch counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-69, version: 0.1.0}
      do:
        - f:
            fork:
              branches:
                - a:
                    wait: PT1H
                    timeout: {after: PT5S}
                - b:
                    wait: PT1H
                    timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/f/fork/branches/0/a}
      """
    And it should take PT5S

  Scenario: A worker that dies in the middle of a wait changes nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-70, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: PT5S}
      """
    When the workflow is executed
    And time advances by PT2S
    And the worker is killed
    And time advances by PT1S
    Then the workflow should be waiting
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """
    And it should take PT5S

  Scenario: A worker that dies in the middle of a call changes nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-71, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
            timeout: {after: PT15S}
      """
    When the workflow is executed
    And time advances by PT5S
    And the worker is killed
    And time advances by PT5S
    And the worker is killed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT15S

  Scenario: A worker that dies in the middle of a backoff changes nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-72, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT4S
                limit:
                  attempt: {count: 2}
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    And time advances by PT2S
    And the worker is killed
    And time advances by PT4S
    And the worker is killed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT8S

  Scenario: With nobody but a watchdog a task is decided in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-73, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
            catch:
              do:
                - s: {set: '${ $error.instance }'}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And a watchdog is started
    And time advances by PT20S
    Then '/do/0/t/try/0/w' should be open as 'wait'
    When a worker is started
    Then the workflow should complete with output:
      """yaml
      /do/0/t/try/0/w
      """
    And it should take PT21S

  Scenario: With nobody but a watchdog a call is decided in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-74, version: 0.1.0}
      do:
        - c:
            call: http
            with: {method: get, endpoint: https://api.example.com/hang}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And a watchdog is started
    And time advances by PT20S
    Then the workflow should be running
    When a worker is started
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/c}
      """
    And it should take PT21S

  Scenario: With nobody but a watchdog the workflow ends in time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-75, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - w: {wait: PT1H}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And a watchdog is started
    And time advances by PT20S
    And a worker is started
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT5S

  Scenario: With nobody alive at all the verdict of a task is the same
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-76, version: 0.1.0}
      do:
        - w:
            wait: PT10S
            timeout: {after: PT5S}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And time advances by PT20S
    And a worker is started
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/w}
      """

  Scenario: With nobody alive at all the verdict of the workflow is the same
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-77, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - w: {wait: PT10S}
      """
    When the workflow is executed
    And time advances by PT1S
    And every worker is killed
    And time advances by PT20S
    And a worker is started
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """

  Scenario: A workflow that nobody has begun ends in time
    Given no worker is alive
    And a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-78, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - s:
            set: {v: 1}
      """
    When the workflow is executed
    Then the workflow should be pending
    When a watchdog is started
    And time advances by PT20S
    And a worker is started
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT5S

  Scenario: A suspension stops no clock of a task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-79, version: 0.1.0}
      do:
        - d:
            do:
              - w: {wait: PT2S}
              - s:
                  set: {v: 1}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    And time advances by PT3S
    Then the workflow should be suspended
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/d}
      """
    And it should take PT5S

  Scenario: A suspension stops no clock of the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-80, version: 0.1.0}
      timeout: {after: PT5S}
      do:
        - w: {wait: PT2S}
        - s:
            set: {v: 1}
      """
    When the workflow is executed
    And time advances by PT1S
    And the workflow is suspended
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /}
      """
    And it should take PT5S

  Scenario: A task that is skipped has no clock
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-81, version: 0.1.0}
      do:
        - w:
            if: .no
            wait: PT1H
            timeout: {after: '${ .nothing }'}
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
    And it should take no time

  Scenario: The clock's expression sees the transformed input and the context
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-82, version: 0.1.0}
      do:
        - c:
            set: ${ . }
            export: {as: '{d: 3}'}
        - w:
            input: {from: .inner}
            wait: PT1H
            timeout: {after: '${ {seconds: (.n + $context.d + $input.n)} }'}
      """
    And given the workflow input is:
      """yaml
      inner: {n: 1}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/1/w}
      """
    And it should take PT5S

  Scenario: An expression that gives no duration is an error of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-83, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      {d: soon}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/w}
      """

  Scenario: An expression that gives a calendar duration is an error of the task
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-84, version: 0.1.0}
      do:
        - w:
            wait: PT1H
            timeout: {after: '${ .d }'}
      """
    And given the workflow input is:
      """yaml
      {d: P1M}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: expression, status: 400, instance: /do/0/w}
      """

  Scenario: A task that is late goes nowhere
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-85, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
                  then: b
              - a:
                  set: {v: a}
              - b:
                  set: {v: b}
            catch:
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """
    And it should take PT5S

  Scenario: What is late exports nothing
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-86, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  do:
                    - x: {wait: PT1H}
                  timeout: {after: PT5S}
                  export: {as: '"exported"'}
            catch:
              do:
                - s:
                    set: {c: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {c: null}
      """
    And it should take PT5S

  Scenario: An extension sees nothing of a timeout
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-87, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: wait
              after:
                - e:
                    set: ${ . }
                    export: {as: '"after"'}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
            catch:
              do:
                - s:
                    set: {c: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {c: null}
      """
    And it should take PT5S

  Scenario: What an extension does counts
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-88, version: 0.1.0}
      use:
        extensions:
          - x:
              extend: set
              before:
                - e: {wait: PT1H}
      do:
        - s:
            set: {v: 1}
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: timeout, status: 408, instance: /do/0/s}
      """
    And it should take PT5S

  Scenario: All spellings of the type are the same
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-89, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
            catch:
              errors:
                with: {type: https://serverlessworkflow.io/dsl/errors/types/timeout}
              do:
                - s: {set: '${ $error.type }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      https://serverlessworkflow.io/spec/1.0.0/errors/timeout
      """

  Scenario: The tasks after one that is caught have their time
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: timeout-90, version: 0.1.0}
      do:
        - t:
            try:
              - w:
                  wait: PT1H
                  timeout: {after: PT5S}
            catch:
              do:
                - s:
                    set: {v: 1}
        - x:
            wait: PT4S
            timeout: {after: PT5S}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1}
      """
    And it should take PT9S
