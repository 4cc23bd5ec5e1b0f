"""What workflow code sees when an activity ends without a result."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from outlast_workflow.errors.failure import FailureError
from outlast_workflow.primitives.enums import FailureCategory, RetryState, TimeoutKind
from outlast_workflow.primitives.times import from_datetime, iso


class ActivityError(FailureError):
    """An activity ended without a result and is not retried; ``__cause__`` is the last attempt's failure.

    Attributes:
        activity_type: The activity's name.
        activity_id: Its command id in the run.
        attempt: How many attempts were made.
        retry_state: Why there is no further attempt; None on a cause, which was retried.
    """

    category = FailureCategory.ACTIVITY
    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("activity_type", "activity_id", "attempt", "retry_state")

    def __init__(
        self,
        *,
        activity_type: str,
        activity_id: int,
        attempt: int,
        retry_state: RetryState | None,
        message: str | None = None,
    ) -> None:
        words = f"activity {activity_type} {message or 'failed'} (attempt {attempt}{_because(retry_state)})"
        super().__init__(words)
        self.activity_type = activity_type
        self.activity_id = activity_id
        self.attempt = attempt
        self.retry_state = retry_state


def _because(retry_state: RetryState | None) -> str:
    return f", {retry_state.replace('_', ' ')}" if retry_state else ""


_TIMEOUT_WORDS = {
    TimeoutKind.SCHEDULE_TO_START: "was not started in time: its schedule-to-start timeout passed",
    TimeoutKind.START_TO_CLOSE: "took too long: its start-to-close timeout passed",
    TimeoutKind.SCHEDULE_TO_CLOSE: "was not done in time: its schedule-to-close timeout passed",
    TimeoutKind.HEARTBEAT: "fell silent: its heartbeat timeout passed",
}


class ActivityTimeoutError(ActivityError, TimeoutError):
    """An activity passed one of its four deadlines; ``__cause__`` is the previous attempt's failure, if any.

    Attributes:
        timeout_kind: Which deadline it was.
        deadline_at: The deadline (aware, UTC). It lies in the future only if no attempt could have started before it.
        heartbeat_details: What the last heartbeat reported.
        lack: What it waited for, if it was never started: a worker that was missing, or room in its queue.
    """

    joins_cause = "; before that: "
    facts: ClassVar[tuple[str, ...]] = (
        *ActivityError.facts,
        "timeout_kind",
        "deadline_at",
        "heartbeat_details",
        "lack",
    )

    def __init__(
        self,
        *,
        timeout_kind: TimeoutKind,
        deadline_at: datetime,
        activity_type: str,
        activity_id: int,
        attempt: int,
        retry_state: RetryState | None,
        heartbeat_details: tuple[Any, ...] = (),
        lack: str | None = None,
    ) -> None:
        super().__init__(
            activity_type=activity_type,
            activity_id=activity_id,
            attempt=attempt,
            retry_state=retry_state,
            message=f"{_TIMEOUT_WORDS[timeout_kind]} at {iso(from_datetime(deadline_at))}{f'; {lack}' if lack else ''}",
        )
        self.timeout_kind = timeout_kind
        self.deadline_at = deadline_at
        self.heartbeat_details = heartbeat_details
        self.lack = lack
