"""What code inside an activity may call: information about the attempt, heartbeats, and whether it is to stop.

The attempt is found through a context variable. Tasks that a handler starts have it; threads that it starts have it
only if they run in a copy of its context. The runner sets :attr:`RunningActivity.stopped` on its loop, and handlers
check it wherever they run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from outlast_activities.deadlines import is_bounded, options_of
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.stop_reason import StopReason
from outlast_activities.task import ActivityTask
from outlast_activities.task_token import make_token
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import DeferRefusedError, NotTransactionalError, TransactionRefusedError
from outlast_workflow.errors.context import NotInActivityError
from outlast_workflow.options.validation import validate_stream
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

_REASONS = {
    StopReason.CANCEL_REQUESTED: "the activity was cancelled, or its workflow ended",
    StopReason.TIMED_OUT: "a deadline of the attempt has passed",
    StopReason.LOST: "another worker has the activity now",
    StopReason.WORKER_SHUTDOWN: "the worker is shutting down",
}


_WITHOUT_CLAIM = frozenset({StopReason.LOST, StopReason.TIMED_OUT})


class Deferred:
    """What a handler returns that defers its activity: ``return activity.defer()``. Interceptors see it as the result.

    It has no result itself: somebody else completes the activity later.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "<deferred: to be completed from outside>"


