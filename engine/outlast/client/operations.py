"""What a client does besides starting and messaging workflows: reset, bulk, schedules, activities, deletion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Unpack

from outlast.client.activity_ids import ActivityIds
from outlast.client.intercepted_calls import CancelActivity, CompleteActivity, FailActivity, HeartbeatActivity
from outlast.client.reader import Reader
from outlast_workflow.errors import WorkflowClosedError

if TYPE_CHECKING:
    from outlast.client.bulk import Bulk
    from outlast.client.schedules.schedules import Schedules
    from outlast.client.user_connection import UserConnection
    from outlast.client.workflows.addressed_signals import SignalTo
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.histories.fork import ForkOptions
    from outlast.histories.reset import ResumeOptions
    from outlast.outbox.outbox import Outbox
    from outlast.visibility.alerts import Alerts
    from outlast.visibility.filters import Filters
    from outlast_workflow.options.validation import Seconds

BULK_AT_ONCE: Final = 20
"""How many workflows a bulk operation handles at a time."""


class Operations(Reader):
    """A connection through which workflows are operated. The attributes are those of :class:`Reader`."""

    async def reset(
        self,
        workflow_id: str,
        to: str | int = "last-workflow-task",
        *,
        run_id: str | None = None,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        signals: bool = True,
    ) -> WorkflowHandle[Any]:
        """Start a new run from a point of a workflow's history: :meth:`handle` and :meth:`WorkflowHandle.reset` in one.

        Args:
            workflow_id: The workflow.
            to: As for :meth:`WorkflowHandle.reset`, as are ``reason``, ``execution_timeout`` and ``signals``.
            run_id: The run to reset, which must be the current one.
            reason: Why, for the history.
            execution_timeout: A new one, in seconds from now.
            signals: Whether the signals after the point are kept.

        Raises:
            OutlastError: As for :meth:`WorkflowHandle.reset`.
        """
        handle = self.handle(workflow_id, run_id=run_id)
        return await handle.reset(to, reason=reason, execution_timeout=execution_timeout, signals=signals)

    async def resume(
        self, workflow_id: str, *, run_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> WorkflowHandle[Any]:
        """Take up a workflow that ended badly: :meth:`handle` and :meth:`WorkflowHandle.resume` in one.

        Args:
            workflow_id: The workflow.
            run_id: The run to resume, which must be the current one.
            **options: As for :meth:`WorkflowHandle.resume`, as are the errors.
        """
        return await self.handle(workflow_id, run_id=run_id).resume(**options)

    async def signal_many(
        self,
        signals: Iterable[SignalTo],
        *,
        to_forks: bool = False,
        connection: UserConnection | None = None,
    ) -> Sequence[str]:
        """Send signals to several workflows in one transaction: all of them, or none.

        ``await client.signal_many([SignalTo("order-1", Order.approve, "ada"), SignalTo("order-2", "stop")])``

        Args:
            signals: The signals, 1,000 at most. Those of one workflow arrive in their order.
            to_forks: Whether the forks of those workflows get the signals too, and the forks of these; closed forks
                are left out. Not with a ``connection``.
            connection: As for :meth:`WorkflowHandle.signal`. All are written, or none; after the commit each is
                delivered by itself, and one that is refused then keeps no other.

        Returns:
            The ids of the workflows that have the signals.

        Raises:
            WorkflowNotFoundError: There is no such workflow: ``workflow_id`` says which. Nothing was sent.
            WorkflowClosedError: A workflow has ended: ``workflow_id`` says which. Nothing was sent.
            StructuralLimitError: Too many signals would wait in one of them. Nothing was sent.
            InvalidOptionError: There are too many, or two for one workflow have the same key. Nothing was sent.
            PayloadEncodeError: An argument has no JSON form. Nothing was sent.
        """
        from outlast.client.workflows.addressed_signals import signal_many

        return await signal_many(self._context, signals, to_forks=to_forks, connection=connection)

    async def fork(
        self,
        workflow_id: str,
        to: str | int = "last-workflow-task",
        *,
        run_id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> WorkflowHandle[Any]:
        """Start another workflow with the history of one up to a point: :meth:`handle` and :meth:`WorkflowHandle.fork`.

        Args:
            workflow_id: The original.
            to: As for :meth:`WorkflowHandle.fork`, as are the options and the errors.
            run_id: The run to fork; the current one if ``None``.
            **options: As there.
        """
        return await self.handle(workflow_id, run_id=run_id).fork(to, **options)

    @property
    def schedules(self) -> Schedules:
        """The schedules: ``await client.schedules.create("nightly", Report.run, spec=Cron("0 2 * * *"))``."""
        from outlast.client.schedules.schedules import Schedules

        return Schedules(self._context)

    @property
    def outbox(self) -> Outbox:
        """The outbox: what was started, signalled and cancelled in transactions of users and is yet to be applied."""
        from outlast.outbox.outbox import Outbox

        return Outbox(self.runtime)

    @property
    def alerts(self) -> Alerts:
        """The alerts that were fired: ``await client.alerts.list(workflow_id="order-1")``."""
        from outlast.visibility.alerts import Alerts

        return Alerts(self.runtime)

    def bulk(
        self, *, cursor: str | None = None, at_once: int = BULK_AT_ONCE, **filters: Unpack[Filters]
    ) -> Bulk:
        """Return what can be done to all that match: ``async for outcome in client.bulk(status="running").cancel()``.

        Each workflow is handled once, if the last run of its chain matches.

        Args:
            cursor: Where to continue an earlier walk with the same filters: an outcome's ``cursor``.
            at_once: How many workflows are handled at a time, 1 to 1000.
            **filters: As for :meth:`list`, as are the errors.
        """
        return self._visibility.bulk(cursor, at_once, filters)

    async def complete_activity(self, activity: str | ActivityIds, result: Any = None) -> None:
        """Complete an activity from outside, most likely one whose handler returned ``activity.defer()``.

        When this returns, the result is durable. See ``docs/deferring.md``, also for the verbs that follow.

        Args:
            activity: Its ``activity.info().task_token``, or :class:`~outlast.ActivityIds`.
            result: What the workflow's code gets.

        Raises:
            AttemptNotRunningError: The attempt has ended already, or none runs now; ``outcome`` says how it ended.
            ActivityNotFoundError: There is no such activity; also RunNotFoundError, WorkflowNotFoundError.
            RefusedError: The activity is local: only its worker ends it.
            InvalidOptionError: This is no token, or no ids.
            PayloadEncodeError: The result has no JSON form.
            StructuralLimitError: The result is too large.
        """
        await self._activities.complete(CompleteActivity(activity, result))

    async def fail_activity(
        self, activity: str | ActivityIds, error: Exception | str = "failed from outside"
    ) -> None:
        """Fail an attempt of an activity from outside. Its retry policy decides whether a worker runs it again.

        Args:
            activity: As for :meth:`complete_activity`, as are the errors.
            error: Why: an exception, such as :class:`~outlast.ApplicationError`, or a message.
        """
        await self._activities.fail(FailActivity(activity, error))

    async def cancel_activity(self, activity: str | ActivityIds) -> None:
        """Acknowledge from outside that the work of an activity was stopped, because its workflow asked for that.

        Args:
            activity: As for :meth:`complete_activity`, as are the errors.

        Raises:
            RefusedError: Nobody has asked to cancel it, or it is local.
        """
        await self._activities.cancel(CancelActivity(activity))

    async def heartbeat_activity(self, activity: str | ActivityIds, *details: Any) -> None:
        """Report from outside that an activity is alive and, optionally, how far it is. Each call is one write.

        Args:
            activity: As for :meth:`complete_activity`, as are the other errors.
            *details: As for ``activity.heartbeat``. Without them, those of an earlier heartbeat stay.

        Raises:
            ActivityCancelRequestedError: The workflow no longer wants the activity. The heartbeat was recorded.
        """
        await self._activities.heartbeat(HeartbeatActivity(activity, details))

    async def delete(
        self,
        workflow_id: str,
        *,
        terminate: bool = False,
        children: bool = False,
        reason: str | None = None,
    ) -> int:
        """Delete a closed workflow with all its runs, histories and requests, in small steps. This frees its id.

        Args:
            workflow_id: The workflow.
            terminate: Whether to terminate it first if it is open; with ``children``, its open descendants as well.
            children: Whether to delete the workflows that it has started as children too, and theirs, the deepest
                first. An open one refuses the deletion. One that was interrupted goes on when it is asked for again.
            reason: Why it is terminated.

        Returns:
            How many runs were deleted.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            DeleteRefusedError: It is open, or its close policy has yet to reach its children; or this is so of a
                descendant that is to be deleted with it. Nothing was deleted.
        """
        handle = self.handle(workflow_id)
        if terminate:
            with suppress(WorkflowClosedError):
                await handle.terminate(reason)
        return await self._histories.delete(workflow_id, terminate=terminate, children=children)
