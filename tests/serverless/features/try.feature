Feature: Try tasks

  Scenario: What is caught is in the variable
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-1, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://x/e, status: 400}
            catch:
              errors:
                with: {status: 400}
              as: e
              do:
                - s:
                    set: {e: '${ $e }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      e: {type: https://x/e, status: 400, instance: /do/0/t/try/0/r}
      """

  Scenario: What does not fit is not caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-2, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://x/e, status: 400}
            catch:
              errors:
                with: {status: 500}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 400, instance: /do/0/t/try/0/r}
      """

  Scenario: Caught with nothing to do gives the input
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-3, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              errors:
                with: {instance: /do/t/try/r}
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

  Scenario: An expression says which errors are caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-4, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://x/e, status: 503, title: busy}
            catch:
              errors:
                with: {type: '${ .caught }', title: '${ $error.title }'}
              do:
                - s:
                    set: {v: ours}
      """
    And given the workflow input is:
      """yaml
      {caught: https://x/e}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: ours}
      """

  Scenario: An expression says which errors go on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-5, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://x/e, status: 503}
            catch:
              errors:
                with: {type: '${ .caught }'}
              do:
                - s:
                    set: {v: ours}
      """
    And given the workflow input is:
      """yaml
      {caught: https://x/f}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: https://x/e, status: 503, instance: /do/0/t/try/0/r}
      """

  Scenario: When and exceptWhen choose
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-6, version: 0.1.0}
      do:
        - t:
            try:
              - u:
                  try:
                    - r:
                        raise:
                          error: {type: x, status: 501}
                  catch: {when: $error.status == 502}
            catch:
              exceptWhen: $error.status == 502
              do:
                - s:
                    set: {v: outer}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: outer}
      """

  Scenario: An error in the catch is not its own
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-7, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - q:
                    raise:
                      error: {type: y, status: 502}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: y, status: 502, instance: /do/0/t/catch/do/0/q}
      """

  Scenario: Catch.then directs
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-8, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch: {then: last}
        - no:
            set: {v: no}
        - last:
            set: {v: last}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: last}
      """

  Scenario: Retries grow, and the error goes on when they are used up
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-9, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT3S
                backoff:
                  exponential: {}
                limit:
                  attempt: {count: 3}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: x, status: 501, instance: /do/0/t/try/0/r}
      """
    And it should take PT21S

  Scenario: Linear retries
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-10, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT2S
                backoff:
                  linear: {}
                limit:
                  attempt: {count: 3}
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT12S

  Scenario: A retry sees the input of the try
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-11, version: 0.1.0}
      do:
        - t:
            try:
              - a:
                  set: {x: 1}
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT1S
                limit:
                  attempt: {count: 1}
              do:
                - s: {set: '${ . }'}
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
    And it should take PT1S

  Scenario: What succeeds is not caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-12, version: 0.1.0}
      do:
        - t:
            try:
              - a:
                  set: {v: 1}
            catch:
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: 1}
      """

  Scenario: An error of an expression is caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-13, version: 0.1.0}
      do:
        - t:
            try:
              - a: {set: '${ .k.z }'}
            catch:
              errors:
                with: {type: https://serverlessworkflow.io/spec/1.0.0/errors/expression}
              do:
                - s: {set: '${ $error.status }'}
      """
    And given the workflow input is:
      """yaml
      {k: 1}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      400
      """

  Scenario: An error of a schema is caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-14, version: 0.1.0}
      do:
        - t:
            try:
              - a:
                  input:
                    schema:
                      document: {type: object}
                  set: {v: 1}
            catch:
              errors:
                with: {status: 400}
              do:
                - s: {set: '${ $error.type | split("/") | last }'}
      """
    And given the workflow input is:
      """yaml
      1
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      validation
      """

  Scenario: An error of a call is caught
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-15, version: 0.1.0}
      do:
        - t:
            try:
              - c:
                  call: http
                  with: {method: get, endpoint: 'https://petstore.swagger.io/v2/pet/getPetByName/{name}'}
            catch:
              errors:
                with: {type: https://serverlessworkflow.io/dsl/errors/types/communication, status: 404}
              as: err
              do:
                - s:
                    set: {error: '${ $err }'}
      """
    And given the workflow input is:
      """yaml
      {name: Milou}
      """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'error', 'error.type', 'error.status', 'error.title'
    And the workflow output should have a 'error.instance' property with value:
      """yaml
      /do/0/t/try/0/c
      """

  Scenario: Filters of title and detail
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-16, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501, title: T, detail: D}
            catch:
              errors:
                with: {title: T, detail: D}
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: The older spelling of a filter of the detail
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-17, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501, detail: D}
            catch:
              errors:
                with: {details: D}
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: A filter of the indexed instance
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-18, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              errors:
                with: {instance: /do/0/t/try/0/r}
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: The newer host of a standard error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-19, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: https://open-workflow-specification.org/spec/1.0.0/errors/runtime, 
                        status: 500}
            catch:
              errors:
                with: {type: https://serverlessworkflow.io/dsl/errors/types/runtime}
              do:
                - s:
                    set: {v: caught}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: ExceptWhen lets an error go on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-20, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              exceptWhen: $error.status == 501
              do:
                - s:
                    set: {v: no}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: x, status: 501, instance: /do/0/t/try/0/r}
      """

  Scenario: When lets an error go on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-21, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              when: .wanted
              do:
                - s:
                    set: {v: no}
      """
    And given the workflow input is:
      """yaml
      {wanted: false}
      """
    When the workflow is executed
    Then the workflow should fault with error:
      """yaml
      {type: x, status: 501, instance: /do/0/t/try/0/r}
      """

  Scenario: A policy of retries by reference
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-22, version: 0.1.0}
      use:
        retries:
          some:
            delay: PT2S
            backoff:
              constant: {}
            limit:
              attempt: {count: 2}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry: some
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take PT4S

  Scenario: The jitter of retries is within its limits
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-23, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT1S
                jitter: {from: PT1S, to: PT3S}
                limit:
                  attempt: {count: 2}
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take between PT4S and PT8S

  Scenario: Retries that do not want the error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-24, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry: {when: $error.status == 502, delay: PT1S}
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take no time

  Scenario: Retries that except the error
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-25, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry: {exceptWhen: $error.status == 501, delay: PT1S}
              do:
                - s:
                    set: {v: done}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: done}
      """
    And it should take no time

  Scenario: Retries until it succeeds
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-26, version: 0.1.0}
      do:
        - t:
            try:
              - n:
                  set: ${ ($context // 0) + 1 }
                  export: {as: .}
              - s:
                  switch:
                    - m: {when: . == 3, then: exit}
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              retry:
                delay: PT1S
                backoff:
                  linear: {}
                limit:
                  attempt: {count: 5}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      3
      """
    And it should take PT3S

  Scenario: A call that is busy is tried again
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-27, version: 0.1.0}
      do:
        - t:
            try:
              - c:
                  call: http
                  with: {method: get, endpoint: '${ "https://api.example.com/busy/\($workflow.id)/2" }'}
            catch:
              errors:
                with: {status: 503}
              retry:
                delay: PT1S
                limit:
                  attempt: {count: 9}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {ready: true}
      """

  Scenario: The inner try catches first
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-28, version: 0.1.0}
      do:
        - t:
            try:
              - u:
                  try:
                    - r:
                        raise:
                          error: {type: x, status: 501}
                  catch:
                    do:
                      - s:
                          set: {v: inner}
            catch:
              do:
                - s:
                    set: {v: outer}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: inner}
      """
    And t should run first
    And r should fault
    And u should complete
    And s should run last

  Scenario: A catch may end the workflow
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-29, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - s:
                    set: {v: caught}
                    then: end
        - z:
            set: {v: no}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {v: caught}
      """

  Scenario: The task's directive counts where the catch has none
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-30, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - s:
                    set: {v: caught}
            then: last
        - no:
            set: {v: no}
        - last: {set: '${ {last: .v} }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      {last: caught}
      """

  Scenario: The output of a catch flows on
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-31, version: 0.1.0}
      do:
        - t:
            try:
              - r:
                  raise:
                    error: {type: x, status: 501}
            catch:
              do:
                - s:
                    set: {v: 1}
            output: {as: '{w: .v}'}
            export: {as: .w}
        - s: {set: '${ [., $context] }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
        - {w: 1}
        - 1
      """

  Scenario: An error leaves a loop
    Given a workflow with definition:
      """yaml
      document: {dsl: 1.0.3, namespace: kit, name: try-32, version: 0.1.0}
      do:
        - t:
            try:
              - l:
                  for: {in: '${ [1, 2, 3] }'}
                  do:
                    - s:
                        set: ${ $item }
                        export: {as: .}
                    - c:
                        switch:
                          - m: {when: $item == 2, then: r}
                        then: exit
                    - r:
                        raise:
                          error: {type: x, status: 501}
            catch:
              do:
                - s: {set: '${ $context }'}
      """
    When the workflow is executed
    Then the workflow should complete with output:
      """yaml
      2
      """
