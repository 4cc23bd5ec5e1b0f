"""The one definition of what needs *attention*, as statements.

Some kinds are stored in the run's row, because they concern the run alone: its workflow task keeps failing, or its
owners keep dying. The others depend on the time and on who is polling, so they are computed on reading:

============== ======================================================================================================
overdue        a deadline of the run or of one of its activities, or one of its timers, is past by more than ten
               watchdog intervals: nobody enforces it
no_poller      the run, or one of its activities, has been ready for more than a minute, and no live worker serves its
               task queue
unknown_type   the same, but live workers do serve its task queue, and none of them has that workflow or activity
unknown_queue  the run stands in the line of a queue that is not defined: it was deleted while the run was being started
============== ======================================================================================================

Each is an index range over open rows, so its cost follows the number of rows that wait or are stuck, not of all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks
from outlast_store.reads.serving import Lack, Polled, waiting_activities
from outlast_workflow.primitives.enums import Attention

OVERDUE_AFTER_US: Final = 10 * 1_000_000
"""Ten watchdog intervals."""
UNPOLLED_AFTER_US: Final = 60 * 1_000_000
_LACKS: Final = frozenset({Attention.NO_POLLER.value, Attention.UNKNOWN_TYPE.value})

Condition = tuple[str, str, str, tuple[Any, ...]]
"""A kind (as SQL), a table, a condition on its rows, and the condition's values."""


@dataclass(frozen=True, slots=True)
class Need:
    """One reason why a run needs attention: its kind, and which worker it lacks, where that is the reason."""

    kind: str
    lack: Lack | None = None


# The queues that have a line are found by leaps through the index of lines, one seek each.
_UNKNOWN_QUEUE: Final = """queued_at IS NOT NULL AND queue IN (
    WITH RECURSIVE lines (name) AS (
        SELECT min(queue) FROM workflow_runs WHERE queued_at IS NOT NULL
        UNION ALL
        SELECT (SELECT min(r.queue) FROM workflow_runs AS r WHERE r.queued_at IS NOT NULL AND r.queue > lines.name)
        FROM lines WHERE lines.name IS NOT NULL
    )
    SELECT name FROM lines
    WHERE name IS NOT NULL AND name NOT IN (SELECT q.queue FROM queues AS q WHERE q.deleted_at IS NULL)
)"""


def overdue(now: int) -> list[Condition]:
    """Return the conditions for a deadline or a timer that is long past."""
    late = (now - OVERDUE_AFTER_US,)
    kind = _literal(Attention.OVERDUE)
    return [
        (kind, "workflow_runs", "next_deadline_at <= ?", late),
        (kind, "activity_executions", "next_deadline_at <= ?", late),
        (kind, "timers", "fire_at <= ?", late),
    ]


def everything(now: int, polled: Polled) -> list[Condition]:
    """Return the conditions for every kind."""
    return [
        ("attention", "workflow_runs", "attention IS NOT NULL", ()),
        *overdue(now),
        *_unserved(now, polled),
        (_literal(Attention.UNKNOWN_QUEUE), "workflow_runs", _UNKNOWN_QUEUE, ()),
    ]


def _unserved(now: int, polled: Polled) -> Iterable[Condition]:
    since = now - UNPOLLED_AFTER_US
    ready = "{} AND wake_at <= ? AND not_before <= ?"
    owners: list[tuple[str, tuple[Any, ...]]] = [("owner_id IS NULL", ())]
    if polled.live:
        owners.append(
            (f"owner_id IS NOT NULL AND owner_id NOT IN ({marks(polled.live)})", tuple(polled.live))
        )
    else:
        owners.append(("owner_id IS NOT NULL", ()))
    for owned, values in owners:
        waiting = ready.format(owned), (*values, since, since)
        yield from _without_worker("workflow_runs", "workflow_type", waiting, polled.workflows)
    waiting = "status = 'pending' AND queue IS NULL AND available_at <= ?", (since,)
    yield from _without_worker("activity_executions", "activity_type", waiting, polled.activities)


def _without_worker(
    table: str, type_column: str, waiting: tuple[str, tuple[Any, ...]], served: dict[str, set[str]]
) -> Iterable[Condition]:
    condition, values = waiting
    queues = tuple(served)
    elsewhere = f" AND task_queue NOT IN ({marks(queues)})" if queues else ""
    yield _literal(Attention.NO_POLLER), table, condition + elsewhere, (*values, *queues)
    for queue, types in served.items():
        names = tuple(sorted(types))
        unknown = f" AND {type_column} NOT IN ({marks(names)})" if names else ""
        yield (
            _literal(Attention.UNKNOWN_TYPE),
            table,
            f"{condition} AND task_queue = ?{unknown}",
            (*values, queue, *names),
        )


def _literal(kind: Attention) -> str:
    return f"'{kind.value}'"


def runs_where(conditions: Iterable[Condition]) -> tuple[str, tuple[Any, ...]]:
    """Return a subquery for the ids of the runs that match any of the conditions, and its values."""
    parts: list[str] = []
    values: list[Any] = []
    for _, table, condition, more in conditions:
        parts.append(f"SELECT run_id FROM {table} WHERE {condition}")
        values += more
    return " UNION ".join(parts), tuple(values)


Placed = tuple[str, str, str]
"""A run's id, its task queue and its type."""


def needs_of(
    connection: Connection, runs: Sequence[Placed], now: int, polled: Polled
) -> dict[str, list[Need]]:
    """Return why each of some open runs needs attention, sorted by kind.

    Args:
        connection: Where to read.
        runs: Which runs: a page of them at most.
        now: Microseconds since the epoch.
        polled: The live workers.
    """
    kinds = _kinds_of(connection, [run[0] for run in runs], everything(now, polled))
    lacking = [run for run in runs if not _LACKS.isdisjoint(kinds.get(run[0], ()))]
    ready = waiting_activities(connection, [run[0] for run in lacking], now - UNPOLLED_AFTER_US)
    lacks: dict[str, list[Lack | None]] = {
        run_id: [polled.lack_of_workflow(queue, type)] for run_id, queue, type in lacking
    }
    for run_id, queue, type in ready:
        lacks[run_id].append(polled.lack_of_activity(queue, type))
    found: dict[str, list[Need]] = {}
    for run_id, of_run in kinds.items():
        found[run_id] = needs = []
        for kind in sorted(of_run):
            matching = [lack for lack in lacks.get(run_id, ()) if lack is not None and lack.kind == kind]
            needs += [Need(kind, lack) for lack in matching] or [Need(kind)]
    return found


def _kinds_of(
    connection: Connection, run_ids: Sequence[str], conditions: Iterable[Condition]
) -> dict[str, set[str]]:
    if not run_ids:
        return {}
    parts: list[str] = []
    values: list[Any] = []
    among = f"run_id IN ({marks(run_ids)})"
    for kind, table, condition, more in conditions:
        if table != "workflow_runs":
            condition = f"run_id IN (SELECT run_id FROM {table} WHERE {condition})"
        parts.append(f"SELECT run_id, {kind} FROM workflow_runs WHERE {among} AND {condition}")
        values += (*run_ids, *more)
    found: dict[str, set[str]] = {}
    for run_id, kind in fetch(connection, " UNION ".join(parts), tuple(values)):
        found.setdefault(run_id, set()).add(kind)
    return found
