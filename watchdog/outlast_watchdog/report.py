"""The report of one watchdog pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast_workflow.primitives.times import iso

TIMER_FIRED = "timer_fired"
ALERT_FIRED = "alert_fired"
ALERT_MISSED = "alert_missed"
ALERTS_ADDED = "alerts_added"
SCHEDULE_FIRED = "schedule_fired"
SLOT_SKIPPED = "slot_skipped"
SLOT_MISSED = "slot_missed"
SCHEDULE_PAUSED = "schedule_paused"
CHILD_TERMINATED = "child_terminated"
CHILD_CANCEL_REQUESTED = "child_cancel_requested"
CHILD_TIMED_OUT = "child_timed_out"
WORKER_LOST = "worker_lost"
RUN_RELEASED = "run_released"
OWNERS_DIED = "owners_died"
ACTIVITY_RESCUED = "activity_rescued"
OUTBOX_APPLIED = "outbox_applied"
OUTBOX_REFUSED = "outbox_refused"


@dataclass(slots=True)
class WatchdogReport:
    """What one pass of the :class:`~outlast_watchdog.watchdog.TaskWatchdog` did.

    Attributes:
        passed_at: When it began, in microseconds since the epoch.
        counts: The number of actions by kind: the six timeout kinds, ``timer_fired``, ``schedule_fired``
            (workflows that schedules started), ``slot_skipped``, ``slot_missed``, ``schedule_paused``,
            ``alert_fired``, ``alert_missed`` (nobody saw it before its deadline), ``alerts_added`` (workflows that got
            alerts from rules), the children of closed parents
            (``child_terminated``, ``child_cancel_requested``, ``child_timed_out``), ``worker_lost``, ``run_released``,
            ``owners_died`` (runs that ended because they had lost too many owners),
            ``activity_rescued``, and the rows of the outbox (``outbox_applied``, ``outbox_refused``). Kinds that did
            not occur are absent.
        worst_lateness_s: How late the latest deadline, timer or alert was, in seconds.
        set_aside: How many rows could not be handled in this pass; each is named once in the log.
        left: What is still due by kind (``runs``, ``activities``, ``timers``, ``schedules``, ``alerts``, ``cascades``,
            ``workers``, ``lost_work``, ``outbox``), rows set aside included, counted up to 10,000. Kinds without any
            are absent.
        reached_limit: Whether more would have been done without a limit.
        next_deadline_at: The nearest deadline ahead, in microseconds since the epoch.
        skipped: Whether the pass was skipped because the machine's clock had jumped.
        duration_s: How long it took, in seconds.
    """

    passed_at: int
    counts: dict[str, int] = field(default_factory=dict)
    worst_lateness_s: float = 0.0
    set_aside: int = 0
    left: dict[str, int] = field(default_factory=dict)
    reached_limit: bool = False
    next_deadline_at: int | None = None
    skipped: bool = False
    duration_s: float = 0.0

    @property
    def done(self) -> int:
        """The number of actions of all kinds."""
        return sum(self.counts.values())

    def count(self, kind: str, number: int = 1) -> None:
        """Count actions.

        Args:
            kind: Their kind.
            number: How many.
        """
        self.counts[kind] = self.counts.get(kind, 0) + number

    def note_left(self, kind: str, number: int) -> None:
        """Count what is still due.

        Args:
            kind: Its kind.
            number: How many.
        """
        if number:
            self.left[kind] = self.left.get(kind, 0) + number

    def note_lateness(self, microseconds: int) -> None:
        """Note how late a deadline was enforced or a timer fired, in microseconds."""
        self.worst_lateness_s = max(self.worst_lateness_s, microseconds / 1_000_000)

    def to_document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return {
            "passed_at": iso(self.passed_at),
            "counts": dict(sorted(self.counts.items())),
            "worst_lateness_seconds": self.worst_lateness_s,
            "set_aside": self.set_aside,
            "left": dict(sorted(self.left.items())),
            "reached_limit": self.reached_limit,
            "next_deadline_at": iso(self.next_deadline_at) if self.next_deadline_at is not None else None,
            "skipped": self.skipped,
            "duration_seconds": self.duration_s,
        }
