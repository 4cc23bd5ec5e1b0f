"""Options of an activity call: where it runs, how long it may take, how it is retried."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Never, Self

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import DEFAULT_RETRY_POLICY, RetryPolicy
from outlast_workflow.options.validation import priority as valid_priority
from outlast_workflow.options.validation import (
    timeout_seconds,
    valid_cancellation_type,
    validate_partition_key,
    validate_queue,
    validate_summary,
    validate_task_queue,
)
from outlast_workflow.primitives.enums import CancellationType
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import microseconds
from outlast_workflow.primitives.value_object import Value

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy
    from outlast_workflow.primitives.enums import AlertKind

ALERTS: Final = '"alerts":'
"""What is in the text of each snapshot with an alert policy. In others it is rare: they have no text of users but names
of errors."""

_TIMEOUTS = ("schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat")
_ORDER = (
    ("heartbeat", "start_to_close"),
    ("heartbeat", "schedule_to_close"),
    ("start_to_close", "schedule_to_close"),
    ("schedule_to_start", "schedule_to_close"),
)


class ActivityOptions(Value):
    """Options of an activity call. All are optional; missing ones come from the decorator or the worker.

    Args:
        task_queue: The task queue; by default the workflow's.
        schedule_to_start_timeout: How long an attempt may wait for a worker.
        start_to_close_timeout: How long an attempt may run.
        schedule_to_close_timeout: How long all attempts together may take.
        heartbeat_timeout: How long a running attempt may go without a heartbeat.
        retry_policy: By default 1 s, doubling up to 100 s, unlimited.
        priority: 0 (first) to 9; by default the workflow's.
        cancellation_type: What cancelling the call does: ``try`` (the default), ``wait`` or ``abandon``; see
            :class:`CancellationType`.
        summary: What the call does, in at most 200 characters of plain text, shown to everybody and not encoded by
            codecs.
        queue: The queue that decides when each attempt begins. It waits there in line, and holds a slot of the queue
            while it runs. Somebody must have defined the queue.
        partition_key: Its partition of the queue, for example a tenant or an API key. Partitions take turns.
        alerts: When to be told that a deadline of it comes near, or that it takes long.

    Timeouts take seconds (int, float) or a timedelta. ``…_us`` are the same in microseconds.

    Raises:
        InvalidOptionError: A field is out of range, or two timeouts contradict each other.
    """

    __slots__ = (
        "_snapshot",
        "alerts",
        "cancellation_type",
        "heartbeat_timeout",
        "heartbeat_us",
        "is_bounded",
        "partition_key",
        "priority",
        "queue",
        "retry_policy",
        "schedule_to_close_timeout",
        "schedule_to_close_us",
        "schedule_to_start_timeout",
        "schedule_to_start_us",
        "start_to_close_timeout",
        "start_to_close_us",
        "summary",
        "task_queue",
    )
    fields = (
        "task_queue",
        "schedule_to_start_timeout",
        "start_to_close_timeout",
        "schedule_to_close_timeout",
        "heartbeat_timeout",
        "retry_policy",
        "priority",
        "cancellation_type",
        "summary",
        "queue",
        "partition_key",
        "alerts",
    )

    task_queue: str | None
    schedule_to_start_timeout: int | float | None
    start_to_close_timeout: int | float | None
    schedule_to_close_timeout: int | float | None
    heartbeat_timeout: int | float | None
    retry_policy: RetryPolicy | None
    priority: int | None
    cancellation_type: CancellationType | None
    summary: str | None
    queue: str | None
    partition_key: str | None
    alerts: AlertPolicy | None
    schedule_to_start_us: int | None
    start_to_close_us: int | None
    schedule_to_close_us: int | None
    heartbeat_us: int | None
    is_bounded: bool
    """Whether a timeout bounds one attempt or all together: start-to-close, schedule-to-close or heartbeat."""
    _snapshot: Payload | None

    def __init__(
        self,
        *,
        task_queue: str | None = None,
        schedule_to_start_timeout: float | timedelta | None = None,
        start_to_close_timeout: float | timedelta | None = None,
        schedule_to_close_timeout: float | timedelta | None = None,
        heartbeat_timeout: float | timedelta | None = None,
        retry_policy: RetryPolicy | None = None,
        priority: int | None = None,
        cancellation_type: CancellationType | str | None = None,
        summary: str | None = None,
        queue: str | None = None,
        partition_key: str | None = None,
        alerts: AlertPolicy | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("ActivityOptions", unknown, self.fields)
        timeouts = {
            "schedule_to_start": _timeout("schedule-to-start timeout", schedule_to_start_timeout),
            "start_to_close": _timeout("start-to-close timeout", start_to_close_timeout),
            "schedule_to_close": _timeout("schedule-to-close timeout", schedule_to_close_timeout),
            "heartbeat": _timeout("heartbeat timeout", heartbeat_timeout),
        }
        for lesser, greater in _ORDER:
            _check_order(lesser, timeouts[lesser], greater, timeouts[greater])
        if retry_policy is not None and not isinstance(retry_policy, RetryPolicy):
            raise InvalidOptionError(
                f"retry policy must be a RetryPolicy, not {type(retry_policy).__name__}", field="retry_policy"
            )
        self._fill(
            timeouts,
            retry_policy,
            None if task_queue is None else validate_task_queue(task_queue),
            None if priority is None else valid_priority(priority),
            None if cancellation_type is None else valid_cancellation_type(cancellation_type),
            None if summary is None else validate_summary(summary),
            None if queue is None else validate_queue(queue),
            None if partition_key is None else validate_partition_key(partition_key),
            None if alerts is None else _alerts(alerts),
        )

    def _fill(
        self,
        timeouts: dict[str, int | float | None],
        retry_policy: RetryPolicy | None,
        task_queue: str | None,
        priority: int | None,
        cancellation_type: CancellationType | None,
        summary: str | None,
        queue: str | None = None,
        partition_key: str | None = None,
        alerts: AlertPolicy | None = None,
    ) -> None:
        values: dict[str, Any] = {
            "cancellation_type": cancellation_type,
            "task_queue": task_queue,
            "retry_policy": retry_policy,
            "priority": priority,
            "summary": summary,
            "queue": queue,
            "partition_key": partition_key,
            "alerts": alerts,
            "_snapshot": None,
        }
        for name, seconds in timeouts.items():
            values[f"{name}_timeout"] = seconds
            values[f"{name}_us"] = None if seconds is None else microseconds(seconds)
        values["is_bounded"] = any(
            timeouts[name] is not None for name in ("start_to_close", "schedule_to_close", "heartbeat")
        )
        self._set(values)

    @property
    def policy(self) -> RetryPolicy:
        """Return the retry policy, or the default one if none was given."""
        return self.retry_policy or DEFAULT_RETRY_POLICY

    def merged(self, over: ActivityOptions) -> ActivityOptions:
        """Return these options overridden by ``over``, validated together. Cached.

        Raises:
            InvalidOptionError: The two contradict each other.
        """
        return _merged(self, over)

    @property
    def snapshot(self) -> Payload:
        """Return what ``ActivityScheduled`` records, unaffected by deploys.

        That is the timeouts in seconds, the retry policy, the cancellation type and the alerts, each if it was given.
        That of an activity that is declared transactional says so (:func:`transactional_snapshot`).
        """
        if self._snapshot is None:
            object.__setattr__(self, "_snapshot", Payload(_snapshot_json(self)))
        assert self._snapshot is not None
        return self._snapshot

    @classmethod
    def from_snapshot(cls, document: dict[str, Any] | str | bytes) -> ActivityOptions:
        """Return the options of a snapshot (a document, or its JSON text: cached), without validating them again."""
        if isinstance(document, dict):
            return _read(document)
        return read_snapshot(document)

    def with_task_queue(self, task_queue: str | None) -> Self:
        """Return a copy with another task queue."""
        return self.replace(task_queue=task_queue)

    def with_schedule_to_start_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on an attempt's wait for a worker."""
        return self.replace(schedule_to_start_timeout=timeout)

    def with_start_to_close_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on one attempt."""
        return self.replace(start_to_close_timeout=timeout)

    def with_schedule_to_close_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on all attempts together."""
        return self.replace(schedule_to_close_timeout=timeout)

    def with_heartbeat_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another heartbeat timeout."""
        return self.replace(heartbeat_timeout=timeout)

    def with_retry_policy(self, retry_policy: RetryPolicy | None) -> Self:
        """Return a copy with another retry policy."""
        return self.replace(retry_policy=retry_policy)

    def with_priority(self, priority: int | None) -> Self:
        """Return a copy with another priority, 0 (first) to 9."""
        return self.replace(priority=priority)

    def with_cancellation_type(self, cancellation_type: CancellationType | str | None) -> Self:
        """Return a copy with another cancellation type."""
        return self.replace(cancellation_type=cancellation_type)

    def with_summary(self, summary: str | None) -> Self:
        """Return a copy with another summary."""
        return self.replace(summary=summary)

    def with_queue(self, queue: str | None, partition_key: str | None = None) -> Self:
        """Return a copy with another queue and partition of it; ``None`` for no queue.

        Args:
            queue: The queue that decides when each attempt begins.
            partition_key: Its partition of the queue.
        """
        return self.replace(queue=queue, partition_key=partition_key)

    def with_alerts(
        self,
        *at: float,
        before: Iterable[float | timedelta] = (),
        after: Iterable[float | timedelta] = (),
        kinds: Iterable[AlertKind | str] | None = None,
        signal: str | None = None,
    ) -> Self:
        """Return a copy with other alerts: ``with_alerts(0.5, 0.8)``; :class:`AlertPolicy` explains them.

        Args:
            *at: The shares of a deadline's time that are used up.
            before: How long ahead of a deadline.
            after: How long after the activity was scheduled; no deadline is needed.
            kinds: The deadlines that the shares and ``before`` are about; by default all that are set.
            signal: The signal that tells the workflow.
        """
        from outlast_workflow.options.alerts import AlertPolicy

        policy = AlertPolicy(at=at, before=before, after=after, kinds=kinds, signal=signal)
        return self.replace(alerts=policy)


def _alerts(policy: Any) -> AlertPolicy:
    # Loaded only for those who want alerts.
    from outlast_workflow.options.alerts import alerts_of_activity

    return alerts_of_activity(policy)


def _timeout(field: str, value: Any) -> int | float | None:
    return None if value is None else timeout_seconds(field, value)


def _check_order(lesser: str, less: float | None, greater: str, great: float | None) -> None:
    if less is not None and great is not None and less > great:
        lesser, greater = lesser.replace("_", "-"), greater.replace("_", "-")
        raise InvalidOptionError(
            f"{lesser} timeout ({less:g} s) must not be longer than the {greater} timeout ({great:g} s)",
            field=f"{lesser.replace('-', '_')}_timeout",
        )


@lru_cache(maxsize=4096)
def _merged(base: ActivityOptions, over: ActivityOptions) -> ActivityOptions:
    given = {name: value for name, value in over.given().items() if value is not None}
    return base.replace(**given) if given else base


@lru_cache(maxsize=1024)
def transactional_snapshot(options: ActivityOptions) -> Payload:
    """Return the snapshot of a call of an activity that is declared transactional, for whoever reads the history.

    It is no option: what an attempt does is up to the declaration that its worker has.

    Args:
        options: The options of the call.
    """
    return Payload(orjson.dumps({**orjson.loads(_snapshot_json(options)), "transactional": True}))


@lru_cache(maxsize=1024)
def is_transactional(snapshot: str | bytes) -> bool:
    """Return whether a snapshot, as JSON text, is that of an activity that is declared transactional.

    Args:
        snapshot: The text; one that cannot be read says nothing.
    """
    try:
        document = orjson.loads(snapshot)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and document.get("transactional") is True


@lru_cache(maxsize=1024)
def _snapshot_json(options: ActivityOptions) -> bytes:
    document: dict[str, Any] = {}
    for name in _TIMEOUTS:
        seconds = getattr(options, f"{name}_timeout")
        if seconds is not None:
            document[f"{name}_timeout"] = seconds
    if options.retry_policy is not None:
        document["retry_policy"] = options.retry_policy.to_document()
    if options.cancellation_type is not None:
        document["cancellation_type"] = options.cancellation_type.value
    if options.alerts is not None:
        document["alerts"] = options.alerts.to_document()
    return orjson.dumps(document)


@lru_cache(maxsize=1024)
def read_snapshot(text: str | bytes) -> ActivityOptions:
    """Return the options of a snapshot, as JSON text. Cached."""
    return _read(orjson.loads(text))


def _read(document: dict[str, Any]) -> ActivityOptions:
    options = ActivityOptions.__new__(ActivityOptions)
    policy = document.get("retry_policy")
    cancellation_type, alerts = document.get("cancellation_type"), document.get("alerts")
    options._fill(
        {name: document.get(f"{name}_timeout") for name in _TIMEOUTS},
        None if policy is None else RetryPolicy.from_document(policy),
        None,
        None,
        None if cancellation_type is None else CancellationType(cancellation_type),
        None,
        alerts=None if alerts is None else _read_alerts(alerts),
    )
    return options


def _read_alerts(document: dict[str, Any]) -> AlertPolicy:
    from outlast_workflow.options.alerts import AlertPolicy

    return AlertPolicy.from_document(document)
