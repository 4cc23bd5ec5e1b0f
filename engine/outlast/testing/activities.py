"""Running one activity alone, with its info, heartbeats and cancellation, without a workflow or a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

from outlast.client.client import Client
from outlast.testing.clock import EPOCH
from outlast.worker.lent_client import LENT, lend
from outlast_activities.attempt_outcome import deferral_lost
from outlast_activities.context import CURRENT, Deferred, RunningActivity
from outlast_activities.definitions import definition_of
from outlast_activities.stop_reason import StopReason
from outlast_activities.task import ActivityTask
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.times import from_datetime

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ActivityEnvironment:
    """What an activity sees of the engine, for a test of the activity alone.

    ::

        async def test_the_import_continues_where_it_was() -> None:
            env = ActivityEnvironment(attempt=2, heartbeat_details=(500,))
            assert await env.run(import_rows, "rows.csv") == 1000
            assert env.heartbeats == [(600,), (700,), (800,), (900,), (1000,)]

    Arguments and result are encoded as payloads, so that a value without a JSON form is found. The activity runs in
    place, even a plain ``def``. ``activity.info()`` shows its timeouts, which are not enforced.

    Args:
        workflow_id: The workflow id that ``activity.info()`` shows; it also shows the values that follow.
        workflow_type: The workflow's type.
        task_queue: The task queue.
        attempt: The number of the attempt.
        heartbeat_details: The details of the last heartbeat of the previous attempt.
        priority: Its priority.
        started_at: When the attempt started (aware).
        options: Options of the call, which override those of the declaration.
        converter: How arguments and results become JSON.
        client: What ``activity.client()`` returns to an ``async def``; a plain function runs in place here, where it
            cannot block.

    Attributes:
        heartbeats: The details of each heartbeat, in order.
        streams: What it wrote to each stream, in order.
        deferred: Whether the activity returned ``activity.defer()``; then :meth:`run` returns a
            :class:`~outlast.activity.Deferred`.
        on_heartbeat: Called with the details of each; may call :meth:`cancel`.
    """

    def __init__(
        self,
        *,
        workflow_id: str = "test-workflow",
        workflow_type: str = "TestWorkflow",
        task_queue: str = "default",
        attempt: int = 1,
        heartbeat_details: tuple[Any, ...] = (),
        priority: int = 5,
        started_at: datetime = EPOCH,
        options: ActivityOptions | None = None,
        converter: DataConverter | None = None,
        client: Client | None = None,
    ) -> None:
        self.heartbeats: list[tuple[Any, ...]] = []
        self.streams: dict[str, list[Any]] = {}
        self.deferred = False
        self.on_heartbeat: Callable[[tuple[Any, ...]], None] | None = None
        self._workflow_id = workflow_id
        self._workflow_type = workflow_type
        self._task_queue = task_queue
        self._attempt = attempt
        self._heartbeat_details = heartbeat_details
        self._priority = priority
        self._started_at = from_datetime(started_at)
        self._options = options
        self._converter = converter or DataConverter()
        self._client = client
        self._stopped: StopReason | None = None
        self._running: RunningActivity | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self, activity: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """Run an activity, an ``async def`` or a plain one, and return what it returns.

        Args:
            activity: The activity.
            *args: Its arguments.

        Raises:
            PayloadEncodeError: An argument, the result or heartbeat details have no JSON form.
            PayloadDecodeError: An argument does not fit its type hint.
            ApplicationError: It called ``activity.defer()``, but returned something else.
            BaseException: Whatever the activity raises.
        """
        definition = definition_of(activity)
        payload = self._converter.encode_args(args, definition.signature, definition.name)
        options = definition.options if self._options is None else definition.options.merged(self._options)
        row = self._row(definition.name, options)
        task = ActivityTask(row, payload, self._workflow_id, self._workflow_type)
        written = _Written(self._converter, self.streams)
        self._running = running = RunningActivity(task, definition, self._converter, self, written)
        running.stopped = self._stopped
        token = CURRENT.set(running)
        lent = LENT.set(lend(self._client) if self._client is not None else None)
        try:
            given = self._converter.decode_args(payload, definition.signature)
            if definition.is_async:
                task_of_it = self._task = asyncio.ensure_future(definition.fn(*given))
                result = await task_of_it
            else:
                result = definition.fn(*given)
        finally:
            LENT.reset(lent)
            CURRENT.reset(token)
            self._running = self._task = None
        self.deferred = isinstance(result, Deferred)
        if running.deferring and not self.deferred:
            raise deferral_lost(definition.name)
        if not self.deferred:
            self._converter.encode(result, f"the result of activity {definition.name}")
        return result  # type: ignore[no-any-return]

    def cancel(self, reason: StopReason = StopReason.CANCEL_REQUESTED) -> None:
        """Cancel the activity as the engine does: now, or when it starts."""
        self._stopped = reason
        if self._running is not None:
            self._running.stopped = reason
        if self._task is not None:
            self._task.cancel()

    def record(self, task: ActivityTask, details: tuple[Any, ...]) -> None:
        """Record a heartbeat.

        Args:
            task: The attempt that sent it.
            details: What it said.
        """
        self._converter.encode_args(details, None, "heartbeat details")
        self.heartbeats.append(details)
        if self.on_heartbeat is not None:
            self.on_heartbeat(details)

    def _row(self, activity_type: str, options: ActivityOptions) -> ActivityRow:
        at = self._started_at
        details = self._heartbeat_details

        def after(seconds: float | None) -> int | None:
            return None if seconds is None else at + timedelta(seconds=seconds) // timedelta(microseconds=1)

        return ActivityRow(
            run_id="test-run",
            activity_id=1,
            activity_type=activity_type,
            task_queue=self._task_queue,
            priority=self._priority,
            scheduled_seq=3,
            status="running",
            attempt=self._attempt,
            uncharged=0,
            rescues=0,
            scheduled_at=at,
            available_at=at,
            claimed_by="test-worker",
            started_at=at,
            heartbeat_at=None,
            heartbeat_details=self._converter.encode_args(details).json.decode() if details else None,
            options=options.snapshot.json.decode(),
            last_failure=None,
            schedule_to_start_deadline_at=None,
            start_to_close_deadline_at=after(options.start_to_close_timeout),
            schedule_to_close_deadline_at=after(options.schedule_to_close_timeout),
            heartbeat_deadline_at=after(options.heartbeat_timeout),
            next_deadline_at=None,
            cancel_requested=False,
            local=False,
            closed_at=None,
            summary=None,
        )


class _Written:
    """Takes what an activity writes to streams."""

    def __init__(self, converter: DataConverter, streams: dict[str, list[Any]]) -> None:
        self._converter = converter
        self._streams = streams

    def record(self, task: ActivityTask, name: str, value: Any) -> None:
        """Take an item."""
        self._converter.encode(value, f"an item of stream {name!r}")
        self._streams.setdefault(name, []).append(value)

    async def drain(self, task: ActivityTask) -> None:
        """Do nothing: there is nothing to wait for."""
