"""What defines a queue: its name and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Never, TypedDict

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import explained, refuse_unknown
from outlast_workflow.options.validation import duration_seconds, integer, validate_queue
from outlast_workflow.primitives.times import microseconds
from outlast_workflow.primitives.value_object import Value

MOST: Final = 1_000_000
"""The largest limit."""
SHORTEST_WINDOW_S: Final = 0.01


class Rate(Value):
    """How many may be admitted in a time: ``Rate(20, per=1)`` is 20 a second. Immutable.

    Args:
        limit: How many admissions *any* window of that length may have, 1 to 1,000,000.
        per: The length of the window, in seconds or as a timedelta; at least 10 milliseconds.

    Raises:
        InvalidOptionError: A field is out of range.
    """

    __slots__ = ("limit", "per", "per_us")
    fields = ("limit", "per")

    limit: int
    per: int | float
    per_us: int

    @explained("Rate", "Rate(20, per=1)")
    def __init__(self, limit: int, per: float | timedelta) -> None:
        seconds = duration_seconds("per", per)
        if seconds < SHORTEST_WINDOW_S:
            raise InvalidOptionError("per must be at least 10 milliseconds", field="per")
        self._set(
            {"limit": integer("limit", limit, 1, MOST), "per": seconds, "per_us": microseconds(seconds)}
        )

    def __str__(self) -> str:
        return f"{self.limit:,} per {_window(self.per)}"


_UNITS_S: Final = ((604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def _window(seconds: float) -> str:
    """Return the length of a window in words: ``second``, ``5 minutes``, ``1.2 seconds``."""
    size, unit = next(((size, unit) for size, unit in _UNITS_S if seconds % size == 0), (1, "second"))
    number = seconds / size
    return unit if number == 1 else f"{number:,g} {unit}s"


class QueueOptions(TypedDict, total=False):
    """The limits of a queue. All are optional, and ``None`` is no limit. :class:`Queue` says what each means."""

    concurrency: int | None
    worker_concurrency: int | None
    rate: Rate | None
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    partition_rate: Rate | None


class Queue(Value):
    """The definition of a queue: ``Worker(…, queues=[Queue("gpu", concurrency=2)])``. Immutable.

    Args:
        name: The queue.
        concurrency: How many of its runs may be under way at a time, over all workers.
        worker_concurrency: How many of them one worker may have.
        rate: How many may be admitted in any window of time: ``Rate(20, per=1)``.
        partition_concurrency: How many of one partition may be under way at a time, over all workers.
        partition_worker_concurrency: How many of one partition one worker may have.
        partition_rate: How many of one partition may be admitted in any window of time.

    Numbers are 1 to 1,000,000; ``None`` is no limit.

    Raises:
        InvalidOptionError: A field is out of range, or a partition's limit exceeds the queue's own.
    """

    __slots__ = (
        "concurrency",
        "name",
        "partition_concurrency",
        "partition_rate",
        "partition_worker_concurrency",
        "rate",
        "worker_concurrency",
    )
    fields = (
        "name",
        "concurrency",
        "worker_concurrency",
        "rate",
        "partition_concurrency",
        "partition_worker_concurrency",
        "partition_rate",
    )

    name: str
    concurrency: int | None
    worker_concurrency: int | None
    rate: Rate | None
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    partition_rate: Rate | None

    def __init__(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        worker_concurrency: int | None = None,
        rate: Rate | None = None,
        partition_concurrency: int | None = None,
        partition_worker_concurrency: int | None = None,
        partition_rate: Rate | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("Queue", unknown, LIMITS)
        limits: QueueOptions = {
            "concurrency": concurrency,
            "worker_concurrency": worker_concurrency,
            "rate": rate,
            "partition_concurrency": partition_concurrency,
            "partition_worker_concurrency": partition_worker_concurrency,
            "partition_rate": partition_rate,
        }
        name = validate_queue(name)
        checked = checked_limits("Queue", limits)
        _check_twins(checked)
        self._set({"name": name, **checked})

    @property
    def limits(self) -> dict[str, int | Rate | None]:
        """The limits by name."""
        return {name: getattr(self, name) for name in LIMITS}

    def __str__(self) -> str:
        return f"queue {self.name!r}"


LIMITS: Final = Queue.fields[1:]
"""The names of a queue's limits."""


def checked_limits(what: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return some limits, each checked by itself.

    Args:
        what: What has been given them, for errors.
        limits: The limits by name.

    Raises:
        InvalidOptionError: There is no such limit, or it is out of range.
    """
    for name in limits:
        if name not in LIMITS:
            refuse_unknown(what, {name: limits[name]}, LIMITS)
    return {name: None if value is None else _checked(name, value) for name, value in limits.items()}


def _checked(name: str, value: Any) -> int | Rate:
    if name not in ("rate", "partition_rate"):
        return integer(name, value, 1, MOST)
    if not isinstance(value, Rate):
        raise InvalidOptionError(
            f"{name} must be a Rate, such as Rate(20, per=1), not {type(value).__name__}", field=name
        )
    return value


def _check_twins(limits: Mapping[str, Any]) -> None:
    """Refuse a partition's limit that exceeds the queue's own: it would never be reached."""
    for name in ("concurrency", "worker_concurrency"):
        whole, part = limits[name], limits[f"partition_{name}"]
        if whole is not None and part is not None and part > whole:
            raise _exceeds(f"partition_{name}", part, name, whole)
    whole, part = limits["rate"], limits["partition_rate"]
    # So many of the whole's windows cover one of the part's. A short burst beside a smaller daily limit makes sense.
    if whole is not None and part is not None and part.limit > whole.limit * -(-part.per_us // whole.per_us):
        raise _exceeds("partition_rate", part, "rate", whole)


def _exceeds(name: str, part: object, whole_name: str, whole: object) -> InvalidOptionError:
    return InvalidOptionError(
        f"{name} ({part}) must not exceed {whole_name} ({whole}), which holds for all partitions together",
        field=name,
    )
