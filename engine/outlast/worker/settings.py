"""The settings of a worker, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from outlast.histories.retention_policy import RetentionPolicy
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.failure_types import NO_FAILURE_TYPES, FailureTypes
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, duration_seconds, validate_task_queue
from outlast_workflow.options.queues import Queue
from outlast_workflow.options.validation import validate_queue

if TYPE_CHECKING:
    from outlast.client.interceptors import Interceptor


SLOWEST_RATE: Final = 1 / 86_400
FASTEST_RATE: Final = 1_000_000


def checked_queues(queues: Iterable[str | Queue]) -> dict[str, Queue | None]:
    """Return the queues that a worker admits from, by name, with the definitions of those that it defines.

    Raises:
        InvalidOptionError: One is no valid name, or a single name was given where several are meant.
    """
    if isinstance(queues, str | Queue):
        raise InvalidOptionError(f"queues must be a list: give [{queues!r}]", field="queues")
    found: dict[str, Queue | None] = {}
    for queue in queues:
        definition = queue if isinstance(queue, Queue) else None
        name = definition.name if definition is not None else validate_queue(queue)
        if name in found:
            raise InvalidOptionError(f"queue {name!r} is named twice", field="queues")
        found[name] = definition
    return found


SLOTS: Final = 100
"""How many activities run at a time by default."""
COROUTINE_SLOTS: Final = 1000
"""The same where all are coroutines, which need no thread. More are written as pending, and claimed, which costs."""


@dataclass(slots=True)
class WorkerSettings:
    """The options of one worker; durations in seconds.

    Raises:
        InvalidOptionError: An option is out of range or of another type.
    """

    worker_id: str
    task_queues: Sequence[str]
    converter: DataConverter
    lease_duration: float = 30.0
    max_cached_workflows: int = 1000
    max_concurrent_activities: int = SLOTS
    max_activities_per_second: float | None = None
    graceful_shutdown_timeout: float = 10.0
    build_id: str | None = None
    retention: RetentionPolicy | None = None
    limits: StructuralLimits = field(default_factory=StructuralLimits)
    default_activity_options: ActivityOptions | None = None
    interceptors: Sequence[Interceptor] = ()
    runtime_guard: bool = True
    failure_types: FailureTypes = NO_FAILURE_TYPES
    queues: frozenset[str] | None = None
    """The queues that it admits from; ``None`` for all."""
    alert_queues: Sequence[str] = ()
    """The task queues of the channels whose alerts it delivers."""

    def __post_init__(self) -> None:
        for queue in self.task_queues:
            validate_task_queue(queue)
        self.task_queues = (*self.task_queues, *self.alert_queues)
        if not self.task_queues:
            raise InvalidOptionError("a worker serves at least one task queue", field="task_queue")
        defaults: object = self.default_activity_options
        if defaults is not None and not isinstance(defaults, ActivityOptions):
            raise InvalidOptionError(
                f"default activity options must be ActivityOptions, not {type(defaults).__name__}",
                field="default_activity_options",
            )
        policy: object = self.retention
        if policy is not None and not isinstance(policy, RetentionPolicy):
            raise InvalidOptionError(
                f"retention must be a RetentionPolicy, not {type(policy).__name__}", field="retention"
            )
        _at_least("max_cached_workflows", self.max_cached_workflows, 0)
        _at_least("max_concurrent_activities", self.max_concurrent_activities, 0)
        if self.max_activities_per_second is not None:
            self.max_activities_per_second = _rate(
                "max_activities_per_second", self.max_activities_per_second
            )
        self.lease_duration = float(duration_seconds("lease duration", self.lease_duration))
        if self.lease_duration < 1:
            raise InvalidOptionError("lease duration must be at least 1 second", field="lease_duration")
        self.graceful_shutdown_timeout = float(
            duration_seconds("graceful shutdown timeout", self.graceful_shutdown_timeout)
        )


def _at_least(field_name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        words = field_name.replace("_", " ")
        raise InvalidOptionError(f"{words} must be a whole number, {least} or more", field=field_name)


def _rate(field_name: str, value: object) -> float:
    """Return a rate as a number; at least one a day, because less is most likely a mistake."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and SLOWEST_RATE <= value <= FASTEST_RATE
    ):
        return float(value)
    words = field_name.replace("_", " ")
    raise InvalidOptionError(
        f"{words} must be a number from 1/86400 (one a day) to a million, or None for no limit; it is {value!r}",
        field=field_name,
    )
