"""The watchdog's log: one line per enforcement, with its facts as attributes of the record, never a payload."""

from __future__ import annotations

import logging
from typing import Any

from outlast_runs.deadlines import Enforced
from outlast_store.transitions.children import AppliedClosePolicy
from outlast_workflow.errors import RefusedError
from outlast_workflow.primitives.times import iso

logger = logging.getLogger("outlast.watchdog")

MOST_REMEMBERED = 10_000


class EventLog:
    """Writes the log; remembers which rows it has complained of."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def enforced(self, enforced: Enforced, **ids: Any) -> None:
        """A deadline was enforced."""
        if not logger.isEnabledFor(logging.INFO):
            return
        lateness = (enforced.at - enforced.deadline_at) / 1_000_000
        facts = {
            **ids,
            "timeout_kind": enforced.kind.value,
            "deadline_at": iso(enforced.deadline_at),
            "lateness_s": lateness,
            "closed": enforced.closed,
        }
        noun = f"activity {ids['activity_id']} of run" if "activity_id" in ids else "run"
        logger.info(
            "%s %s timed out: %s, %.3f s late",
            noun,
            ids["run_id"],
            facts["timeout_kind"],
            lateness,
            extra=facts,
        )

    def timer_fired(self, run_id: str, timer_id: int, fire_at: int, at: int) -> None:
        """A timer fired."""
        if not logger.isEnabledFor(logging.DEBUG):
            return
        lateness = (at - fire_at) / 1_000_000
        facts = {"run_id": run_id, "timer_id": timer_id, "deadline_at": iso(fire_at), "lateness_s": lateness}
        logger.debug("timer %s of run %s fired, %.3f s late", timer_id, run_id, lateness, extra=facts)

    def close_policy_applied(self, run_id: str, applied: AppliedClosePolicy) -> None:
        """A step of parent-close policy."""
        facts = {
            "run_id": run_id,
            "terminated": len(applied.terminated),
            "cancel_requested": len(applied.cancel_requested),
            "timed_out": len(applied.timed_out),
        }
        logger.info(
            "run %s has ended, and %d of its children met their close policy",
            run_id,
            applied.done,
            extra=facts,
        )

    def worker_lost(self, worker_id: str, lease_expired_at: int, at: int) -> None:
        """A worker was declared dead."""
        lateness = (at - lease_expired_at) / 1_000_000
        facts = {"worker_id": worker_id, "deadline_at": iso(lease_expired_at), "lateness_s": lateness}
        logger.warning(
            "worker %s is lost: its lease ended %.3f s ago; its work goes to others",
            worker_id,
            lateness,
            extra=facts,
        )

    def rescued(self, worker_id: str, *, run_id: str, activity_id: int, closed: bool) -> None:
        """An activity was taken from a dead worker."""
        facts = {"worker_id": worker_id, "run_id": run_id, "activity_id": activity_id, "closed": closed}
        what = "ended" if closed else "goes to another worker"
        logger.info(
            "activity %s of run %s lost its worker %s and %s",
            activity_id,
            run_id,
            worker_id,
            what,
            extra=facts,
        )

    def released(self, worker_id: str, run_ids: list[str]) -> None:
        """Runs were taken from a dead worker."""
        facts = {"worker_id": worker_id, "run_ids": run_ids}
        logger.info(
            "worker %s was lost; runs that wait for another: %d", worker_id, len(run_ids), extra=facts
        )

    def set_aside(self, reason: str, error: Exception, **ids: Any) -> None:
        """A row can't be handled; said once."""
        key = (reason, *ids.values())
        if key in self._known:
            return
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known.add(key)
        # The text of a foreign error may quote what it could not read.
        message = str(error) if isinstance(error, RefusedError) else type(error).__name__
        logger.error(
            "the watchdog can't handle a row and sets it aside: %s (%s)",
            message,
            ", ".join(f"{name} {value}" for name, value in ids.items()),
            extra={**ids, "reason": reason},
        )
