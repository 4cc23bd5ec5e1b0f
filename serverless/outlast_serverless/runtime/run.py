"""A run of a document: its output or its error, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from outlast import WorkflowHandle
from outlast.runtime.runtime import Runtime as EngineRuntime
from outlast.visibility.views import WorkflowDescription
from outlast_serverless.bus.reads import Subscription, subscriptions_of
from outlast_serverless.events.cloud_events import checked_event, identity
from outlast_serverless.events.names import EVENT
from outlast_serverless.interpreter.faults import error_of, fault, is_timeout
from outlast_serverless.interpreter.workflow import RESUME, SUSPEND
from outlast_workflow.errors import (
    ApplicationError,
    FaultedError,
    FaultedTimeoutError,
    WorkflowFailedError,
    WorkflowResultError,
    WorkflowTimeoutError,
)
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import to_datetime

_PHASES: Final = {
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "faulted",
    RunStatus.TIMED_OUT: "faulted",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.TERMINATED: "cancelled",
}
_WAITING: Final = frozenset({"wait", "listen", "backoff"})
_HIDDEN: Final = frozenset({"breath"})


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task of a document that is under way, as it shows without its code.

    Attributes:
        pointer: Where it stands in the document.
        kind: What is open of it: ``wait``, ``call``, ``run``, ``timeout``, ``backoff``, ``listen`` …
        execution: The iteration, attempt or visit that it is; empty for the only one.
        since: Since when; ``None`` if only the deadline is known.
        deadline_at: When its time is up, or when its timer fires.
        worker: The worker that runs its activity.
    """

    pointer: str
    kind: str
    execution: str
    since: datetime | None
    deadline_at: datetime | None
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentState:
    """Where a run of a document stands.

    Attributes:
        workflow_id: Its workflow id.
        document: ``namespace/name``.
        version: The document's version.
        phase: ``pending``, ``running``, ``waiting``, ``suspended``, ``cancelled``, ``faulted`` or ``completed``.
        deadline_at: When the timeout of the workflow is up.
        error: The error of the DSL, if it faulted.
        open: The tasks that are under way, in the order of the document.
    """

    workflow_id: str
    document: str
    version: str
    phase: str
    deadline_at: datetime | None
    error: dict[str, Any] | None
    open: tuple[OpenTask, ...]


class DocumentRun:
    """A run of a document.

    Args:
        handle: The handle of its workflow.
        runtime: The engine, to read what it listens to.
    """

    __slots__ = ("_runtime", "handle")

    def __init__(self, handle: WorkflowHandle[Any], runtime: EngineRuntime) -> None:
        self.handle = handle
        self._runtime = runtime

    @property
    def id(self) -> str:
        """The workflow id."""
        return self.handle.workflow_id

    async def result(self, *, timeout: float | None = None) -> Any:
        """Wait for the output.

        Args:
            timeout: How many seconds to wait at most.

        Raises:
            FaultedError: The run faulted; ``error`` is the error of the DSL.
            FaultedTimeoutError: A timeout of the document passed.
            WorkflowResultError: It ended otherwise: it was cancelled or terminated.
        """
        try:
            return await self.handle.result(timeout=timeout)
        except WorkflowTimeoutError:
            raise FaultedTimeoutError(self.id, timed_out()) from None
        except WorkflowFailedError as failure:
            cause = failure.__cause__
            error = error_of(cause) if isinstance(cause, ApplicationError) else None
            if error is None:
                raise
            kind = FaultedTimeoutError if is_timeout(error) else FaultedError
            raise kind(self.id, error) from None

    async def describe(self) -> DocumentState:
        """Return where the run stands. No worker needs to be alive."""
        described = await self.handle.describe()
        error: dict[str, Any] | None = None
        if described.run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT):
            try:
                await self.result()
            except FaultedError as faulted:
                error = faulted.error
            except WorkflowResultError as failed:
                error = fault("runtime", str(failed), "/").error
        listening = await self._runtime.read(subscriptions_of, described.run.first_run_id)
        return state_of(described, error, listening)

    async def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to this run alone. It is kept for the run until a task consumes it, even if none listens yet.

        Args:
            event: A CloudEvent. One with the same ``source`` and ``id`` reaches a run once.

        Raises:
            InvalidOptionError: It is no CloudEvent.
            WorkflowClosedError: The run has ended.
            StructuralLimitError: It is too large, or too many wait already.
        """
        whole = checked_event(dict(event))
        await self.handle.signal(EVENT, {"event": whole}, request_id=identity(whole))

    async def suspend(self) -> None:
        """Begin no further task. What is under way goes on, and deadlines do, too."""
        await self.handle.signal(SUSPEND)

    async def resume(self) -> None:
        """Undo a suspension."""
        await self.handle.signal(RESUME)

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the run to end as cancelled.

        Args:
            reason: Why.
        """
        await self.handle.cancel(reason=reason)


def timed_out() -> dict[str, Any]:
    """Return the error of a workflow whose timeout the engine enforced."""
    return fault("timeout", "the timeout of the workflow passed", "/").error


def state_of(
    described: WorkflowDescription, error: dict[str, Any] | None, listening: Sequence[Subscription] = ()
) -> DocumentState:
    """Return where a run of a document stands.

    Args:
        described: Its workflow, as the engine describes it.
        error: The error of the DSL, if it faulted.
        listening: What it is subscribed to.
    """
    memo, run = described.run.memo or {}, described.run
    open_ = tuple(sorted(_open(described, listening), key=lambda one: (one.pointer, one.execution, one.kind)))
    phase = _PHASES.get(run.status)
    if phase is None:
        phase = _open_phase(run.started_at is not None, bool(memo.get("suspended")), open_)
    return DocumentState(
        described.workflow_id,
        f"{memo.get('namespace')}/{memo.get('name')}",
        str(memo.get("version")),
        phase,
        run.execution_deadline_at,
        error,
        open_,
    )


def _open_phase(begun: bool, suspended: bool, open_: tuple[OpenTask, ...]) -> str:
    if not begun:
        return "pending"
    if suspended:
        return "suspended"
    kinds = {one.kind for one in open_} - {"timeout", "attempt", "retry"}
    return "waiting" if kinds and kinds <= _WAITING else "running"


def _open(described: WorkflowDescription, listening: Sequence[Subscription]) -> list[OpenTask]:
    found: list[OpenTask] = []
    if described.run.closed_at is None:
        opened = {one.execution_id: one.opened_at for one in listening}
        for execution, opened_at in opened.items():
            found += _labelled(f"listen {execution}", to_datetime(opened_at), None, None)
    for timer in described.pending_timers:
        found += _labelled(timer.summary, None, timer.fire_at, None)
    for activity in described.pending_activities:
        worker = None if activity.worker is None else activity.worker.worker_id
        found += _labelled(activity.summary, activity.scheduled_at, activity.next_deadline_at, worker)
    for child in described.pending_children:
        found += _labelled(child.summary, child.created_at, None, None)
    return found


def _labelled(
    label: str | None, since: datetime | None, deadline: datetime | None, worker: str | None
) -> list[OpenTask]:
    kind, _, execution = (label or "").partition(" ")
    pointer, _, marks = execution.partition("#")
    if not pointer or kind in _HIDDEN:
        return []
    return [OpenTask(pointer, kind, marks, since, deadline, worker)]
