"""What a run waits for: its open activities with their deadlines, the most pressing first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from outlast.text.wording import words
from outlast.visibility.views import PendingActivity, WorkflowDescription
from outlast_activities.deadlines import options_of
from outlast_dashboard.pages.forms import progress
from outlast_store.reads.failure_groups import FailureGroup
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.primitives.enums import ActivityStatus

MOST_ACTIVITIES: Final = 12
"""How many open activities are shown; of the others only how many there are."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline with the timeout that it comes from, in seconds."""

    name: str
    timeout: float
    start: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenActivity:
    """An open activity, its deadlines, its retry policy in words, and the progress that it reports."""

    view: PendingActivity
    deadlines: tuple[Deadline, ...]
    policy: str
    progress: tuple[float, float] | None

    @property
    def failed_attempts(self) -> int:
        """How many attempts have failed."""
        return self.view.attempt - (0 if self.view.status == ActivityStatus.PENDING else 1)


@dataclass(frozen=True, slots=True)
class OtherActivities:
    """How many open activities of a type and status are not shown."""

    activity_type: str
    status: str
    count: int


def run_deadlines(found: WorkflowDescription) -> list[Deadline]:
    """Return the deadlines of a run, each with its timeout."""
    run = found.run
    known = []
    if run.run_deadline_at is not None:
        since = run.started_at or run.created_at
        if run.run_timeout_seconds is not None:
            begun = run.run_deadline_at - timedelta(seconds=run.run_timeout_seconds)
            # One that the code has brought nearer does not lie a whole timeout after the run's begin.
            since = begun if begun >= run.created_at else since
        timeout = (run.run_deadline_at - since).total_seconds()
        known.append(Deadline("Run timeout", timeout, since, run.run_deadline_at))
    whole, at = found.execution_timeout_seconds, run.execution_deadline_at
    if whole is not None and at is not None:
        known.append(Deadline("Execution timeout", whole, at - timedelta(seconds=whole), at))
    return known


def most_pressing(activities: Sequence[PendingActivity]) -> list[PendingActivity]:
    """Return the open activities to show: those that failed before, then by their next deadline."""

    def key(activity: PendingActivity) -> tuple[bool, bool, datetime, int]:
        deadline = activity.next_deadline_at
        return (
            activity.last_failure is None,
            deadline is None,
            deadline or activity.scheduled_at,
            activity.activity_id,
        )

    return sorted(activities, key=key)[:MOST_ACTIVITIES]


def open_activities(shown: Sequence[PendingActivity], rows: Mapping[int, ActivityRow]) -> list[OpenActivity]:
    """Return open activities as the page shows them.

    Args:
        shown: Which.
        rows: Their rows by id; an activity that has been deleted since is left out.
    """
    found: list[OpenActivity] = []
    for view in shown:
        row = rows.get(view.activity_id)
        if row is not None:
            options = options_of(row)
            found.append(
                OpenActivity(
                    view, _deadlines(view, options), policy_words(options), progress(view.heartbeat_details)
                )
            )
    return found


def others(activities: Sequence[PendingActivity], shown: Sequence[PendingActivity]) -> list[OtherActivities]:
    """Count the open activities that are not shown."""
    ids = {view.activity_id for view in shown}
    counts = Counter(
        (view.activity_type, view.status.value) for view in activities if view.activity_id not in ids
    )
    return [OtherActivities(*key, count) for key, count in counts.most_common(10)]


def _deadlines(view: PendingActivity, options: ActivityOptions) -> tuple[Deadline, ...]:
    return tuple(
        Deadline(name, timeout, at - timedelta(seconds=timeout), at)
        for name, timeout, at in (
            ("schedule-to-start", options.schedule_to_start_timeout, view.schedule_to_start_deadline_at),
            ("start-to-close", options.start_to_close_timeout, view.start_to_close_deadline_at),
            ("heartbeat", options.heartbeat_timeout, view.heartbeat_deadline_at),
            ("schedule-to-close", options.schedule_to_close_timeout, view.schedule_to_close_deadline_at),
        )
        if timeout is not None and at is not None
    )


def is_told_above(group: FailureGroup, shown: Sequence[OpenActivity]) -> bool:
    """Return whether failures are those of one open activity, which tells its last failure and how many there were.

    Args:
        group: Failures that are alike.
        shown: The open activities on the page.
    """
    for activity in shown:
        view = activity.view
        if group.latest.source_kind == "activity_execution" and group.latest.source_id == str(
            view.activity_id
        ):
            last = view.last_failure
            kind = None if last is None else (last.exception_class, last.timeout_kind)
            alike = kind == (group.latest.exception_class, group.latest.timeout_kind)
            return alike and group.sources == 1 and group.count == activity.failed_attempts
    return False


def policy_words(options: ActivityOptions) -> str:
    """Return an activity's retry policy in words."""
    policy = options.policy
    if policy.max_attempts == 1:
        return "no retries"
    attempts = "unlimited attempts" if policy.max_attempts == 0 else f"at most {policy.max_attempts} attempts"
    grows = f", × {policy.backoff_coefficient:g} each time" if policy.backoff_coefficient != 1 else ""
    most = policy.max_interval
    limit = f", at most {words(most)}" if grows and most is not None else ""
    return f"{attempts}, {words(policy.initial_interval)} apart{grows}{limit}"
