"""The watchdog's log: one line per enforcement, with attributes on the record and never a payload."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from outlast_runs.deadlines import Enforced
from outlast_runs.outbox import AppliedOutbox
from outlast_schedules.firing import FiredSlots
from outlast_store.transitions.children import AppliedClosePolicy
from outlast_workflow.errors import OutlastError
from outlast_workflow.primitives.times import iso

logger = logging.getLogger("outlast.watchdog")

MOST_REMEMBERED = 10_000


class EventLog:
    """Writes the log, and remembers which rows it has named as set aside."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def enforced(self, enforced: Enforced, **ids: Any) -> None:
        """Log how late a deadline was enforced. What failed by it is in the log of failures.

        Args:
            enforced: The deadline.
            **ids: The ids of the run, and of the activity if it is one's.
        """
        if not logger.isEnabledFor(logging.DEBUG):
            return
        lateness = (enforced.at - enforced.deadline_at) / 1_000_000
        attributes = {
            **ids,
            "timeout_kind": enforced.kind.value,
            "deadline_at": iso(enforced.deadline_at),
            "lateness_s": lateness,
            "closed": enforced.closed,
        }
        noun = f"activity {ids['activity_id']} of run" if "activity_id" in ids else "run"
        logger.debug(
            "%s %s timed out: %s, %.3f s late",
            noun,
            ids["run_id"],
            attributes["timeout_kind"],
            lateness,
            extra=attributes,
        )

    def timer_fired(self, run_id: str, timer_id: int, fire_at: int, at: int) -> None:
        """Log that a timer fired.

        Args:
            run_id: The run.
            timer_id: The timer.
            fire_at: When it was due, in microseconds.
            at: When it fired, in microseconds.
        """
        if not logger.isEnabledFor(logging.DEBUG):
            return
        lateness = (at - fire_at) / 1_000_000
        attributes = {
            "run_id": run_id,
            "timer_id": timer_id,
            "deadline_at": iso(fire_at),
            "lateness_s": lateness,
        }
        logger.debug("timer %s of run %s fired, %.3f s late", timer_id, run_id, lateness, extra=attributes)

    def outbox_applied(self, applied: AppliedOutbox) -> None:
        """Log what became of rows of the outbox."""
        for row, reason in applied.refused:
            logger.warning(
                "the %s of workflow %s in the outbox is refused (row %d): %s",
                row.kind,
                row.workflow_id,
                row.outbox_id,
                reason,
                extra={"workflow_id": row.workflow_id, "outbox_id": row.outbox_id, "kind": row.kind},
            )
        if applied.applied and logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "applied %d rows of the outbox",
                len(applied.applied),
                extra={"outbox_ids": [row.outbox_id for row in applied.applied]},
            )

    def schedule_fired(self, fired: FiredSlots, late: Sequence[int]) -> None:
        """Log what became of the due slots of a schedule.

        Args:
            fired: What became of them.
            late: How late the workflows were started whose slots were on time, in microseconds.
        """
        if fired.paused_by is not None:
            logger.warning(
                "schedule %s is paused: workflow %s did not complete",
                fired.schedule_id,
                fired.paused_by,
                extra={"schedule_id": fired.schedule_id, "workflow_id": fired.paused_by},
            )
        if fired.missed:
            logger.warning(
                "schedule %s missed %d slots, because nobody was there to fire them",
                fired.schedule_id,
                fired.missed,
                extra={"schedule_id": fired.schedule_id, "missed": fired.missed},
            )
        if fired.started and logger.isEnabledFor(logging.DEBUG):
            lateness = max(late, default=0) / 1_000_000
            logger.debug(
                "schedule %s started %d workflows, %.3f s late",
                fired.schedule_id,
                len(fired.started),
                lateness,
                extra={"schedule_id": fired.schedule_id, "lateness_s": lateness},
            )

    def close_policy_applied(self, run_id: str, applied: AppliedClosePolicy) -> None:
        """Log one step of parent close policy.

        Args:
            run_id: The closed run.
            applied: What was done to its children.
        """
        attributes = {
            "run_id": run_id,
            "terminated": len(applied.terminated),
            "cancel_requested": len(applied.cancel_requested),
            "timed_out": len(applied.timed_out),
        }
        logger.info(
            "run %s has ended: parent close policy applied to %d of its children",
            run_id,
            applied.done,
            extra=attributes,
        )

    def worker_lost(self, worker_id: str, lease_expired_at: int, at: int) -> None:
        """Log that a worker was declared dead.

        Args:
            worker_id: The worker.
            lease_expired_at: When its lease ended, in microseconds.
            at: When it was declared dead, in microseconds.
        """
        lateness = (at - lease_expired_at) / 1_000_000
        attributes = {"worker_id": worker_id, "deadline_at": iso(lease_expired_at), "lateness_s": lateness}
        logger.warning(
            "worker %s is lost: its lease ended %.3f s ago; its work goes to others",
            worker_id,
            lateness,
            extra=attributes,
        )

    def rescued(self, worker_id: str, *, run_id: str, activity_id: int, closed: bool) -> None:
        """Log that an activity was rescued from a dead worker.

        Args:
            worker_id: The worker.
            run_id: The run.
            activity_id: The activity.
            closed: Whether the activity ended, because it was rescued too often.
        """
        attributes = {"worker_id": worker_id, "run_id": run_id, "activity_id": activity_id, "closed": closed}
        what = "ended" if closed else "goes to another worker"
        logger.info(
            "activity %s of run %s lost its worker %s and %s",
            activity_id,
            run_id,
            worker_id,
            what,
            extra=attributes,
        )

    def worker_silent(self, worker_id: str, lease_expires_at: int, at: int) -> None:
        """Log that a worker did not renew a lease that ends too far ahead, and was declared dead.

        Args:
            worker_id: The worker.
            lease_expires_at: When its lease would end, in microseconds.
            at: When it was declared dead, in microseconds.
        """
        ahead = (lease_expires_at - at) / 1_000_000
        logger.warning(
            "worker %s is lost: it has not renewed its lease, which ends %.0f s ahead because the clock was set back; "
            "its work goes to others",
            worker_id,
            ahead,
            extra={"worker_id": worker_id, "deadline_at": iso(lease_expires_at)},
        )

    def released(self, worker_id: str, run_ids: list[str]) -> None:
        """Log that runs of a dead worker were released.

        Args:
            worker_id: The worker.
            run_ids: The runs.
        """
        attributes = {"worker_id": worker_id, "run_ids": run_ids}
        logger.info(
            "worker %s was lost; runs that wait for another: %d", worker_id, len(run_ids), extra=attributes
        )

    def set_aside(self, reason: str, error: Exception, **ids: Any) -> None:
        """Log once that a row cannot be handled.

        Args:
            reason: Why, in a word.
            error: The error.
            **ids: The ids of the row.
        """
        key = (reason, *ids.values())
        if key in self._known:
            return
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known.add(key)
        # The text of a foreign error may quote what it could not read.
        message = str(error) if isinstance(error, OutlastError) else type(error).__name__
        logger.error(
            "the watchdog cannot handle a row and sets it aside: %s (%s)",
            message,
            ", ".join(f"{name} {value}" for name, value in ids.items()),
            extra={**ids, "reason": reason},
        )
