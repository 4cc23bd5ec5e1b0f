"""Keeping what is armed in step with the rows: each batch compares what its rows armed before with what they arm now.

The rows of ``alert_timers`` of a run are guarded by the lock of its row, those of an activity by the lock of the
activity's. A batch has written those rows when it comes here, so their locks are held, whoever changed what.

A mark is armed when its deadline is set, and moves with it. In a row that was there before, it must not have passed by
then. A mark that was fired is armed no more, but the row does not know that: where its deadline moves afterwards it is
armed again, and whoever is to fire it finds that it was fired (:class:`outlast_watchdog.alerts.FireAlerts`). What a
whole chain has once goes from each run to the next, even where it is due already. A run that begins and ends within one
batch, as an eager start does whose first workflow task continues as new, arms nothing: the next takes over from before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from outlast_store.alerts.marks import OF_CHAINS, RUN, Marks, marks_of_activity, marks_of_run
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Values
from outlast_store.database.statements import Statements
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertTimerKey

KEY = ("run_id", "activity_id", "kind", "mark")

Changed = tuple[dict[str, Any], dict[str, Any] | None]
"""A row's values, and as they were (``None``: the row is new)."""
_NONE: Marks = {}
NEVER = -1
"""Before every instant: nothing of what is new has passed before it was armed."""


def arm(
    raw: RawConnection,
    statements: Statements,
    now: int,
    runs: Sequence[Changed],
    activities: Iterable[Changed],
    fired: Iterable[AlertTimerKey],
) -> list[int]:
    """Delete and insert what is armed for rows with a policy; return when what was armed is due.

    Args:
        raw: The transaction's connection.
        statements: The statements of its database family.
        now: The instant of the transaction, in microseconds.
        runs: The runs with a policy.
        activities: The activities with one.
        fired: What is armed no more because it was fired, or came too late.
    """
    removed = set(fired)
    added: dict[AlertTimerKey, Values] = {}
    begun: dict[str, tuple[str, Marks]] = {}
    new = {row["run_id"]: row["previous_run_id"] for row, before in runs if before is None}
    for row, before in runs:
        run_id = row["run_id"]
        marks = marks_of_run(row)
        was = _NONE if before is None else marks_of_run(before)
        previous = row["previous_run_id"]
        while previous in new:
            previous = new[previous]
        # What a run takes over from the one before it has its own rule.
        since = NEVER if before is None and previous is None else now
        if before is not None and before["alerts"] != row["alerts"]:
            # A rule has just found the run: what it should have told already is told now.
            since = NEVER
        _compare(run_id, RUN, was, marks, since, removed, added)
        if before is None and previous is not None:
            passed = {key: mark for key, mark in marks.items() if key[0] in OF_CHAINS and mark.due_at <= now}
            if passed:
                begun[previous] = run_id, passed
    for row, before in activities:
        was = _NONE if before is None else marks_of_activity(before)
        since = NEVER if before is None else now
        _compare(row["run_id"], row["activity_id"], was, marks_of_activity(row), since, removed, added)
    if begun:
        _take_over(raw, statements, begun, added)
    if removed:
        statements.delete(raw, tables.alert_timers, KEY, sorted(removed))
    if added:
        statements.insert(raw, tables.alert_timers, list(added.values()))
    return [values[5] for values in added.values()]


def _compare(
    run_id: str,
    activity_id: int,
    was: Marks,
    marks: Marks,
    since: int,
    removed: set[AlertTimerKey],
    added: dict[AlertTimerKey, Values],
) -> None:
    for key, mark in was.items():
        if marks.get(key) != mark:
            removed.add((run_id, activity_id, *key))
    for key, mark in marks.items():
        old = was.get(key)
        if old == mark:
            continue
        lay_ahead = old is not None and old.attempt == mark.attempt and old.due_at > since
        # What has passed before it was armed is not fired; what lies ahead stays armed wherever it moves to.
        if mark.due_at > since or lay_ahead:
            added[run_id, activity_id, *key] = (run_id, activity_id, *key, *mark)


def _take_over(
    raw: RawConnection,
    statements: Statements,
    begun: dict[str, tuple[str, Marks]],
    added: dict[AlertTimerKey, Values],
) -> None:
    """Arm for new runs what is due and was still armed for the runs before them in their chains."""
    keys: Sequence[Values] = [
        (previous, RUN, *key) for previous, (_, passed) in begun.items() for key in passed
    ]
    for previous, activity_id, kind, mark, *_ in statements.read(raw, tables.alert_timers, KEY, sorted(keys)):
        run_id, passed = begun[previous]
        added[run_id, activity_id, kind, mark] = (run_id, activity_id, kind, mark, *passed[kind, mark])
