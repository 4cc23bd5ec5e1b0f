"""A handle: one workflow, seen from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, TypeVarTuple, overload

import orjson

from holdfast.describe import describe
from holdfast.hub import Ending, Hub
from holdfast.requests import RequestCancel, Terminate
from holdfast.sending import SendSignal, signal_event
from holdfast.views import WorkflowDescription
from holdfast_store import queries
from holdfast_store.batch import Change
from holdfast_store.rows import RunRow
from holdfast_workflow import events
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.errors import (
    RunNotFoundError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from holdfast_workflow.failures import exception_of
from holdfast_workflow.handlers import SignalCall
from holdfast_workflow.kinds import TimeoutKind
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.times import from_iso, to_datetime
from holdfast_workflow.validation import validate_reason

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
PAGE = 1000


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One event of a run's history: ``type`` is its name, ``payload`` plain JSON values."""

    seq: int
    type: str
    recorded_at: datetime
    payload: dict[str, Any]


class WorkflowHandle(Generic[T]):
    """One workflow: wait for it, look at it, ask it to stop.

    Attributes:
        workflow_id: Its id.
        run_id: The run that the handle is about; ``None`` for whichever stands for the id when it is asked.
    """

    def __init__(
        self,
        hub: Hub,
        converter: DataConverter,
        workflow_id: str,
        run_id: str | None,
        result_type: Any = None,
        ending: Ending | None = None,
        *,
        pinned: bool = False,
        limits: StructuralLimits | None = None,
    ) -> None:
        self.hub = hub
        self._limits = limits or StructuralLimits()
        self._ending = ending
        self.workflow_id = workflow_id
        self.run_id = run_id
        self._converter = converter
        self._result_type = result_type
        self._pinned = pinned

    def __repr__(self) -> str:
        return f"<WorkflowHandle {self.workflow_id!r} run {self.run_id or 'current'}>"

    # --- the result -------------------------------------------------------------------------------------------------

    async def result(self) -> T:
        """Wait for the end of the workflow, through all runs of its chain, and return what it returned.

        Raises:
            WorkflowFailedError: It raised; ``__cause__`` is the failure.
            WorkflowTimeoutError: A deadline of its own passed; ``timeout_kind`` says which.
            WorkflowCancelledError: It gave way to a cancel request.
            WorkflowTerminatedError: It was terminated.
            WorkflowNotFoundError: There is no such workflow.
        """
        ending = self._ending or self.hub.ending(await self._resolve())
        while True:
            event = await self.hub.ended(ending)
            following = getattr(event, "next_run_id", None)
            if following is None:
                return self._value(event, ending.run_id)
            ending = self.hub.ending(following)

    def _value(self, event: events.Event, run_id: str) -> T:
        if isinstance(event, events.WorkflowCompleted):
            value: T = self._converter.decode(
                event.result, self._result_type, f"the result of {self.workflow_id}"
            )
            return value
        if isinstance(event, events.WorkflowFailed):
            error = WorkflowFailedError(workflow_id=self.workflow_id, run_id=run_id)
            raise error from exception_of(event.failure, self._converter)
        if isinstance(event, events.WorkflowTimedOut):
            raise WorkflowTimeoutError(
                workflow_id=self.workflow_id,
                run_id=run_id,
                timeout_kind=TimeoutKind(event.timeout_kind),
                deadline_at=to_datetime(from_iso(event.deadline_at)),
            )
        if isinstance(event, events.WorkflowCancelled):
            raise WorkflowCancelledError(workflow_id=self.workflow_id, run_id=run_id, reason=event.reason)
        if isinstance(event, events.WorkflowTerminated):
            raise WorkflowTerminatedError(workflow_id=self.workflow_id, run_id=run_id, reason=event.reason)
        raise AssertionError(f"{event.type} does not end a chain")

    async def _resolve(self) -> str:
        """The run that the handle is about."""
        if self.run_id is not None:
            return self.run_id
        instance = await self.hub.read(queries.instance, self.workflow_id)
        if instance is None:
            raise WorkflowNotFoundError(self.workflow_id)
        return instance.current_run_id

    async def run(self) -> RunRow:
        """The row of the latest run of the chain."""
        run_id = await self._resolve()
        while True:
            run = await self.hub.read(queries.run, run_id)
            if run is None or run.workflow_id != self.workflow_id:
                raise RunNotFoundError(run_id, workflow_id=self.workflow_id)
            if run.next_run_id is None:
                return run
            run_id = run.next_run_id

    # --- requests ---------------------------------------------------------------------------------------------------

    @overload
    async def signal(
        self, signal: Callable[[*Ts], SignalCall], *args: *Ts, request_id: str | None = None
    ) -> None: ...

    @overload
    async def signal(self, signal: SignalCall, *, request_id: str | None = None) -> None: ...

    @overload
    async def signal(self, signal: str, *args: Any, request_id: str | None = None) -> None: ...

    async def signal(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self, signal: Any, *args: Any, request_id: str | None = None
    ) -> None:
        """Send a signal; when this returns it is durable, and it will be handled in the order of arrival.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: Its arguments.
            request_id: A key of your own: signals with the same key reach the workflow once, whatever is retried.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            WorkflowClosedError: It has ended already.
            StructuralLimitError: Too many signals wait already; this one was refused.
        """
        event = signal_event(
            signal,
            args,
            request_id,
            converter=self._converter,
            limits=self._limits,
            whose=self.workflow_id,
        )
        most = self._limits.unhandled_signals
        await self._ask(lambda run_id: SendSignal(self.workflow_id, run_id, event, most))

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the workflow to cancel: ``asyncio.CancelledError`` arrives in its code, which decides.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        reason = validate_reason(reason)
        await self._ask(lambda run_id: RequestCancel(self.workflow_id, run_id, reason))

    async def terminate(self, reason: str | None = None) -> None:
        """End the workflow at once, without its code.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        reason = validate_reason(reason)
        await self._ask(lambda run_id: Terminate(self.workflow_id, run_id, reason))

    async def _ask(self, change: Callable[[str], Change[str | None]]) -> None:
        run_id = await self._resolve()
        while True:
            try:
                following = await self.hub.journal.apply(change(run_id))
            except WorkflowClosedError:
                if (
                    self.run_id is None and (now := await self._resolve()) != run_id
                ):  # it was started anew meanwhile
                    run_id = now
                    continue
                raise
            if following is None:
                return
            if following == "":
                row = await self.hub.read(queries.run, run_id)
                status = row.status if row is not None else "timed_out"
                raise WorkflowClosedError(self.workflow_id, run_id=run_id, status=status)
            run_id = following

    # --- looking ----------------------------------------------------------------------------------------------------

    async def describe(self) -> WorkflowDescription:
        """What the workflow is doing, as one state of the database.

        A handle from ``client.start`` follows its chain to the latest run; one that was asked for with a run id shows
        that run.

        Raises:
            WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
        """
        return await describe(
            self.hub, self._converter, self.workflow_id, self.run_id, follow=not self._pinned
        )

    async def history(self, *, after_seq: int = 0) -> AsyncIterator[HistoryEvent]:
        """The events of the handle's run, in order.

        Raises:
            WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
        """
        run_id = await self._resolve()
        first = True
        while True:
            page = await self._events(run_id, after_seq, first=first)
            for event in page:
                yield event
                after_seq = event.seq
            if len(page) < PAGE:
                return
            first = False

    async def history_page(self, after_seq: int = 0) -> Sequence[HistoryEvent]:
        """The next events of the handle's run after a seq, at most a thousand; none at the end."""
        return await self._events(await self._resolve(), after_seq, first=True)

    async def _events(self, run_id: str, after_seq: int, *, first: bool) -> list[HistoryEvent]:
        rows = await self.hub.read(queries.events, run_id, after_seq, PAGE)
        if first:
            run = await self.hub.read(queries.run, run_id)
            if run is None or run.workflow_id != self.workflow_id:
                raise RunNotFoundError(run_id, workflow_id=self.workflow_id)
        return [
            HistoryEvent(seq, kind, to_datetime(recorded_at), orjson.loads(payload))
            for seq, kind, recorded_at, payload in rows
        ]
