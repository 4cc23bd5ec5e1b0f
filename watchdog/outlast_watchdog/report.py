"""What a pass of the watchdog did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast_workflow.primitives.times import iso

TIMER_FIRED = "timer_fired"
CHILD_TERMINATED = "child_terminated"
CHILD_CANCEL_REQUESTED = "child_cancel_requested"
CHILD_TIMED_OUT = "child_timed_out"
WORKER_LOST = "worker_lost"
RUN_RELEASED = "run_released"
ACTIVITY_RESCUED = "activity_rescued"


@dataclass(slots=True)
class WatchdogReport:
    """What one pass of the :class:`~outlast_watchdog.watchdog.TaskWatchdog` did.

    Attributes:
        passed_at: When it began, in microseconds since the epoch.
        counts: How often what was done: the six timeout kinds, ``timer_fired``, the children of ended parents
            (``child_terminated``, ``child_cancel_requested``, ``child_timed_out``), ``worker_lost``, ``run_released``
            and ``activity_rescued``; only what happened.
        worst_lateness_s: By how many seconds the latest deadline or timer was late.
        set_aside: How many rows could not be handled in this pass; each is named once in the log.
        left: What is still due (``runs``, ``activities``, ``timers``, ``cascades``, ``workers``, ``lost_work``), those
            set aside included; only where there is any, counted up to 10,000.
        reached_limit: Whether more would have been done without a limit.
        next_deadline_at: The nearest deadline that lies ahead, in microseconds since the epoch.
        skipped: Whether nothing was done, because the machine's clock had jumped.
        duration_s: How long it took.
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
        """How many things were done, of all kinds."""
        return sum(self.counts.values())

    def count(self, kind: str, number: int = 1) -> None:
        """Something was done."""
        self.counts[kind] = self.counts.get(kind, 0) + number

    def note_left(self, kind: str, number: int) -> None:
        """Something is still due."""
        if number:
            self.left[kind] = self.left.get(kind, 0) + number

    def note_lateness(self, microseconds: int) -> None:
        """A deadline was enforced, or a timer fired, that much later than it said."""
        self.worst_lateness_s = max(self.worst_lateness_s, microseconds / 1_000_000)

    def to_document(self) -> dict[str, Any]:
        """The report as JSON."""
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
