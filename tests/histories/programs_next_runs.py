"""What a run hands on to the next one: a retry policy, a start delay, the last failure and result. Never edited."""

from __future__ import annotations

from typing import Any

from outlast import ApplicationError, RetryPolicy, StartOptions, workflow
from outlast.testing import TestEnvironment


@workflow.defn
class Relay:
    """Continues as new with options, fails, is retried, and continues once more."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.append(what)

    @workflow.run
    async def run(self, leg: int) -> dict[str, Any]:
        info = workflow.info()
        if leg == 0:
            policy = RetryPolicy(initial_interval=5, max_attempts=2)
            workflow.continue_as_new(1, retry_policy=policy, start_delay=60)
        if leg == 1 and info.attempt == 1:
            raise ApplicationError("dropped", type="Dropped")
        if leg == 1:
            await workflow.sleep(1)
            workflow.continue_as_new(2, start_delay=3600)
        await workflow.wait_condition(lambda: bool(self.told))
        failure = info.last_failure
        return {
            "leg": leg,
            "failure": getattr(failure, "type", None),
            "result": info.last_result,
            "amount": (workflow.last_result(dict[str, int]) or {}).get("amount"),
            "told": self.told,
        }


@workflow.defn
async def sluggish() -> str | None:
    """Time out once; the next attempt knows."""
    failure = workflow.info().last_failure
    if failure is None:
        await workflow.sleep(1000)
    return type(failure).__name__


WORKFLOWS = [Relay, sluggish]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """Run the relay as a schedule will start it, after an earlier result; and the run that times out."""
    from outlast_runs.start import StartRun
    from outlast_store.transitions.new_runs import first_run, started_event
    from outlast_workflow.primitives.enums import DuplicatePolicy
    from outlast_workflow.primitives.payloads import Payload

    environment = env.client.runtime.environment
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id="relay",
        workflow_type="Relay",
        task_queue="default",
        options=StartOptions(),
        memo=None,
        now=environment.clock.now(),
        owner_id=None,
    )
    event = started_event(run, input=Payload.of([0]), seed=7, last_result=Payload.of({"amount": 5}))
    await env.client.runtime.journal.apply(StartRun(run, event, DuplicatePolicy.ALLOW_DUPLICATE))
    relay = env.client.handle("relay")
    await env.sleep(100)
    await relay.signal("tell", "go")
    found = await relay.result()
    assert found["told"] == ["go"]
    assert found["amount"] == 5
    options = StartOptions(run_timeout=10, retry_policy=RetryPolicy(max_attempts=2))
    assert await env.client.execute(sluggish, id="sluggish", options=options) == "WorkflowTimeoutError"
