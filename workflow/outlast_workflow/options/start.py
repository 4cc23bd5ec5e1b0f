"""Options of a workflow's start."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Never, Self

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.search_attributes import SearchValue, checked_attributes
from outlast_workflow.options.validation import (
    check_end,
    duration_seconds,
    instant_of,
    timeout_seconds,
    validate_partition_key,
    validate_queue,
    validate_summary,
)
from outlast_workflow.options.validation import priority as valid_priority
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.times import iso, microseconds
from outlast_workflow.primitives.value_object import Value

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy
    from outlast_workflow.primitives.enums import AlertKind

DEFAULT_TASK_QUEUE: Final = "default"


class StartOptions(Value):
    """Options of a workflow's start. Immutable; created at once or step by step.

    ``StartOptions(execution_timeout=7200) == StartOptions().with_execution_timeout(7200)``.

    Args:
        execution_timeout: How long all runs of the chain together may take, start delay included; at least 1 second.
        execution_deadline: When all of them must have ended, as an instant: a datetime with a time zone. Give this or
            the execution timeout.
        run_timeout: How long each run may take; at least 1 second. It may exceed the execution timeout.
        retry_policy: If given, a failed run is followed by another, within the same execution deadline.
        memo: JSON-compatible values that are stored with the run and shown by ``describe``.
        search_attributes: Attributes to find the run by: text, numbers, booleans, datetimes, lists of texts, by name.
        start_delay: How long to wait before the first run starts; a signal, update or cancel request ends the wait.
            With a queue: before the run joins the line.
        priority: 0 (first) to 9; inherited by activities and children.
        duplicate_policy: What to do if the workflow id is taken.
        summary: What the workflow does, in at most 200 characters of plain text, shown to everybody and not encoded by
            codecs. All runs of the chain have it.
        queue: The queue that decides when the workflow begins. It waits there in line, and holds a slot of the queue
            until its chain ends. Its run timeout counts from its admission.
        partition_key: Its partition of the queue, for example a tenant. Partitions take turns.
        schedule_to_start_timeout: How long it may stand in line at most; then it ends as timed out.
        alerts: When to be told that a deadline of it comes near, or that it takes long. All runs of the chain have it.

    Durations take seconds (int, float) or a timedelta. ``…_us`` are the same in microseconds. What is not given comes
    from the scopes of :func:`outlast.starting` around the start, if there are any.

    Raises:
        InvalidOptionError: A field is out of range, the start delay leaves no time for the execution, a field needs
            a queue, or both an execution timeout and an execution deadline are given.
    """

    __slots__ = (
        "alerts",
        "duplicate_policy",
        "execution_deadline",
        "execution_deadline_us",
        "execution_timeout",
        "execution_timeout_us",
        "explicit",
        "memo",
        "partition_key",
        "priority",
        "queue",
        "retry_policy",
        "run_timeout",
        "run_timeout_us",
        "schedule_to_start_timeout",
        "schedule_to_start_timeout_us",
        "search_attributes",
        "start_delay",
        "start_delay_us",
        "summary",
    )
    fields = (
        "execution_timeout",
        "execution_deadline",
        "run_timeout",
        "retry_policy",
        "memo",
        "search_attributes",
        "start_delay",
        "priority",
        "duplicate_policy",
        "summary",
        "queue",
        "partition_key",
        "schedule_to_start_timeout",
        "alerts",
    )

    execution_timeout: int | float | None
    execution_deadline: datetime | None
    run_timeout: int | float | None
    retry_policy: RetryPolicy | None
    memo: dict[str, Any] | None
    search_attributes: dict[str, SearchValue] | None
    start_delay: int | float | None
    priority: int
    duplicate_policy: DuplicatePolicy
    summary: str | None
    queue: str | None
    partition_key: str | None
    schedule_to_start_timeout: int | float | None
    alerts: AlertPolicy | None
    execution_timeout_us: int | None
    execution_deadline_us: int | None
    run_timeout_us: int | None
    start_delay_us: int | None
    schedule_to_start_timeout_us: int | None
    explicit: frozenset[str]
    """The names of the fields that were given: a scope of ``starting`` does not fill these, not even with ``None``."""

    def __new__(cls, **given: Any) -> Self:
        """Remember what is given, before ``__init__`` puts defaults beside it."""
        options = super().__new__(cls)
        object.__setattr__(options, "explicit", frozenset(given))
        return options

    def __init__(
        self,
        *,
        execution_timeout: float | timedelta | None = None,
        execution_deadline: datetime | None = None,
        run_timeout: float | timedelta | None = None,
        retry_policy: RetryPolicy | None = None,
        memo: Mapping[str, Any] | None = None,
        search_attributes: Mapping[str, SearchValue | None] | None = None,
        start_delay: float | timedelta | None = None,
        priority: int = 5,
        duplicate_policy: DuplicatePolicy | str = DuplicatePolicy.ALLOW_DUPLICATE,
        summary: str | None = None,
        queue: str | None = None,
        partition_key: str | None = None,
        schedule_to_start_timeout: float | timedelta | None = None,
        alerts: AlertPolicy | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("StartOptions", unknown, self.fields)
        execution = _timeout("execution timeout", execution_timeout)
        deadline_us = (
            None if execution_deadline is None else instant_of("execution deadline", execution_deadline)
        )
        if execution is not None and deadline_us is not None:
            raise InvalidOptionError(
                "give execution_timeout or execution_deadline, not both", field="execution_deadline"
            )
        run = _timeout("run timeout", run_timeout)
        delay = None if start_delay is None else duration_seconds("start delay", start_delay)
        if delay is not None and execution is not None and delay >= execution:
            raise InvalidOptionError(
                f"start delay ({delay:g} s) must be shorter than the execution timeout ({execution:g} s), "
                "which includes it",
                field="start_delay",
            )
        waiting = None
        if schedule_to_start_timeout is not None:
            waiting = _timeout("schedule-to-start timeout", schedule_to_start_timeout)
        if queue is None:
            for field, value in (
                ("partition_key", partition_key),
                ("schedule_to_start_timeout", schedule_to_start_timeout),
            ):
                if value is not None:
                    raise InvalidOptionError(f"{field} needs a queue: give queue= as well", field=field)
        self._set(
            {
                "execution_timeout": execution,
                "execution_deadline": execution_deadline,
                "run_timeout": run,
                "retry_policy": None if retry_policy is None else checked_policy(retry_policy),
                "memo": _memo(memo),
                "search_attributes": None
                if search_attributes is None
                else checked_attributes(search_attributes),
                "start_delay": delay,
                "priority": valid_priority(priority),
                "duplicate_policy": _duplicate_policy(duplicate_policy),
                "summary": None if summary is None else validate_summary(summary),
                "queue": None if queue is None else validate_queue(queue),
                "partition_key": None if partition_key is None else validate_partition_key(partition_key),
                "schedule_to_start_timeout": waiting,
                "alerts": None if alerts is None else _alerts(alerts),
                "execution_timeout_us": None if execution is None else microseconds(execution),
                "execution_deadline_us": deadline_us,
                "run_timeout_us": None if run is None else microseconds(run),
                "start_delay_us": None if delay is None else microseconds(delay),
                "schedule_to_start_timeout_us": None if waiting is None else microseconds(waiting),
            }
        )

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by name."""
        return {name: getattr(self, name) for name in self.fields if name in self.explicit}

    def check_deadline(self, now: int) -> None:
        """Refuse an execution deadline that has passed at ``now``, in microseconds, or before the start delay ends.

        Raises:
            InvalidOptionError: There is no time left.
        """
        at = self.execution_deadline_us
        if at is not None and at <= now + (self.start_delay_us or 0):
            when = "has passed" if at <= now else "comes before the end of the start delay"
            raise InvalidOptionError(
                f"the execution deadline {iso(at)} {when} (it is {iso(now)}): give a later one",
                field="execution_deadline",
            )

    def check_ends(self, now: int) -> None:
        """Refuse a start delay or timeout that would end after the year 9999 (``now`` in microseconds)."""
        delay = self.start_delay_us or 0
        check_end("start delay", now, delay)
        check_end("execution timeout", now, self.execution_timeout_us)
        check_end("run timeout", now + delay, self.run_timeout_us)
        check_end("schedule-to-start timeout", now + delay, self.schedule_to_start_timeout_us)

    @classmethod
    def allow_duplicate(cls) -> Self:
        """Start if the id is free or its run is closed; an open one is an error. The default."""
        return cls(duplicate_policy=DuplicatePolicy.ALLOW_DUPLICATE)

    @classmethod
    def allow_duplicate_failed_only(cls) -> Self:
        """Start if the id is free or its run has ended without completing; an open or completed one is an error."""
        return cls(duplicate_policy=DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY)

    @classmethod
    def reject_duplicate(cls) -> Self:
        """Start only if the id was never used."""
        return cls(duplicate_policy=DuplicatePolicy.REJECT_DUPLICATE)

    @classmethod
    def return_existing(cls) -> Self:
        """If the id's run is open, return its handle; otherwise start."""
        return cls(duplicate_policy=DuplicatePolicy.RETURN_EXISTING)

    @classmethod
    def terminate_existing(cls) -> Self:
        """If the id's run is open, terminate it and start a new one, in one transaction."""
        return cls(duplicate_policy=DuplicatePolicy.TERMINATE_EXISTING)

    def with_execution_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on all runs of the chain together."""
        return self.replace(execution_timeout=timeout)

    def with_execution_deadline(self, deadline: datetime | None) -> Self:
        """Return a copy with another instant at which all runs of the chain must have ended."""
        return self.replace(execution_deadline=deadline)

    def with_run_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on each run."""
        return self.replace(run_timeout=timeout)

    def with_retry_policy(self, retry_policy: RetryPolicy | None) -> Self:
        """Return a copy with another retry policy for failed runs."""
        return self.replace(retry_policy=retry_policy)

    def with_memo(self, memo: Mapping[str, Any] | None) -> Self:
        """Return a copy with another memo."""
        return self.replace(memo=memo)

    def with_search_attributes(self, attributes: Mapping[str, SearchValue | None] | None) -> Self:
        """Return a copy with other search attributes."""
        return self.replace(search_attributes=attributes)

    def with_start_delay(self, delay: float | timedelta | None) -> Self:
        """Return a copy with another wait before the first run."""
        return self.replace(start_delay=delay)

    def with_priority(self, priority: int) -> Self:
        """Return a copy with another priority, 0 (first) to 9."""
        return self.replace(priority=priority)

    def with_queue(self, queue: str | None, partition_key: str | None = None) -> Self:
        """Return a copy with another queue and partition of it; ``None`` for no queue.

        Args:
            queue: The queue that decides when the workflow begins.
            partition_key: Its partition of the queue.
        """
        if queue is None:
            return self.replace(queue=None, partition_key=partition_key, schedule_to_start_timeout=None)
        return self.replace(queue=queue, partition_key=partition_key)

    def with_schedule_to_start_timeout(self, timeout: float | timedelta | None) -> Self:
        """Return a copy with another limit on how long it may stand in line."""
        return self.replace(schedule_to_start_timeout=timeout)

    def with_alerts(
        self,
        *at: float,
        before: Iterable[float | timedelta] = (),
        after: Iterable[float | timedelta] = (),
        at_instant: datetime | None = None,
        kinds: Iterable[AlertKind | str] | None = None,
        signal: str | None = None,
    ) -> Self:
        """Return a copy with other alerts: ``with_alerts(0.5, 0.8)``; :class:`AlertPolicy` explains them.

        Args:
            *at: The shares of a deadline's time that are used up.
            before: How long ahead of a deadline.
            after: How long after the start; no deadline is needed.
            at_instant: An instant.
            kinds: The deadlines that the shares and ``before`` are about; by default all that are set.
            signal: The signal that tells the workflow itself.
        """
        from outlast_workflow.options.alerts import AlertPolicy

        policy = AlertPolicy(
            at=at, before=before, after=after, at_instant=at_instant, kinds=kinds, signal=signal
        )
        return self.replace(alerts=policy)

    def with_summary(self, summary: str | None) -> Self:
        """Return a copy with another summary."""
        return self.replace(summary=summary)


