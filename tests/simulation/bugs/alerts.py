"""Bugs of deadline alerts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import orjson
from tests.simulation.bugs.planting import bug, patch

from outlast_activities import attempts
from outlast_runs import terminal_commands
from outlast_store.alerts import arming
from outlast_store.alerts.marks import marks_of_run
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertTimerRow
from outlast_store.transitions import new_runs, run_ends
from outlast_store.transitions.alerts import acknowledgements, deliveries
from outlast_store.transitions.alerts.firing import tell
from outlast_watchdog import alerts, rules
from outlast_workflow.options.alerts import ENFORCED, AlertPolicy


class _Anything:
    """Passes for the marks of a row, and for each of them."""

    def get(self, key: object) -> _Anything:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@bug
def alerts_fire_whatever_the_attempt(stack: ExitStack) -> None:
    """What was armed is fired, though the attempt has ended and the deadline has moved in the same commit."""
    patch(stack, alerts, "marks_of_activity", lambda row: _Anything())
    patch(stack, alerts, "marks_of_run", lambda row: _Anything())


@bug
def alerts_stay_armed_in_closed_runs(stack: ExitStack) -> None:
    """What a run that has continued as new had armed is armed still."""

    def wrong(run: Mapping[str, Any]) -> Any:
        return marks_of_run({**run, "closed_at": None})

    patch(stack, arming, "marks_of_run", wrong)


@bug
def enforced_deadlines_are_armed_too(stack: ExitStack) -> None:
    """The mark of a deadline that is enforced is armed as others are, and fired by whoever comes first."""
    right = AlertPolicy.marks

    def wrong(self: AlertPolicy, deadline_at: int, total: int) -> list[tuple[str, int]]:
        last = [(ENFORCED, deadline_at)] if self.tells_of_the_end else []
        return [*right(self, deadline_at, total), *last]

    patch(stack, AlertPolicy, "marks", wrong)


@bug
def enforced_deadlines_are_told_of_one_attempt(stack: ExitStack) -> None:
    """Later attempts that time out are not alerts."""
    right = attempts._tell_of_end

    def wrong(batch: Any, run: Any, row: Any, kind: Any, deadline_at: int) -> None:
        if row.attempt < 2:
            right(batch, run, row, kind, deadline_at)

    patch(stack, attempts, "_tell_of_end", wrong)


@bug
def enforced_deadlines_of_runs_are_not_told(stack: ExitStack) -> None:
    """A run that times out is no alert."""
    patch(stack, run_ends, "alert_of_end", lambda *given, **named: None)


@bug
def alerts_forget_what_moves(stack: ExitStack) -> None:
    """A mark whose deadline moves is taken away, and not armed again."""
    right = arming._compare

    def wrong(
        run_id: str, activity_id: int, was: Any, marks: Any, since: int, removed: Any, added: Any
    ) -> None:
        kept = {key: mark for key, mark in marks.items() if key not in was or was[key] == mark}
        right(run_id, activity_id, was, kept, since, removed, added)

    patch(stack, arming, "_compare", wrong)


@bug
def alerts_of_chains_end_with_their_run(stack: ExitStack) -> None:
    """What was due, and not fired yet, is not handed on to the next run."""
    patch(stack, arming, "_take_over", lambda *given: None)


@bug
def alerts_fire_without_looking_again(stack: ExitStack) -> None:
    """Another attempt has armed the same mark since a watchdog saw it: that is fired before it is due."""

    def wrong(self: Any, batch: Any) -> Any:
        fired = alerts.FiredAlerts(batch.now)
        for values in batch.read(tables.alert_timers, arming.KEY, self.keys):
            timer = AlertTimerRow(*values)
            self._fire(batch, fired, timer, *self._subject(batch, timer), set())
        return fired

    patch(stack, alerts.FireAlerts, "apply", wrong)


@bug
def alerts_are_told_twice(stack: ExitStack) -> None:
    """The workflow is told by whoever looks, not by whoever fires."""
    right = alerts.FireAlerts.apply

    def wrong(self: Any, batch: Any) -> Any:
        fired = right(self, batch)
        for alert in fired.alerts:
            activity = batch.activity(alert.run_id, alert.activity_id) if alert.activity_id else None
            tell(batch, batch.run(alert.run_id), activity, alert)
        return fired

    patch(stack, alerts.FireAlerts, "apply", wrong)


@bug
def alerts_are_delivered_twice(stack: ExitStack) -> None:
    """Each alert gets a delivery by whoever fires it, and another one when the batch is written."""
    right = deliveries.Deliveries.add

    def wrong(self: Any, alert: Any, channels: Any) -> None:
        right(self, alert, channels)
        self._last.clear()
        right(self, alert, channels)

    patch(stack, deliveries.Deliveries, "add", wrong)


@bug
def deliveries_are_lost(stack: ExitStack) -> None:
    """An alert names its deliveries, and the second of a batch is never started."""
    right = deliveries.Deliveries.start

    def wrong(self: Any, fired: Any) -> None:
        self._all = self._all[:1]
        right(self, fired)

    patch(stack, deliveries.Deliveries, "start", wrong)


@bug
def acknowledgements_overwrite_each_other(stack: ExitStack) -> None:
    """Whoever acknowledges an alert last stands for it."""
    right = acknowledgements.AcknowledgeAlert.apply

    def wrong(self: Any, batch: Any) -> Any:
        batch.execute("UPDATE alerts SET acknowledged_at = NULL WHERE alert_id = ?", (self.alert_id,))
        return right(self, batch)

    patch(stack, acknowledgements.AcknowledgeAlert, "apply", wrong)


@bug
def rules_are_given_again(stack: ExitStack) -> None:
    """A watchdog adds a rule that another one has added since it looked."""

    def wrong(text: str | None, policy: AlertPolicy, since: int) -> str:
        document: dict[str, Any] = {"since": since} if text is None else orjson.loads(text)
        document.setdefault("rules", []).append(policy.to_document())
        return orjson.dumps(document).decode()

    patch(stack, rules, "with_rule", wrong)


@bug
def rules_end_with_their_run(stack: ExitStack) -> None:
    """What a run has from a rule is not handed on to the next run."""
    right = new_runs.next_run

    def wrong(*given: Any, **named: Any) -> Any:
        following = right(*given, **named)
        if '"rules"' in (following.alerts or ""):
            following.alerts = None
        return following

    patch(stack, run_ends, "next_run", wrong)
    patch(stack, terminal_commands, "next_run", wrong)
