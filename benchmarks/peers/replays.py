"""Replay of a history of activities in sequence by Temporal's own replayer, without its sandbox.

``python replays.py <activities> <rounds>``, run by an interpreter that has temporalio; prints events and seconds of
each round as JSON. The history is written as Temporal's server writes it, and the replayer checks it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

workflow: Any = importlib.import_module("temporalio.workflow")
worker: Any = importlib.import_module("temporalio.worker")
client: Any = importlib.import_module("temporalio.client")
enums: Any = importlib.import_module("temporalio.api.enums.v1")
history: Any = importlib.import_module("temporalio.api.history.v1")
common: Any = importlib.import_module("temporalio.api.common.v1")

QUEUE = "bench"


@workflow.defn(sandboxed=False)
class Sequence:
    """Run a number of activities, one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await workflow.execute_activity(
                "step", number, start_to_close_timeout=timedelta(seconds=600), result_type=int
            )
        return steps


def payloads(value: object) -> Any:
    """Return a value as the default converter writes it."""
    data = json.dumps(value, separators=(",", ":")).encode()
    return common.Payloads(payloads=[common.Payload(metadata={"encoding": b"json/plain"}, data=data)])


def recorded(steps: int) -> Any:
    """Return the history of a run that has ended."""
    events: list[Any] = []
    queue = {"name": QUEUE}
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def add(kind: str, **attributes: Any) -> int:
        event = history.HistoryEvent(
            event_id=len(events) + 1,
            event_type=enums.EventType.Value(f"EVENT_TYPE_{kind.upper()}"),
            **{f"{kind}_event_attributes": attributes},
        )
        event.event_time.FromDatetime(at + timedelta(milliseconds=len(events)))
        events.append(event)
        return int(event.event_id)

    def task() -> int:
        scheduled = add("workflow_task_scheduled", task_queue=queue)
        started = add("workflow_task_started", scheduled_event_id=scheduled)
        return add("workflow_task_completed", scheduled_event_id=scheduled, started_event_id=started)

    add(
        "workflow_execution_started",
        workflow_type={"name": "Sequence"},
        task_queue=queue,
        input=payloads(steps),
        original_execution_run_id="run",
        first_execution_run_id="run",
        attempt=1,
    )
    decided = task()
    for number in range(steps):
        scheduled = add(
            "activity_task_scheduled",
            activity_id=str(number + 1),
            activity_type={"name": "step"},
            task_queue=queue,
            input=payloads(number),
            workflow_task_completed_event_id=decided,
        )
        started = add("activity_task_started", scheduled_event_id=scheduled)
        add(
            "activity_task_completed",
            scheduled_event_id=scheduled,
            started_event_id=started,
            result=payloads(number),
        )
        decided = task()
    add("workflow_execution_completed", result=payloads(steps), workflow_task_completed_event_id=decided)
    return client.WorkflowHistory("bench", events)


async def measure(steps: int, rounds: int) -> dict[str, Any]:
    """Replay a history a number of times; the first time is not counted."""
    history = recorded(steps)
    replayer = worker.Replayer(workflows=[Sequence], workflow_runner=worker.UnsandboxedWorkflowRunner())
    took: list[float] = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        result = await replayer.replay_workflow(history)
        took.append(time.perf_counter() - began)
        assert result.replay_failure is None
    return {"events": len(history.events), "seconds": took[1:]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
