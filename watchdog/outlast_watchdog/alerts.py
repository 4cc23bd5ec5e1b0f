"""Firing alerts: the change that turns what is armed and due into rows of ``alerts``.

Each is fired once: the run's row, or the activity's, is locked, what is armed is deleted where its alert is inserted,
and no two alerts have the same mark. Any number of watchdogs may try. Nothing waits for an alert: it is a row, and
whoever reads it, logs it or counts it does so after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from outlast_store.alerts.arming import KEY
from outlast_store.alerts.marks import RUN, Mark, alert_of, marks_of_activity, marks_of_run
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, AlertRow, AlertTimerKey, AlertTimerRow, RunRow
from outlast_store.transitions.alerts.firing import fire_alert
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_workflow.errors import RefusedError

RUNS_IN_A_CHANGE: Final = 100
_ONCE: Final = ("scope", "activity_id", "attempt", "kind", "mark")


@dataclass(slots=True)
class FiredAlerts:
    """What became of marks that were due.

    Attributes:
        at: When, in microseconds.
        alerts: What was fired.
        missed: What can be fired no more, because its deadline has passed.
    """

    at: int
    alerts: list[AlertRow] = field(default_factory=list)
    missed: list[AlertTimerRow] = field(default_factory=list)


class FireAlerts(BaseChange):
    """Fire the alerts of some runs, and of their activities, that are still armed and due; never early.

    A run that is past its own deadline is left alone: what ends it disarms the rest.

    Args:
        keys: What a scan saw.
    """

    # The owner of a run may have an old state of it cached.
    needs_locks = True

    def __init__(self, keys: Sequence[AlertTimerKey]) -> None:
        self.keys = sorted(keys)
        self.runs = tuple(sorted({key[0] for key in keys}))
        self.activities = tuple(sorted({key[:2] for key in keys if key[1] != RUN}))
        self.weight = 512 * (1 + len(keys))

    def apply(self, batch: Batch) -> FiredAlerts:
        """Return what was fired; nothing where another watchdog came first.

        Raises:
            RefusedError: Something is armed whose run or activity is closed.
        """
        fired = FiredAlerts(batch.now)
        timers = [
            timer
            for timer in (
                AlertTimerRow(*values) for values in batch.read(tables.alert_timers, KEY, self.keys)
            )
            if timer.due_at <= batch.now
        ]
        if not timers:
            return fired
        timers.sort(key=lambda timer: (timer.due_at, timer.key))
        found = [(timer, *self._subject(batch, timer)) for timer in timers]
        known = self._fired_before(batch, found)
        for timer, run, activity in found:
            self._fire(batch, fired, timer, run, activity, known)
        return fired

    def _subject(self, batch: Batch, timer: AlertTimerRow) -> tuple[RunRow, ActivityRow | None]:
        run = batch.run(timer.run_id)
        # What another change of this batch has closed is disarmed at its end.
        if run is None or not (run.is_open or batch.appended(timer.run_id)):
            raise RefusedError(
                "closed_run", f"an alert is armed for run {timer.run_id}, which is closed or gone"
            )
        if timer.activity_id == RUN:
            return run, None
        activity = batch.activity(timer.run_id, timer.activity_id)
        if activity is None:
            what = f"activity {timer.activity_id} of run {timer.run_id}"
            raise RefusedError("unknown_activity", f"an alert is armed for {what}, which is gone")
        return run, activity

    def _fired_before(
        self, batch: Batch, found: Sequence[tuple[AlertTimerRow, RunRow, ActivityRow | None]]
    ) -> set[tuple[object, ...]]:
        keys = {alert_of(*one, alert_id="", now=0).once for one in found}
        rows = batch.read(tables.alerts, _ONCE, sorted(keys))
        return {AlertRow(*values).once for values in rows}

    def _fire(
        self,
        batch: Batch,
        fired: FiredAlerts,
        timer: AlertTimerRow,
        run: RunRow,
        activity: ActivityRow | None,
        known: set[tuple[object, ...]],
    ) -> None:
        passed = timer.deadline_at is not None and timer.deadline_at <= batch.now
        marks = marks_of_run(vars(run)) if activity is None else marks_of_activity(vars(activity))
        mark = marks.get((timer.kind, timer.mark))
        alert = alert_of(timer, run, activity, alert_id=batch.ids.next(), now=batch.now)
        if alert.once in known or batch.fired(alert):
            batch.disarm(timer)
        elif passed:
            batch.disarm(timer, missed=True)
            fired.missed.append(timer)
        elif deadline_passed(run, batch.now) is None and mark == Mark(
            timer.attempt, timer.due_at, timer.deadline_at
        ):
            batch.disarm(timer)
            fire_alert(batch, run, activity, alert)
            fired.alerts.append(alert)
        # Whatever else has changed meanwhile, in this batch, has changed what is armed as well.
