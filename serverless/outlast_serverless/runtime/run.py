"""A run of a document: its output or its error, and where it stands."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from outlast import WorkflowHandle
from outlast.runtime.runtime import Runtime as EngineRuntime
from outlast.visibility.views import AttentionReason, WorkflowDescription
from outlast_serverless.bus.reads import Subscription, subscriptions_of
from outlast_serverless.events.cloud_events import check_depth, checked_event, identity
from outlast_serverless.events.names import EVENT
from outlast_serverless.interpreter.faults import error_of, fault, is_timeout, timed_out
from outlast_serverless.interpreter.tasks.calls import LONGEST_S
from outlast_serverless.interpreter.workflow import RESUME, SUSPEND
from outlast_serverless.tracing.steps import MOST_STEPS, TaskStep
from outlast_serverless.tracing.tracer import TracePage, Tracer
from outlast_store.reads.runs import find_run
from outlast_store.reads.timeline import timer_starts
from outlast_workflow.data.writing import UnwritableError, dump
from outlast_workflow.errors import (
    ApplicationError,
    FaultedError,
    FaultedTimeoutError,
    OutlastError,
    WorkflowFailedError,
    WorkflowResultError,
    WorkflowTimeoutError,
)
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.enums import Attention, RunStatus
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
        kind: What is open of it: ``wait``, ``call``, ``run``, ``listen``, ``backoff`` before another attempt; the
            limits ``timeout``, ``attempt`` (of one attempt) and ``retry`` (of all); ``suspended`` where a suspension
            holds it back.
        execution: The iteration, attempt or visit that it is; empty for the only one.
        since: Since when; ``None`` if that is not known.
        deadline_at: When its time is up, or when its timer fires; ``None`` if nothing limits it.
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
        attention: What somebody should look at, each with its remedy: no worker is there, or an expression never ends.
    """

    workflow_id: str
    document: str
    version: str
    phase: str
    deadline_at: datetime | None
    error: dict[str, Any] | None
    open: tuple[OpenTask, ...]
    attention: tuple[str, ...] = ()


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
        return await self.state(await self.handle.describe())

    async def state(self, described: WorkflowDescription) -> DocumentState:
        """Return where the run stands.

        Args:
            described: Its workflow, as the engine describes it.
        """
        run = described.run
        error: dict[str, Any] | None = None
        if run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT) and run.next_run_id is None:
            try:
                await self.result()
            except FaultedError as faulted:
                error = faulted.error
            except WorkflowResultError as failed:
                error = fault("runtime", str(failed), "/").error
        listening = await self._runtime.read(subscriptions_of, run.first_run_id)
        begun = await self._runtime.read(timer_starts, run.run_id) if described.pending_timers else {}
        state = state_of(described, error, listening, begun)
        more = (*await self._subflows(described), *await self._held(state.phase, described))
        open_ = sorted((*state.open, *more), key=lambda one: (one.pointer, one.execution, one.kind))
        return replace(state, open=tuple(open_))

    async def _subflows(self, described: WorkflowDescription) -> list[OpenTask]:
        """Return the subflows that are under way. Their deadlines are in their own rows."""
        found: list[OpenTask] = []
        for child in described.pending_children:
            row = await self._runtime.read(find_run, child.run_id)
            deadline = None if row is None else row.execution_deadline_at
            at = None if deadline is None else to_datetime(deadline)
            found += _labelled(child.summary, child.created_at, at, None)
        return found

    async def _held(self, phase: str, described: WorkflowDescription) -> list[OpenTask]:
        """Return the tasks that a suspension holds back. They wait for nothing that has a row."""
        if phase != "suspended":
            return []
        try:
            held = await Tracer(self._runtime, self.handle.converter).held(described.run.run_id)
        except OutlastError:
            # What is known without a replay is told all the same.
            return []
        return [OpenTask(one.pointer, "suspended", one.execution, one.began, None) for one in held]

    async def trace(self, *, data: bool = False) -> AsyncGenerator[TaskStep]:
        """Yield every task that has run, pure ones too, in the order in which they began. No worker needs to be alive.

        The history is replayed for that. Nothing more is written while a run runs. Through all runs of a workflow that
        continued as new.

        Args:
            data: Whether to tell inputs and outputs, too. What was evaluated in an activity, such as a secret, is not
                in the history, and so in no trace.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            InvalidOptionError: It is no run of a document.
            UntraceableRunError: The history cannot be replayed here.
            PayloadCodecError: Its payloads need another codec.
        """
        tracer = Tracer(self._runtime, self.handle.converter)
        async for step in tracer.steps(self.id, await self.handle.resolve(), data=data):
            yield step

    async def trace_page(
        self, cursor: str | None = None, *, limit: int = 1_000, data: bool = False
    ) -> TracePage:
        """Return some of the tasks that have run.

        Args:
            cursor: The ``cursor`` of the page before; ``None`` for the first one.
            limit: How many at most, up to 10,000.
            data: Whether to tell inputs and outputs, too.

        Raises:
            OutlastError: As for :meth:`trace`; and there is no such cursor, or the limit cannot be used.
        """
        most = integer("limit", limit, 1, MOST_STEPS)
        tracer = Tracer(self._runtime, self.handle.converter)
        return await tracer.page(self.id, await self.handle.resolve(), cursor, most, data=data)

    async def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to this run alone. It is kept for the run until a task consumes it, even if none listens yet.

        Args:
            event: A CloudEvent. One with the same ``source`` and ``id`` reaches a run once.

        Raises:
            InvalidOptionError: It is no CloudEvent, or nested too deeply.
            PayloadEncodeError: It has no JSON form.
            WorkflowClosedError: The run has ended.
            StructuralLimitError: It is too large, or too many wait already.
        """
        whole = checked_event(dict(event))
        with suppress(UnwritableError):  # the signal says what is wrong
            check_depth(dump([whole]))
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


def state_of(
    described: WorkflowDescription,
    error: dict[str, Any] | None,
    listening: Sequence[Subscription] = (),
    begun: Mapping[int, int] | None = None,
) -> DocumentState:
    """Return where a run of a document stands.

    Args:
        described: Its workflow, as the engine describes it.
        error: The error of the DSL, if it faulted.
        listening: What it is subscribed to.
        begun: When its timers were started, in microseconds since the epoch.
    """
    memo, run = described.run.memo or {}, described.run
    found = _open(described, listening, begun or {})
    open_ = tuple(sorted(found, key=lambda one: (one.pointer, one.execution, one.kind)))
    phase = _PHASES.get(run.status)
    if phase is None:
        has_begun = run.started_at is not None or run.previous_run_id is not None
        phase = _open_phase(has_begun, bool(memo.get("suspended")), open_)
    return DocumentState(
        described.workflow_id,
        f"{memo.get('namespace')}/{memo.get('name')}",
        str(memo.get("version")),
        phase,
        run.execution_deadline_at,
        error,
        open_,
        tuple(f"{one.cause}: {_remedy(one)}" for one in described.attention_reasons),
    )


def _remedy(reason: AttentionReason) -> str:
    if reason.kind is not Attention.TASK_KEEPS_FAILING:
        return reason.remedy
    # The code of a document is the runtime, so nobody can deploy a corrected one.
    return "terminate it and start a corrected document, or run a worker with the versions that it began with"


def _open_phase(begun: bool, suspended: bool, open_: tuple[OpenTask, ...]) -> str:
    if not begun:
        return "pending"
    if suspended:
        return "suspended"
    kinds = {one.kind for one in open_} - {"timeout", "attempt", "retry"}
    return "waiting" if kinds and kinds <= _WAITING else "running"


def _open(
    described: WorkflowDescription, listening: Sequence[Subscription], begun: Mapping[int, int]
) -> list[OpenTask]:
    found: list[OpenTask] = []
    if described.run.closed_at is None:
        opened = {one.execution_id: one.opened_at for one in listening}
        for execution, opened_at in opened.items():
            found += _labelled(f"listen {execution}", to_datetime(opened_at), None, None)
    for timer in described.pending_timers:
        since = begun.get(timer.timer_id)
        found += _labelled(timer.summary, None if since is None else to_datetime(since), timer.fire_at, None)
    for activity in described.pending_activities:
        worker = None if activity.worker is None else activity.worker.worker_id
        deadline = activity.schedule_to_close_deadline_at
        if deadline is not None and (deadline - activity.scheduled_at).total_seconds() >= LONGEST_S:
            deadline = None
        found += _labelled(activity.summary, activity.scheduled_at, deadline, worker)
    return found


def _labelled(
    label: str | None, since: datetime | None, deadline: datetime | None, worker: str | None
) -> list[OpenTask]:
    kind, _, execution = (label or "").partition(" ")
    pointer, _, marks = execution.partition("#")
    if not pointer or kind in _HIDDEN:
        return []
    return [OpenTask(pointer, kind, marks, since, deadline, worker)]