class Cancelled(asyncio.CancelledError):
    """Raised in an activity that is to stop; let it propagate. ``reason`` is a :class:`StopReason`.

    It is a ``CancelledError``, so ``except Exception`` does not catch it, in ``async def`` and in ``def`` alike.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(_REASONS[reason])
        self.reason = reason

    def __reduce__(self) -> tuple[type[Cancelled], tuple[StopReason]]:
        return Cancelled, (self.reason,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityInfo:
    """``activity.info()``: information about this attempt.

    ``attempt`` counts as the retry policy does, without rescues from dead workers. Instants are aware datetimes in UTC.
    The schedule-to-start deadline is ``None`` once the attempt runs. ``heartbeat_deadline_at`` is the one set when the
    attempt began. ``heartbeat_details`` are the last details of the previous attempt. ``task_token`` names this attempt
    for ``client.complete_activity`` and its kin; it is safe in URLs.
    """

    workflow_id: str
    run_id: str
    workflow_type: str
    activity_id: int
    activity_type: str
    task_queue: str
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    schedule_to_start_deadline_at: datetime | None
    start_to_close_deadline_at: datetime | None
    schedule_to_close_deadline_at: datetime | None
    heartbeat_deadline_at: datetime | None
    heartbeat_timeout_seconds: int | float | None
    heartbeat_details: tuple[Any, ...]
    priority: int
    task_token: str
    queue: str | None = None
    partition_key: str | None = None

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ActivityInfo")


class Recorder(Protocol):
    """Where heartbeats go."""

    def record(self, task: ActivityTask, details: tuple[Any, ...]) -> None:
        """An attempt is alive, and this far."""
        ...


class StreamRecorder(Protocol):
    """Where items of streams go."""

    def record(self, task: ActivityTask, name: str, value: Any) -> None:
        """An attempt has written an item."""
        ...

    async def drain(self, task: ActivityTask) -> None:
        """Wait until everything that an attempt has written is in the database."""
        ...


class RunningActivity:
    """An attempt that runs here, as its handler and the runner share it.

    Attributes:
        task: The attempt.
        definition: Its code.
        stopped: Why it is to stop; ``None`` while it is not.
        seen: Whether the handler has noticed.
        begun: Whether the handler was called.
        closed: Whether the activity is closed as cancelled, so that only a failure of the handler is still recorded.
        deferring: Whether the handler has called :func:`defer`.
        handle: The handler's task, or its future in a pool.
        connection: The connection of a transactional activity, while its code runs.
    """

    __slots__ = (
        "_converter",
        "_heartbeats",
        "_info",
        "_streams",
        "begun",
        "closed",
        "connection",
        "deferring",
        "definition",
        "handle",
        "seen",
        "stopped",
        "task",
    )

    def __init__(
        self,
        task: ActivityTask,
        definition: ActivityDefinition[..., Any],
        converter: DataConverter,
        heartbeats: Recorder,
        streams: StreamRecorder,
    ) -> None:
        self.task = task
        self.definition = definition
        self.stopped: StopReason | None = None
        self.seen = False
        self.begun = False
        self.closed = False
        self.deferring = False
        self.connection: object = None
        self.handle: asyncio.Task[None] | Future[Any] | None = None
        self._converter = converter
        self._heartbeats = heartbeats
        self._streams = streams
        self._info: ActivityInfo | None = None

    @property
    def info(self) -> ActivityInfo:
        """Information about the attempt, made when first needed."""
        if self._info is None:
            self._info = _info_of(self.task, self._converter)
        return self._info

    @property
    def converter(self) -> DataConverter:
        """What encodes and decodes its values."""
        return self._converter

    def heartbeat(self, details: tuple[Any, ...]) -> None:
        """Record a heartbeat, or raise ``Cancelled`` if the handler is to stop."""
        self.raise_if_stopped()
        self._heartbeats.record(self.task, details)

    def write(self, stream: str, value: Any) -> None:
        """Write an item to a stream of the workflow.

        A handler that is to stop hears of it once. While the attempt still holds its activity, it may then write on.

        Args:
            stream: The stream's name.
            value: What is published.
        """
        knew = self.seen
        if self.is_cancelled() and (not knew or self.closed or self.stopped in _WITHOUT_CLAIM):
            assert self.stopped is not None
            raise Cancelled(self.stopped)
        self._streams.record(self.task, stream, value)

    async def drain(self) -> None:
        """Wait until everything that was written to streams is in the database."""
        await self._streams.drain(self.task)

    def defer(self) -> Deferred:
        """Return what the handler is to return, if the activity can be deferred."""
        if self.definition.transactional:
            raise DeferRefusedError(
                f"{self.task.row.activity_type} is transactional, so it completes with its transaction: defer in an "
                "ordinary activity"
            )
        _check_deferrable(self.task.row)
        self.deferring = True
        return Deferred()

    def raise_if_stopped(self) -> None:
        """Raise ``Cancelled`` if the handler is to stop."""
        if self.stopped is not None:
            self.seen = True
            raise Cancelled(self.stopped)

    def is_cancelled(self) -> bool:
        """Return whether the handler is to stop."""
        if self.stopped is None:
            return False
        self.seen = True
        return True


CURRENT: ContextVar[RunningActivity | None] = ContextVar("outlast_activity", default=None)
"""The attempt that the current context runs."""


def in_activity() -> bool:
    """Return whether this code runs in an activity."""
    return CURRENT.get() is not None


def info() -> ActivityInfo:
    """Return information about this attempt.

    Raises:
        NotInActivityError: This code does not run in an activity.
        PayloadDecodeError: The previous attempt's heartbeat details cannot be decoded.
    """
    return current("info").info


def heartbeat(*details: Any) -> None:
    """Report that this attempt is alive and, optionally, how far it is. It is cheap and may be called from any thread.

    Heartbeats are written together and throttled to 0.8 × the heartbeat timeout, at most 30 seconds apart. The newest
    details reach the next attempt in ``activity.info().heartbeat_details``. A heartbeat without details leaves them
    unchanged.

    Args:
        *details: Anything that has a JSON form.

    Raises:
        Cancelled: The activity was cancelled, timed out, or another worker has it now; let it propagate.
        PayloadEncodeError: The details have no JSON form.
        StructuralLimitError: They are too large.
        NotInActivityError: This code does not run in an activity.
    """
    current("heartbeat").heartbeat(details)


class ActivityStream:
    """A stream of the workflow that called the activity, to write to.

    Attributes:
        name: Its name.
    """

    __slots__ = ("_running", "name")

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ActivityStream")

    def __init__(self, running: RunningActivity, name: str) -> None:
        self._running = running
        self.name = name

    def __repr__(self) -> str:
        return f"<ActivityStream {self.name!r}>"

    def write(self, value: Any) -> None:
        """Publish an item. It is cheap and may be called from any thread: items are written together, in order.

        Readers get the items of each attempt, and each item names its attempt: a retry publishes again. The activity
        ends only when its items are written. In a plain function, this waits while too many are on their way.

        Args:
            value: Anything that has a JSON form.

        Raises:
            Cancelled: The activity was cancelled, timed out, or another worker has it now; let it propagate.
            StreamClosedError: The workflow has closed the stream, as an earlier item found out.
            PayloadEncodeError: The value has no JSON form.
            StructuralLimitError: It is too large, the streams of the workflow are, or too much is on its way.
        """
        self._running.write(self.name, value)

    async def drain(self) -> None:
        """Wait until everything that this attempt has written is in the database, for coroutines that write fast.

        Raises:
            StreamClosedError: Something was refused, because the workflow has closed its stream.
            StructuralLimitError: Something was refused, because the streams of the workflow would become too large.
        """
        await self._running.drain()


def stream(name: str) -> ActivityStream:
    """Return a stream of the workflow that called this activity, to write to; it is made by the first item.

    Args:
        name: Its name, unique within the workflow. The workflow's own code may write to the same one.

    Raises:
        InvalidOptionError: The name cannot be one.
        TransactionRefusedError: The activity is transactional: its items would not be part of its transaction.
        NotInActivityError: This code does not run in an activity.
    """
    running = current("stream")
    if running.definition.transactional:
        raise TransactionRefusedError(
            f"{running.task.row.activity_type} is transactional, and what it writes to a stream would be there even if "
            "it is rolled back: write to streams in an ordinary activity, or in the workflow"
        )
    return ActivityStream(running, validate_stream(name))


def defer() -> T:  # type: ignore[type-var]  # pyright: ignore[reportInvalidTypeVarUse]
    """Leave the activity's end to somebody outside: ``return activity.defer()``, as the last thing that a handler does.

    The attempt goes on without a worker, and its slot is free. It ends when somebody who has
    ``activity.info().task_token``, or the ids, calls ``client.complete_activity``, ``fail_activity`` or
    ``cancel_activity``, or when one of its deadlines passes. See ``docs/deferring.md``.

    Returns:
        A :class:`Deferred`, typed as whatever the handler returns.

    Raises:
        DeferRefusedError: The activity is local, or has no start-to-close, schedule-to-close or heartbeat timeout. The
            attempt fails with it and is not retried.
        NotInActivityError: This code does not run in an activity.
    """
    return cast("T", current("defer").defer())


def _check_deferrable(row: ActivityRow) -> None:
    if row.local:
        raise DeferRefusedError(
            f"{row.activity_type} runs as a local activity, which only its worker can end: call it as an ordinary "
            "activity (workflow.execute_activity)"
        )
    if not is_bounded(row):
        raise DeferRefusedError(
            f"nothing bounds {row.activity_type}, so it could stay open for ever: give it a start_to_close_timeout, a "
            "schedule_to_close_timeout or a heartbeat_timeout, on @activity.defn or at the call"
        )


def connection() -> Connection:
    """Return the connection of a transactional activity that is a plain ``def``: its transaction is begun.

    It is SQLAlchemy's, to the engine's own database. Use it as it is, or as ``Session(activity.connection())``. The
    engine commits it, together with the activity's result, and closes it. See ``docs/transactions.md``.

    Raises:
        NotTransactionalError: The activity is not declared with ``transactional=True``, or is an ``async def``.
        NotInActivityError: This code does not run in an activity.
    """
    running = current("connection")
    return cast("Connection", _connection_of(running, "connection", is_async=False))


def async_connection() -> AsyncConnection:
    """Return the connection of a transactional activity that is an ``async def``: its transaction is begun.

    As :func:`connection`; also for ``AsyncSession(activity.async_connection())``. It needs PostgreSQL.

    Raises:
        NotTransactionalError: The activity is not declared with ``transactional=True``, or is a plain ``def``.
        NotInActivityError: This code does not run in an activity.
    """
    running = current("async_connection")
    return cast("AsyncConnection", _connection_of(running, "async_connection", is_async=True))


def _connection_of(running: RunningActivity, function: str, *, is_async: bool) -> object:
    definition = running.definition
    name = running.task.row.activity_type
    if not definition.transactional:
        raise NotTransactionalError(
            f"activity.{function}() was called in {name}, which has no transaction: declare it with "
            "@activity.defn(transactional=True)"
        )
    if definition.is_async is not is_async:
        other = "async_connection" if definition.is_async else "connection"
        kind = "an async def" if definition.is_async else "a plain def"
        raise NotTransactionalError(f"{name} is {kind}: call activity.{other}() in it")
    if running.connection is None:
        raise NotTransactionalError(
            f"activity.{function}() was called when the transaction of {name} was over: call it in the activity's own "
            "code, not in something that outlives it"
        )
    return running.connection


def is_cancelled() -> bool:
    """Return whether this attempt is to stop, for loops that would rather check than catch an exception.

    Raises:
        NotInActivityError: This code does not run in an activity.
    """
    return current("is_cancelled").is_cancelled()


def current(function: str) -> RunningActivity:
    """Return the attempt that this code runs in, for a function of that name.

    Raises:
        NotInActivityError: It runs in none.
    """
    running = CURRENT.get()
    if running is None:
        raise NotInActivityError(
            f"activity.{function}() was called outside an activity: call it from an activity's code, and in threads of "
            "your own within a copy of its context (contextvars.copy_context().run)"
        )
    return running


def _info_of(task: ActivityTask, converter: DataConverter) -> ActivityInfo:
    row = task.row
    details: tuple[Any, ...] = ()
    if row.heartbeat_details is not None:
        details = tuple(converter.decode_args(Payload(row.heartbeat_details.encode())))
    started_at = row.started_at if row.started_at is not None else row.scheduled_at
    return ActivityInfo(
        workflow_id=task.workflow_id,
        run_id=row.run_id,
        workflow_type=task.workflow_type,
        activity_id=row.activity_id,
        activity_type=row.activity_type,
        task_queue=row.public_task_queue,
        attempt=row.charged_attempt,
        scheduled_at=to_datetime(row.scheduled_at),
        started_at=to_datetime(started_at),
        schedule_to_start_deadline_at=_instant(row.schedule_to_start_deadline_at),
        start_to_close_deadline_at=_instant(row.start_to_close_deadline_at),
        schedule_to_close_deadline_at=_instant(row.schedule_to_close_deadline_at),
        heartbeat_deadline_at=_instant(row.heartbeat_deadline_at),
        heartbeat_timeout_seconds=options_of(row).heartbeat_timeout,
        heartbeat_details=details,
        priority=row.priority,
        task_token=make_token(task.key),
        queue=row.queue,
        partition_key=row.partition_key or None,
    )


def _instant(us: int | None) -> datetime | None:
    return to_datetime(us) if us is not None else None


class ActivityLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry the ids of the attempt that logs."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the attempt to a record."""
        running = CURRENT.get()
        if running is not None:
            row = running.task.row
            kwargs["extra"] = {
                "workflow_id": running.task.workflow_id,
                "run_id": row.run_id,
                "activity_id": row.activity_id,
                "activity_type": row.activity_type,
                "attempt": row.charged_attempt,
                **(kwargs.get("extra") or {}),
            }
        return msg, kwargs


logger = ActivityLogger(logging.getLogger("outlast.activity"), {})
