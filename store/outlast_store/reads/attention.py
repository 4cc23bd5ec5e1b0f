"""The one definition of what needs *attention*, as statements.

Some kinds are stored in the run's row, because they concern the run alone: its workflow task keeps failing, or its
owners keep dying. The others depend on the time and on who is polling, so they are computed on reading:

============== ======================================================================================================
overdue        a deadline of the run or of one of its activities, or one of its timers, is past by more than ten
               watchdog intervals: nobody enforces it
no_poller      the run, or one of its activities, has been ready for more than a minute, or in the line of a queue that
               is not paused, and no live worker serves its task queue, or none of those admits from its queue
unknown_type   the same, but live workers do serve its task queue, and none of them has that workflow or activity
unknown_queue  the run, or one of its activities, stands in the line of a queue that is not defined
queue_paused   the run, or one of its activities, has stood for more than an hour in the line of a queue that has been
               paused for more than an hour
============== ======================================================================================================

Of a run that is given, all of them are found. Runs that lack a worker are found among those that stand first, and of
the lines of a paused queue the one that has waited longest tells of the others. So a search costs the same however
many wait: it looks at the first thousand of each task queue (of each priority, for activities), shared by the types
that no live worker knows there, at a thousand lines of queues, and at a thousand runs and as many activities in queues
that are not defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks
from outlast_store.queues.contents import ACTIVITIES, RUNS, Waiting
from outlast_store.reads import task_queues
from outlast_store.reads.queues import WAITING, find_heads, find_lines
from outlast_store.reads.serving import ACTIVITY, WORKFLOW, Lack, Polled, Ready, lacks_among, ready_of
from outlast_store.schema.rows import LOCAL
from outlast_workflow.primitives.enums import Attention
from outlast_workflow.primitives.type_families import serves

OVERDUE_AFTER_US: Final = 10 * 1_000_000
"""Ten watchdog intervals."""
UNPOLLED_AFTER_US: Final = 60 * 1_000_000
PAUSED_AFTER_US: Final = 3600 * 1_000_000
MOST_LOOKED_AT: Final = 1_000
"""How many that are ready are looked at of each task queue and priority, and how many lines of queues in all."""

Condition = tuple[str, str, str, tuple[Any, ...]]
"""A kind (as SQL), a table, a condition on its rows, and the condition's values."""


@dataclass(frozen=True, slots=True)
class Need:
    """One reason why a run needs attention: its kind, and which worker it lacks, where that is the reason."""

    kind: str
    lack: Lack | None = None


def overdue(now: int) -> list[Condition]:
    """Return the conditions for a deadline or a timer that is long past."""
    late = (now - OVERDUE_AFTER_US,)
    kind = _literal(Attention.OVERDUE)
    return [
        (kind, "workflow_runs", "next_deadline_at <= ?", late),
        (kind, "activity_executions", "next_deadline_at <= ?", late),
        (kind, "timers", "fire_at <= ?", late),
    ]


def _in_row_or_overdue(now: int) -> list[Condition]:
    """Return the conditions for what a run's row says, and for what is overdue."""
    return [("attention", "workflow_runs", "attention IS NOT NULL", ()), *overdue(now)]


def _of_unknown_queue() -> list[Condition]:
    known = "SELECT 1 FROM queues AS q WHERE q.queue = {}.queue AND q.deleted_at IS NULL"
    return [
        (
            _literal(Attention.UNKNOWN_QUEUE),
            waiting.table,
            f"{waiting.condition} AND NOT EXISTS ({known.format(waiting.table)})",
            (),
        )
        for waiting in WAITING
    ]


def _paused(now: int) -> list[Condition]:
    since = (now - PAUSED_AFTER_US,) * 2
    paused = "queue IN (SELECT q.queue FROM queues AS q WHERE q.paused_at <= ?)"
    kind = _literal(Attention.QUEUE_PAUSED)
    return [
        (kind, waiting.table, f"{waiting.condition} AND {waiting.since} <= ? AND {paused}", since)
        for waiting in WAITING
    ]


def _literal(kind: Attention) -> str:
    return f"'{kind.value}'"


# --- the needs of some runs -----------------------------------------------------------------------------------------


def needs_of(
    connection: Connection, run_ids: Sequence[str], now: int, polled: Polled
) -> dict[str, list[Need]]:
    """Return why each of some open runs needs attention: kinds in order, then what it lacks.

    Args:
        connection: Where to read.
        run_ids: Which runs: a page of them at most.
        now: Microseconds since the epoch.
        polled: The live workers.
    """
    if not run_ids:
        return {}
    parts: list[str] = []
    values: list[Any] = []
    among = f"run_id IN ({marks(run_ids)})"
    for kind, table, condition, more in chain(_in_row_or_overdue(now), _of_unknown_queue(), _paused(now)):
        # By the run, and not by an index of what waits: that may be long.
        parts.append(
            f"SELECT run_id, {kind}, NULL, NULL, NULL, NULL FROM {table} WHERE {among} AND {condition}"
        )
        values += (*run_ids, *more)
    text, more = ready_of(run_ids, now - UNPOLLED_AFTER_US)
    found: dict[str, set[Need]] = {}
    ready: list[Ready] = []
    for run_id, kind, *rest in fetch(
        connection, f"{' UNION ALL '.join(parts)} UNION ALL {text}", (*values, *more)
    ):
        if kind in (WORKFLOW, ACTIVITY):
            ready.append((run_id, kind, *rest))
        else:
            found.setdefault(run_id, set()).add(Need(kind))
    lacks = lacks_among(ready, polled)
    return {
        run_id: [
            *sorted(found.get(run_id, ()), key=lambda need: need.kind),
            *(Need(lack.kind, lack) for lack in lacks.get(run_id, ())),
        ]
        for run_id in {**found, **lacks}
    }


