"""The projection: it makes lifecycle events of what a replay of a history tells."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from outlast_serverless.interpreter.faults import error_of, fault, timed_out
from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_serverless.jq import Evaluator
from outlast_serverless.lifecycle.progress import DueRun
from outlast_serverless.tracing.observing import Change, Step
from outlast_serverless.tracing.run_replay import RunReplay
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import ApplicationError
from outlast_workflow.history.events import (
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowReset,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from outlast_workflow.primitives.times import to_datetime
from outlast_workflow.run.replay import Row

_PREFIX: Final = "io.serverlessworkflow"
_ENDS: Final = {
    "completed": "completed",
    "skipped": "completed",
    "faulted": "faulted",
    "timed_out": "faulted",
    "cancelled": "cancelled",
}
_RUN_ENDS: Final = {
    WorkflowCompleted.type: "completed",
    WorkflowFailed.type: "faulted",
    WorkflowTimedOut.type: "faulted",
    WorkflowCancelled.type: "cancelled",
    WorkflowTerminated.type: "cancelled",
}
_AT: Final = {"correlation-started": "started", "correlation-completed": "completed"}


class Projected(NamedTuple):
    """A lifecycle event.

    Attributes:
        seq: The number of the event of the history that it comes from.
        event: The event.
        own: Whether it is this run's although its history has it from another one: that a fork has started.
    """

    seq: int
    event: dict[str, Any]
    own: bool = False


class Projection:
    """Makes lifecycle events of one run. It is the observer of its own replay.

    Args:
        run: The run.
        converter: Decodes payloads.
        evaluator: Evaluates expressions again.
        tasks: Whether events of tasks are made.
    """

    def __init__(self, run: DueRun, converter: DataConverter, evaluator: Evaluator, *, tasks: bool) -> None:
        self._run = run
        self._converter = converter
        self._tasks = tasks
        self._made: list[Projected] = []
        self._open: dict[int, Step] = {}
        self._inherited = 0
        self._continued = self._forked = False
        self._last = (0, 0)
        namespace, _, name = run.workflow_type.removeprefix(TYPE_PREFIX).partition("/")
        self._name = f"{name}-{run.workflow_id}.{namespace}"
        self._source = f"/{namespace}/{name}"
        self._replay = RunReplay(run.run_id, run.workflow_type, converter, evaluator, self)

    @property
    def seq(self) -> int:
        """How far the history was read."""
        return self._replay.seq

    @property
    def settled(self) -> int:
        """Up to which event everything was made."""
        return self._replay.settled

    def feed(self, rows: list[Row], closed_at: int | None) -> None:
        """Go on with the next events.

        Args:
            rows: What follows the events before.
            closed_at: When the run ended, if it has.

        Raises:
            OutlastError: The history cannot be replayed here.
        """
        if rows and rows[0][0] == 1:
            self._begin(orjson.loads(rows[0][2]))
        self._replay.feed(rows)
        if self._replay.terminal is not None:
            self._end(self._replay.terminal, self._replay.now if closed_at is None else closed_at)
            self._replay.terminal = None

    def taken(self, after: int) -> list[dict[str, Any]]:
        """Return the lifecycle events since they were last taken.

        Args:
            after: Only those of events of the history after this one.
        """
        made, self._made = self._made, []
        return [one.event for one in made if one.seq > (after if one.own else max(after, self._inherited))]

    def close(self) -> None:
        """Let go of the run."""
        self._replay.close()

    # --- what the replay tells ----------------------------------------------------------------------------------------

    def task(self, change: Change, step: Step) -> None:
        """Make the event of what happens to a task."""
        # What it holds of data is not told.
        step.input = step.output = None
        if change == "ended":
            self._open.pop(id(step), None)
            end = _ENDS.get(step.outcome)
            if end is not None:
                self._of_task(end, step, self._replay.now)
            return
        if change in ("created", "continued"):
            self._open[id(step)] = step
        if change != "continued":
            self._of_task(change, step, self._replay.now)

    def workflow(self, change: str, **more: Any) -> None:
        """Make the event of what happens to the run."""
        data: dict[str, Any] = {}
        if change == "started":
            head = more["document"]
            self._source = f"/{head['namespace']}/{head['name']}/{head['version']}"
            if self._continued:
                return
            data["definition"] = {name: head[name] for name in ("namespace", "name", "version")}
        elif change == "correlation-completed":
            data["correlationKeys"] = more["keys"]
        self._of_run(change, self._replay.now, data)

    def _begin(self, started: dict[str, Any]) -> None:
        taken_over = started.get("reset") or started.get("forked_from")
        if taken_over is not None:
            # What the other run has done was told of that one.
            self._inherited = int(taken_over["seq"])
            self._forked = started.get("reset") is None
        elif started.get("previous_run_id") is not None and started.get("attempt") == 1:
            self._continued = True

    def _end(self, terminal: Row, at: int) -> None:
        seq, kind, payload = terminal
        if kind in (WorkflowContinuedAsNew.type, WorkflowReset.type):
            return
        self._last = (seq, 0)
        # What no code has ended has ended with the run: what began last comes first.
        for step in reversed(self._open.values()):
            self._of_task("cancelled", step, at)
        self._open.clear()
        change = _RUN_ENDS[kind]
        data: dict[str, Any] = {}
        if kind == WorkflowTimedOut.type:
            data["error"] = timed_out()
        elif kind == WorkflowFailed.type:
            data["error"] = self._error(payload)
        self._of_run(change, at, data)

    def _error(self, payload: Any) -> dict[str, Any]:
        event = WorkflowFailed.from_document(orjson.loads(payload))
        failure = exception_of(event.failure, self._converter)
        error = error_of(failure) if isinstance(failure, ApplicationError) else None
        return error or fault("runtime", str(failure), "/").error

    # --- events -------------------------------------------------------------------------------------------------------

    def _of_task(self, change: str, step: Step, at: int) -> None:
        if not self._tasks:
            return
        instant = _told(at)
        data: dict[str, Any] = {
            "workflow": self._name,
            "task": step.task.pointer,
            f"{change}At": instant,
        }
        if step.marks:
            data["execution"] = step.marks
        if change == "faulted":
            data["error"] = step.error
        self._add(f"task.{change}", data, instant)

    def _of_run(self, change: str, at: int, data: dict[str, Any]) -> None:
        instant = _told(at)
        self._add(
            f"workflow.{change}",
            {"name": self._name, **data, f"{_AT.get(change, change)}At": instant},
            instant,
        )

    def _add(self, kind: str, data: dict[str, Any], instant: str) -> None:
        # The same replay gives the same events in the same order, so this names each of them for good.
        seq, place = max(self._replay.task_seq, self._last[0]), 0
        if seq == self._last[0]:
            place = self._last[1] + 1
        self._last = (seq, place)
        event = {
            "specversion": "1.0",
            "id": f"{self._run.run_id}:{seq}:{place}",
            "source": self._source,
            "type": f"{_PREFIX}.{kind}.v1",
            "subject": self._run.workflow_id,
            "time": instant,
            "datacontenttype": "application/json",
            "data": data,
        }
        self._made.append(Projected(seq, event, self._forked and kind == "workflow.started"))


def _told(at: int) -> str:
    instant: datetime = to_datetime(at)
    return instant.isoformat().replace("+00:00", "Z")