def _timeout(field: str, value: Any) -> int | float | None:
    return None if value is None else timeout_seconds(field, value, minimum_seconds=1)


def _alerts(policy: Any) -> AlertPolicy:
    # Loaded only for those who want alerts.
    from outlast_workflow.options.alerts import alerts_of_workflow

    return alerts_of_workflow(policy)


def _memo(memo: Any) -> dict[str, Any] | None:
    if memo is None:
        return None
    if not isinstance(memo, Mapping) or not all(isinstance(key, str) for key in memo):
        raise InvalidOptionError("memo must be a dict with text keys", field="memo")
    try:
        return copy.deepcopy(dict(memo))
    except RecursionError:
        raise InvalidOptionError(
            "memo is nested too deeply: make it flatter, or pass a part of it as text", field="memo"
        ) from None


def checked_policy(policy: Any) -> RetryPolicy:
    """Return the retry policy of a run.

    Raises:
        InvalidOptionError: It is none.
    """
    if not isinstance(policy, RetryPolicy):
        raise InvalidOptionError(
            f"retry policy must be a RetryPolicy, not {type(policy).__name__}", field="retry_policy"
        )
    return policy


def _duplicate_policy(policy: Any) -> DuplicatePolicy:
    try:
        return DuplicatePolicy(policy)
    except ValueError:
        known = ", ".join(DuplicatePolicy)
        raise InvalidOptionError(
            f"duplicate policy must be one of {known}", field="duplicate_policy"
        ) from None
