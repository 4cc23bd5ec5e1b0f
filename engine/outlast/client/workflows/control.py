"""What a caller does to a workflow as a whole: cancel, terminate, delay, reset, resume or fork it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final, Never, Self, TypeVar, Unpack

from outlast.client.intercepted_calls import (
    CancelWorkflow,
    ForkWorkflow,
    ResumeWorkflow,
    SetStartDelay,
    TerminateWorkflow,
)
from outlast.client.workflows.run_reader import RunReader
from outlast.histories.fork import Forked, ForkOptions, fork
from outlast.histories.reset import ResumeOptions, reset, resume
from outlast_runs.run_change import RequestCancellation, TerminateRun
from outlast_runs.start_delays.moves import MoveStart
from outlast_store.journal.batch import Change
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyBegunError, WorkflowClosedError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import Seconds, duration_seconds, instant_of, validate_reason
from outlast_workflow.primitives.enums import KEEP
from outlast_workflow.primitives.times import microseconds

if TYPE_CHECKING:
    from outlast.client.user_connection import UserConnection

T = TypeVar("T")
X = TypeVar("X")
_FORK_OPTIONS: Final = tuple(sorted(ForkOptions.__optional_keys__))


class RunControl(RunReader[T]):
    """One workflow, or one run of it, to steer. The attributes are those of :class:`RunReader`."""

    @property
    def _run_in_outbox(self) -> str | None:
        """The run that a row of the outbox names: that of a start which waits there itself need not come to be."""
        return self.run_id if self._outbox is None else None

    async def cancel(
        self, reason: str | None = None, *, connection: UserConnection | None = None, **unknown: Never
    ) -> None:
        """Ask the workflow to cancel: its code gets ``asyncio.CancelledError``, and decides.

        Args:
            reason: Why, for the history.
            connection: A connection or session of yours, on the engine's database: the request is made if and only if
                its transaction commits. See ``docs/outbox.md``.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("cancel", unknown, ("reason", "connection"))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_cancel(reason, connection)
            return
        call = CancelWorkflow(self.workflow_id, self.run_id, reason)
        await interceptors.call(
            "cancel_workflow", call, lambda call: self._send_cancel(call.reason, connection)
        )

    async def _send_cancel(self, reason: str | None, connection: object) -> None:
        reason = validate_reason(reason)
        if connection is not None:
            from outlast.outbox.writing import write_cancel

            await write_cancel(
                self._context.runtime, connection, self.workflow_id, self._run_in_outbox, reason
            )
            return
        await self._send(lambda run_id: RequestCancellation(self.workflow_id, run_id, reason))

    async def terminate(self, reason: str | None = None, **unknown: Never) -> None:
        """End the workflow at once, without running its code.

        Args:
            reason: Why, for the history.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: The reason is not text that can be stored.
            WorkflowClosedError: It has ended already.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("terminate", unknown, ("reason",))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_terminate(reason)
            return
        call = TerminateWorkflow(self.workflow_id, self.run_id, reason)
        await interceptors.call("terminate_workflow", call, lambda call: self._send_terminate(call.reason))

    async def _send_terminate(self, reason: str | None) -> None:
        reason = validate_reason(reason)
        await self._send(lambda run_id: TerminateRun(self.workflow_id, run_id, reason))

    async def set_start_delay(
        self, delay: Seconds | None = None, *, until: datetime | None = None, **unknown: Never
    ) -> None:
        """Move the start of the workflow while it has not begun: later or sooner, delayed or in line, queue or none.

        A workflow in line leaves it, keeps its priority and joins the line anew. One that may begin already stays as it
        is where the new start is now. A signal, an update or a cancel request ends the new delay like any other.

        Args:
            delay: Seconds from now, or a timedelta; 0 for at once. Give this or ``until``.
            until: When it may begin: a datetime with a time zone. One that has passed means at once.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: Not exactly one is given, it cannot be used, or the start would come at or after the
                execution deadline, or after the year 9999. Nothing was written.
            WorkflowAlreadyBegunError: It has begun, is about to, or has ended.
            WorkflowNotFoundError: There is no such workflow.
        """
        if unknown:
            refuse_unknown("set_start_delay", unknown, ("delay", "until"))
        interceptors = self._context.interceptors
        if not interceptors:
            await self._send_start_delay(delay, until)
            return
        call = SetStartDelay(self.workflow_id, self.run_id, delay, until)
        await interceptors.call(
            "set_start_delay", call, lambda call: self._send_start_delay(call.delay, call.until)
        )

    async def _send_start_delay(self, delay: Seconds | None, until: datetime | None) -> None:
        wait, begin = start_of(delay, until)
        try:
            await self._send(lambda run_id: MoveStart(self.workflow_id, run_id, delay=wait, until=begin))
        except WorkflowClosedError as error:
            raise WorkflowAlreadyBegunError(
                error.workflow_id, run_id=error.run_id, status=error.status
            ) from None

    async def reset(
        self,
        to: str | int = "last-workflow-task",
        *,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        signals: bool = True,
    ) -> Self:
        """Start a new run from a point of the history; an open run ends in the same transaction. See ``docs/reset.md``.

        Args:
            to: The last event to keep: its number, ``first-workflow-task``, ``last-workflow-task`` (the code makes its
                last decisions again), ``last-successful`` (the activity or child that failed last is repeated) or
                ``before-cancel`` (the first cancel request is forgotten).
            reason: Why, for the history.
            execution_timeout: A new one, in seconds from now; without it, the chain's execution deadline is kept.
            signals: Whether the signals after the point are kept. ``False`` drops them, for a signal that the code
                cannot handle.

        Returns:
            A handle to the new run.

        Raises:
            InvalidOptionError: An option cannot be used.
            ResetRefusedError: The workflow cannot be reset, or not to that point; another point may work.
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        pinned = self.run_id if self._pinned else None
        run_id = await reset(
            self._context.runtime, self.workflow_id, pinned, to, reason, execution_timeout, signals
        )
        return type(self)(self._context, self.workflow_id, run_id, self._result_type)

    async def resume(self, **options: Unpack[ResumeOptions]) -> Self:
        """Take up a workflow that was cancelled or terminated, that timed out or failed. See ``docs/reset.md``.

        A cancelled workflow goes on from before the first cancel request, a terminated or timed-out one from where it
        was, and one that failed repeats its last workflow task. The old handles lead to the new run.

        Args:
            **options: ``reason`` is for the history. ``execution_timeout`` is a new one, in seconds from now; without
                it, the chain's execution deadline is kept. ``queue`` is the queue to join the line of: another one than
                before, or ``None`` for none; by default that of before. ``signals=False`` drops the signals after the
                point.

        Returns:
            A handle to the new run.

        Raises:
            InvalidOptionError: An option cannot be used.
            WorkflowNotResumableError: It is open, or has completed.
            ResetRefusedError: Another run is current by now, or its execution deadline has passed.
            QueueNotFoundError: Nobody has defined the queue.
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        known = ("reason", "execution_timeout", "queue", "signals")
        unknown = {name: value for name, value in options.items() if name not in known}
        if unknown:
            refuse_unknown("resume", unknown, known)
        call = ResumeWorkflow(
            self.workflow_id,
            self.run_id if self._pinned else None,
            options.get("reason"),
            options.get("execution_timeout"),
            options.get("queue", KEEP),
            options.get("signals", True),
        )
        interceptors = self._context.interceptors
        if not interceptors:
            run_id = await self._resume(call)
        else:
            run_id = await interceptors.call("resume_workflow", call, self._resume)
        return type(self)(self._context, self.workflow_id, run_id, self._result_type)

    async def _resume(self, call: ResumeWorkflow) -> str:
        return await resume(
            self._context.runtime,
            call.workflow_id,
            call.run_id,
            call.reason,
            call.execution_timeout,
            call.queue,
            call.signals,
        )

    async def fork(self, to: str | int = "last-workflow-task", **options: Unpack[ForkOptions]) -> Self:
        """Start another workflow with the history of this one up to a point. See ``docs/fork.md``.

        This one is not touched, whether it is open or has ended. A fork has no parent.

        Args:
            to: The last event to keep, as for :meth:`reset`.
            **options: ``before`` is the id of a command instead of ``to``: the fork keeps what came before the
                workflow task that gave it. ``id`` is its workflow id, a new one by default, and ``duplicate_policy``
                what to do if that is in use, as for a start. ``task_queue``, ``queue`` and ``partition_key`` are those
                of the original by default; ``queue=None`` is for none. It has the original's execution deadline, unless
                ``execution_timeout`` gives it another one from now. ``reason`` is for its history; ``signals=False``
                leaves out the signals after the point.

        Returns:
            A handle to the fork.

        Raises:
            InvalidOptionError: An option cannot be used.
            ResetRefusedError: It cannot be forked there, or its execution deadline has passed and no other is given.
            WorkflowAlreadyStartedError: The fork's id is taken.
            QueueNotFoundError: Nobody has defined the queue.
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        unknown = {name: value for name, value in options.items() if name not in _FORK_OPTIONS}
        if unknown:
            refuse_unknown("fork", unknown, ("to", *_FORK_OPTIONS))
        pinned = self.run_id if self._pinned else None
        call = ForkWorkflow(self.workflow_id, pinned, to, options)
        interceptors = self._context.interceptors
        if not interceptors:
            made = await self._fork(call)
        else:
            made = await interceptors.call("fork_workflow", call, self._fork)
        return type(self)(
            self._context, made.workflow_id, made.run_id, self._result_type, existed=not made.created
        )

    async def _fork(self, call: ForkWorkflow) -> Forked:
        return await fork(self._context.runtime, call.workflow_id, call.run_id, call.to, **call.options)

    async def _send(self, change: Callable[[str], Change[Ended | X]]) -> X:
        run_id = await self.resolve()
        while True:
            try:
                outcome = await self._context.runtime.journal.apply(change(run_id))
            except WorkflowClosedError:
                # The id may have been started anew in the meantime.
                if self.run_id is None and (now := await self.resolve()) != run_id:
                    run_id = now
                    continue
                raise
            if not isinstance(outcome, Ended):
                return outcome
            if outcome.next_run_id is None:
                raise WorkflowClosedError(self.workflow_id, run_id=run_id, status=outcome.status)
            run_id = outcome.next_run_id


def start_of(delay: Seconds | None, until: datetime | None) -> tuple[int | None, int | None]:
    """Return a new start delay or a new start, in microseconds: exactly one of them is given.

    Args:
        delay: Seconds or a timedelta.
        until: A datetime with a time zone.

    Raises:
        InvalidOptionError: Both or neither are given, or it cannot be used.
    """
    if (delay is None) == (until is None):
        raise InvalidOptionError("delay or until is needed, and only one of the two", field="delay")
    if delay is not None:
        return microseconds(duration_seconds("delay", delay)), None
    return None, instant_of("until", until)