# --- which runs need attention --------------------------------------------------------------------------------------


def find_unserved(connection: Connection, now: int, polled: Polled) -> list[str]:
    """Return runs that lack a worker, or wait in a queue that is paused or not defined, as far as they stand first.

    Args:
        connection: Where to read.
        now: Microseconds since the epoch.
        polled: The live workers.
    """
    found: dict[str, None] = {}
    for run_ids in (
        _ready_runs(connection, now - UNPOLLED_AFTER_US, polled),
        _runs_of_lost_workers(connection, now - UNPOLLED_AFTER_US, polled),
        _ready_activities(connection, now - UNPOLLED_AFTER_US, polled),
        _heads(connection, now, polled),
    ):
        found.update(dict.fromkeys(run_ids))
    return list(found)


def _ready_runs(connection: Connection, since: int, polled: Polled) -> Iterable[str]:
    text = task_queues.ready_runs("run_id")
    for name, types in _not_served(connection, task_queues.RUNS, polled.workflows).items():
        for type in types:
            values = (name, type, since, since, max(MOST_LOOKED_AT // len(types), 1))
            yield from _ids(connection, text, values)


def _ready_activities(connection: Connection, since: int, polled: Polled) -> Iterable[str]:
    text = f"SELECT DISTINCT run_id FROM ({task_queues.ready_activities('run_id, available_at')}) AS ready"
    for name, types in _not_served(connection, task_queues.ACTIVITIES, polled.activities).items():
        for type in types:
            most = max(MOST_LOOKED_AT // len(types), 1)
            yield from _ids(connection, text, task_queues.activity_values(name, type, since, most))


def _not_served(
    connection: Connection, what: task_queues.Claimable, served: dict[str, set[str]]
) -> dict[str, list[str]]:
    """Return the types that wait in each task queue and that none of its live workers knows."""
    found: dict[str, list[str]] = {}
    for name, type in task_queues.find_types(connection, what):
        if not serves(served.get(name.removeprefix(LOCAL), ()), type):
            found.setdefault(name, []).append(type)
    return found


def _runs_of_lost_workers(connection: Connection, since: int, polled: Polled) -> Iterable[str]:
    text = (
        "SELECT run_id, task_queue, workflow_type FROM workflow_runs WHERE owner_id = ? AND wake_at <= ? "
        "AND not_before <= ? ORDER BY wake_at LIMIT ?"
    )
    for owner in task_queues.find_names(connection, "workflow_runs", "owner_id", "owner_id IS NOT NULL"):
        if owner not in polled.live:
            for run_id, task_queue, type in fetch(connection, text, (owner, since, since, MOST_LOOKED_AT)):
                if polled.lack_of_workflow(task_queue, type) is not None:
                    yield run_id


def _heads(connection: Connection, now: int, polled: Polled) -> Iterable[str]:
    """Return the runs that stand first in lines, or whose activities do, and that no live worker can be given."""
    for waiting, lack_of in ((RUNS, polled.lack_of_workflow), (ACTIVITIES, polled.lack_of_activity)):
        names = task_queues.find_names(connection, waiting.table, "queue", waiting.condition)
        if not names:
            continue
        text = f"SELECT queue, paused_at FROM queues WHERE queue IN ({marks(names)}) AND deleted_at IS NULL"
        known: dict[str, int | None] = {row[0]: row[1] for row in fetch(connection, text, tuple(names))}
        yield from _in_unknown_queues(connection, waiting, [name for name in names if name not in known])
        for queue, paused_at in known.items():
            lines = find_lines(connection, waiting, queue, max(MOST_LOOKED_AT // len(names), 1))
            if paused_at is not None:
                first = min(lines, key=lambda line: line.since, default=None)
                if first is not None and max(first.since, paused_at) <= now - PAUSED_AFTER_US:
                    yield from (head[0] for head in find_heads(connection, waiting, queue, [first]))
                continue
            lines = [line for line in lines if line.since <= now - UNPOLLED_AFTER_US]
            for run_id, task_queue, type in find_heads(connection, waiting, queue, lines):
                if lack_of(task_queue, type, queue) is not None:
                    yield run_id


def _in_unknown_queues(connection: Connection, waiting: Waiting, queues: Sequence[str]) -> Iterable[str]:
    text = f"SELECT run_id FROM {waiting.table} WHERE queue = ? AND {waiting.condition} LIMIT ?"
    for queue in queues:
        yield from _ids(connection, text, (queue, max(MOST_LOOKED_AT // len(queues), 1)))


def _ids(connection: Connection, text: str, values: tuple[Any, ...]) -> Iterable[str]:
    return (row[0] for row in fetch(connection, text, values))


def runs_in_need(now: int, unserved: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    """Return a subquery for the ids of the runs that need attention, and its values.

    Args:
        now: Microseconds since the epoch.
        unserved: What :func:`find_unserved` has found.
    """
    text, values = runs_where(_in_row_or_overdue(now))
    if unserved:
        text += f" UNION SELECT run_id FROM workflow_runs WHERE run_id IN ({marks(unserved)})"
    return text, (*values, *unserved)


def runs_where(conditions: Iterable[Condition]) -> tuple[str, tuple[Any, ...]]:
    """Return a subquery for the ids of the runs that match any of the conditions, and its values."""
    parts: list[str] = []
    values: list[Any] = []
    for _, table, condition, more in conditions:
        parts.append(f"SELECT run_id FROM {table} WHERE {condition}")
        values += more
    return " UNION ".join(parts), tuple(values)
