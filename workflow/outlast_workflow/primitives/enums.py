"""The closed sets of values in rows, events and errors, one enum per field."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final


class Keep(Enum):
    """What an option has that leaves things as they are, where ``None`` means none: ``KEEP``."""

    KEEP = "keep"

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = Keep.KEEP
"""The value of an option that leaves things as they are, where ``None`` means none."""


class RunStatus(StrEnum):
    """The status of a run: what it is doing, or how it ended."""

    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    CONTINUED_AS_NEW = "continued_as_new"

    @property
    def is_open(self) -> bool:
        """Whether the run can still receive events."""
        return self in OPEN_RUN_STATUSES


OPEN_RUN_STATUSES = frozenset({RunStatus.QUEUED, RunStatus.PENDING, RunStatus.RUNNING})
NOT_BEGUN_STATUSES = frozenset({RunStatus.QUEUED, RunStatus.PENDING})
"""Runs whose code has not begun have one of these, so their start may be moved."""
RESUMABLE_STATUSES = frozenset(
    {RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED, RunStatus.TERMINATED}
)
"""Workflows that ended with one of these can be resumed."""


class ActivityStatus(StrEnum):
    """The status of an activity execution (all its attempts together): what it is doing, or how it ended."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether the activity can still be claimed or completed."""
        return self in OPEN_ACTIVITY_STATUSES


OPEN_ACTIVITY_STATUSES = frozenset({ActivityStatus.PENDING, ActivityStatus.RUNNING})


class TimeoutKind(StrEnum):
    """Which of the six deadlines passed."""

    SCHEDULE_TO_START = "schedule_to_start"
    START_TO_CLOSE = "start_to_close"
    SCHEDULE_TO_CLOSE = "schedule_to_close"
    HEARTBEAT = "heartbeat"
    EXECUTION_TIMEOUT = "execution_timeout"
    RUN_TIMEOUT = "run_timeout"


class AlertKind(StrEnum):
    """What an alert is about: the deadline that comes near, or an instant that no deadline is needed for."""

    EXECUTION = "execution"
    RUN = "run"
    SCHEDULE_TO_START = "schedule_to_start"
    START_TO_CLOSE = "start_to_close"
    SCHEDULE_TO_CLOSE = "schedule_to_close"
    AFTER = "after"
    """It has taken so long."""
    AT_INSTANT = "at_instant"


class UpcomingKind(StrEnum):
    """What falls due: one of the six deadlines, a timer, an alert that is armed, or a schedule."""

    EXECUTION_TIMEOUT = "execution_timeout"
    RUN_TIMEOUT = "run_timeout"
    SCHEDULE_TO_START = "schedule_to_start"
    START_TO_CLOSE = "start_to_close"
    SCHEDULE_TO_CLOSE = "schedule_to_close"
    HEARTBEAT = "heartbeat"
    TIMER = "timer"
    ALERT = "alert"
    SCHEDULE = "schedule"


class RetryState(StrEnum):
    """Why an activity or a workflow was not retried."""

    MAXIMUM_ATTEMPTS_REACHED = "maximum_attempts_reached"
    TIMEOUT = "timeout"
    NON_RETRYABLE_FAILURE = "non_retryable_failure"
    CANCEL_REQUESTED = "cancel_requested"


class FailureCategory(StrEnum):
    """The kind of a failure."""

    APPLICATION = "application"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    ACTIVITY = "activity"
    CHILD_WORKFLOW = "child_workflow"
    TASK_FAILURE = "task_failure"
    STRUCTURAL_LIMIT = "structural_limit"
    INTERNAL = "internal"


class PropagationKind(StrEnum):
    """The source through which a failure reached the run that it is recorded for."""

    ACTIVITY = "activity"
    CHILD = "child"
    TIMEOUT = "timeout"
    TERMINAL = "terminal"
    UPDATE = "update"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    TASK = "task"
    """The run's own workflow task, which failed and is retried."""


class AttemptOutcome(StrEnum):
    """How an unsuccessful attempt ended."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    RESCUED = "rescued"
    HANDED_BACK = "handed_back"


class DuplicatePolicy(StrEnum):
    """What starting an existing workflow id does."""

    ALLOW_DUPLICATE = "allow_duplicate"
    ALLOW_DUPLICATE_FAILED_ONLY = "allow_duplicate_failed_only"
    REJECT_DUPLICATE = "reject_duplicate"
    RETURN_EXISTING = "return_existing"
    TERMINATE_EXISTING = "terminate_existing"


class Overlap(StrEnum):
    """What a schedule does with a slot while the workflow that it started last is open.

    ``skip``: leave the slot out. ``buffer_one``: start one workflow afterwards, however many slots pass meanwhile.
    ``buffer_all``: start one for each of them, one after the other. ``cancel_other``: ask the open one to cancel, then
    start. ``terminate_other``: terminate the open one and start at once. ``allow_all``: start at once.
    """

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    TERMINATE_OTHER = "terminate_other"
    ALLOW_ALL = "allow_all"


class CatchUp(StrEnum):
    """What a schedule does about slots that nobody was there to fire.

    ``latest``: start the newest of them. ``all``: start each. ``none``: only count them.
    """

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class ParentClosePolicy(StrEnum):
    """What happens to a child that is still open when its parent's chain ends."""

    TERMINATE = "terminate"
    ABANDON = "abandon"
    REQUEST_CANCEL = "request_cancel"


class CancellationType(StrEnum):
    """What cancelling a durable call does.

    ``try``: request a stop and continue at once. ``wait``: request a stop and wait until it has ended. ``abandon``:
    request nothing and continue at once.
    """

    TRY = "try"
    WAIT = "wait"
    ABANDON = "abandon"


class Attention(StrEnum):
    """Why a run needs attention."""

    TASK_KEEPS_FAILING = "task_keeps_failing"
    OWNERS_KEEP_DYING = "owners_keep_dying"
    UNKNOWN_TYPE = "unknown_type"
    NO_POLLER = "no_poller"
    OVERDUE = "overdue"
    UNKNOWN_QUEUE = "unknown_queue"
    QUEUE_PAUSED = "queue_paused"
