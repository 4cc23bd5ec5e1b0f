"""Leases that end further ahead than they last, because the clock was set back after they were renewed.

Such a lease says nothing about its worker: if the worker died while the clock was a day ahead, its lease would hold its
runs for that day. A worker that lives renews its lease every third of it, and each renewal moves the end. So a lease of
this kind is over once it was observed for half its duration without a renewal. Setting a clock back kills nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from outlast_watchdog.scans import LeaseAhead
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND


class LeasesAhead:
    """What one watchdog has observed of such leases, while it reached the database without a gap."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def forget(self) -> None:
        """Observe anew: there are none, or this process has not watched all the time."""
        self._seen.clear()

    def not_renewed(self, leases: Iterable[LeaseAhead], monotonic: float) -> list[LeaseAhead]:
        """Return the leases that were observed for half their duration without a renewal.

        Args:
            leases: All leases that end further ahead than they last.
            monotonic: The time of this observation, in monotonic seconds.
        """
        seen: dict[str, tuple[int, float]] = {}
        over: list[LeaseAhead] = []
        for lease in leases:
            expires_at, since = self._seen.get(lease.worker_id, (None, monotonic))
            if expires_at != lease.expires_at:
                since = monotonic
            seen[lease.worker_id] = lease.expires_at, since
            if monotonic - since >= lease.duration / 2 / MICROSECONDS_PER_SECOND:
                over.append(lease)
        self._seen = seen
        return over
