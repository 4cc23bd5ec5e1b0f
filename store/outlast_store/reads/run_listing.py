"""Lists and counts of runs: filters, and pages that continue where the last one ended.

Pages are ordered by run id, newest or oldest first, because run ids are time-ordered; the next page begins after the
last id of the one before. So a run that existed when the walk began, and matches throughout, is seen exactly once,
however much is written meanwhile. Open runs with a deadline can be ordered by that, the nearest first. There are no
other orders, because an index serves these three and no other.

These filters use indexes: open runs, runs that ended badly, workflow types, workflow ids, queue, owner, search
attributes, attention. Of several workflow types, their parts of the index are merged in the order of the page.
The others are tested while walking back from the newest run. Where a filter bounds when runs were created, the time in
the run id bounds the walk, with a day's grace for clocks that differ.

The workflows that deliver alerts are listed only where a filter is narrow enough to mean them: their type, an id, their
task queue, what needs attention.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import Values, fetch, marks
from outlast_store.reads import attention
from outlast_store.reads.places import Place, why_waiting
from outlast_store.reads.serving import WORKFLOW, Polled
from outlast_store.reads.workers import list_workers
from outlast_store.schema import search_index
from outlast_store.schema.ids import first_id_at
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES, RunStatus

GRACE_US: Final = 24 * 3600 * 1_000_000
"""How far the clocks of the processes that make ids may differ, in microseconds."""
MOST_COUNTED: Final = 10_000
MOST_WALKED: Final = 100_000
_INDEXED_ENDS: Final = frozenset({"failed", "timed_out", "cancelled", "terminated"})
_OPEN_OR_BAD: Final = _INDEXED_ENDS | OPEN_RUN_STATUSES
_IN_TROUBLE_INDEX: Final = "status IN ('failed', 'timed_out', 'cancelled', 'terminated')"
"""The condition of the partial index, word for word, because SQLite uses the index only if it finds just that."""

_BY_INDEX: Final = (
    (OPEN_RUN_STATUSES, "closed_at IS NULL"),
    *((frozenset({end}), f"status = '{end}' AND {_IN_TROUBLE_INDEX}") for end in sorted(_INDEXED_ENDS)),
)
"""Statuses that an index finds, however many other runs there are, and its condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list. Instants are microseconds since the epoch.

    ``…_after`` is inclusive and ``…_before`` is exclusive, so adjacent windows meet.
    """

    statuses: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    workflow_types: tuple[str, ...] = ()
    task_queue: str | None = None
    workflow_id: str | None = None
    workflow_ids: tuple[str, ...] = ()
    id_prefix: str | None = None
    parent: str | None = None
    has_parent: bool | None = None
    owner_id: str | None = None
    build_id: str | None = None
    queue: str | None = None
    partition_key: str | None = None
    where: tuple[search_index.Wanted, ...] = ()
    was_forked_from: bool | None = None
    """Only those of workflows that there are forks of, or only the others."""
    created_after: int | None = None
    created_before: int | None = None
    started_after: int | None = None
    started_before: int | None = None
    closed_after: int | None = None
    closed_before: int | None = None
    deadline_before: int | None = None
    attention: bool = False
    overdue: bool = False
    open: bool | None = None
    latest: bool = False
    """Only the last run of each chain."""
    current: bool = False
    """Only the current run of each of ``workflow_ids``."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """What a listing shows of a run: columns of its row, in the order in which they are read."""

    run_id: str
    workflow_id: str
    workflow_type: str
    run_number: int
    first_run_id: str
    status: str
    task_queue: str
    priority: int
    attempt: int
    created_at: int
    started_at: int | None
    closed_at: int | None
    execution_deadline_at: int | None
    run_deadline_at: int | None
    last_seq: int
    history_bytes: int
    owner_id: str | None
    cancel_requested_at: int | None
    task_failures: int
    attention_since: int | None
    build_id: str | None
    parent_run_id: str | None
    search_attributes: str | None
    summary: str | None
    progress: str | None
    queue: str | None
    partition_key: str | None
    queued_at: int | None


_FIRST_TASK_FAILS: Final = "status = 'pending' AND task_failures > 0"
MOST_PLACES: Final = 20
"""At how many places in lines it is looked at what holds up the runs of a page."""
COLUMNS: Final = ", ".join(ListedRun.__dataclass_fields__)


class Order(StrEnum):
    """The orders of a listing."""

    NEWEST = "newest"
    OLDEST = "oldest"
    DEADLINE = "deadline"
    """By the nearer of a run's two deadlines; only open runs that have one are listed."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: after this run. ``deadline_at`` counts in the order by deadlines."""

    run_id: str
    deadline_at: int = 0


_SORTED: Final = {
    Order.NEWEST: ("{id} DESC", "run_id < ?"),
    Order.OLDEST: ("{id}", "run_id > ?"),
    Order.DEADLINE: ("next_deadline_at, run_id", ""),
}
"""How each order sorts, and its condition for what follows a run id."""


def page(
    connection: Connection,
    wanted: RunFilter,
    now: int,
    *,
    after: Position | None,
    limit: int,
    order: Order = Order.NEWEST,
) -> list[tuple[ListedRun, list[attention.Need], str | None]]:
    """Return a page of runs in an order, each with why it needs attention, and what holds it up in the line of a queue.

    Args:
        connection: Where to read.
        wanted: Which runs.
        now: Microseconds since the epoch.
        after: The page begins after this run; ``None`` begins with the first.
        limit: Runs at most.
        order: The order of the runs.
    """
    with snapshot(connection):
        polled = Polled.of(list_workers(connection), now)
        source, where, values = _where(connection, wanted, now, polled, after, order, merged=True)
        by = _SORTED[order][0].format(id="found_id" if "found_id" in source else "run_id")
        text = f"SELECT {COLUMNS} FROM {source}{where and ' WHERE ' + where} ORDER BY {by} LIMIT ?"
        runs = [ListedRun(*row) for row in fetch(connection, text, (*values, limit))]
        still_open = [run.run_id for run in runs if run.closed_at is None]
        needs = attention.needs_of(connection, still_open, now, polled)
        hold_ups = _hold_ups(connection, runs, polled, now)
    return [(run, needs.get(run.run_id, []), hold_ups.get(run.run_id)) for run in runs]


def _hold_ups(
    connection: Connection, runs: Sequence[ListedRun], polled: Polled, now: int
) -> dict[str, str | None]:
    """Return what holds up those runs that stand in line, as far as they stand at a few different places."""
    places = {
        run.run_id: Place(run.queue, run.partition_key or "", WORKFLOW, run.workflow_type, run.task_queue)
        for run in runs
        if run.queue is not None and run.queued_at is not None
    }
    scan = partial(fetch, connection)
    known = {
        place: why_waiting(scan, place, polled, now)
        for place in [*dict.fromkeys(places.values())][:MOST_PLACES]
    }
    return {run_id: known.get(place) for run_id, place in places.items()}


def count(connection: Connection, wanted: RunFilter, now: int) -> int:
    """Return how many runs match.

    Args:
        connection: Where to read.
        wanted: Which runs.
        now: Microseconds since the epoch.
    """
    with snapshot(connection):
        polled = Polled.of(list_workers(connection), now)
        source, where, values = _where(connection, wanted, now, polled)
        text = f"SELECT count(*) FROM {source}{where and ' WHERE ' + where}"
        found: int = fetch(connection, text, values)[0][0]
        return found


def count_by_status(
    connection: Connection,
    wanted: RunFilter,
    now: int,
    *,
    most: int = MOST_COUNTED,
    newest: int = MOST_WALKED,
) -> tuple[dict[str, int], frozenset[str]]:
    """Return how many runs match, by status, and the statuses that may have more than was counted.

    This costs the same however many runs there are. It counts matches until there are :data:`MOST_COUNTED`, and where
    no index serves a filter it looks at the newest :data:`MOST_WALKED` runs only. Beyond that, runs that are open or
    ended badly are counted by their own indexes: three failed runs among a million are three.

    Args:
        connection: Where to read.
        wanted: Which runs; its statuses are ignored.
        now: Microseconds since the epoch.
        most: How many matches are counted.
        newest: How many runs are looked at.
    """
    wanted = replace(wanted, statuses=(), open=None)
    everything = frozenset(status.value for status in RunStatus)
    with snapshot(connection):
        polled = Polled.of(list_workers(connection), now)
        source, where, values = _where(connection, wanted, now, polled)
        floor = _floor(connection, "", newest) if _needs_walk(wanted) else None
        if floor is None:
            counts, full = _counted(connection, source, where, values, most)
        else:
            counts, full = _counted(connection, source, f"{where} AND run_id >= ?", (*values, floor), most)
        if not full:
            return counts, everything if floor is not None else frozenset()
        if source != "workflow_runs":
            # An attribute leads the walk, and its rows know no status.
            return counts, everything
        more = set(everything - _OPEN_OR_BAD)
        for statuses, condition in _BY_INDEX:
            # The limit keeps planners from taking another index, which may have far more rows.
            among = f"(SELECT * FROM workflow_runs WHERE {condition} ORDER BY run_id DESC LIMIT {newest:d}) AS among"
            found, full = _counted(connection, among, where, values, most)
            counts |= {status: found.get(status, 0) for status in statuses}
            if full or _floor(connection, condition, newest) is not None:
                more |= statuses
    return counts, frozenset(more)


def _counted(
    connection: Connection, source: str, where: str, values: Values, most: int
) -> tuple[dict[str, int], bool]:
    """Return the counts by status, and whether there were more matches than are counted."""
    inner = f"SELECT status FROM {source}{where and ' WHERE ' + where} LIMIT ?"
    text = f"SELECT status, count(*) FROM ({inner}) AS counted GROUP BY status"
    counts: dict[str, int] = dict(fetch(connection, text, (*values, most + 1)))
    full = sum(counts.values()) > most
    if full:
        # The one beyond the limit only tells that there are more.
        fullest = max(counts, key=lambda status: counts[status])
        counts[fullest] -= 1
    return counts, full


def _needs_walk(wanted: RunFilter) -> bool:
    """Return whether a filter is tested run by run, so that few matches may cost a walk over all runs."""
    tested = (
        "task_queue",
        "partition_key",
        "build_id",
        "has_parent",
        "started_after",
        "started_before",
        "closed_after",
        "closed_before",
    )
    return wanted.latest or any(getattr(wanted, name) is not None for name in tested)


def _floor(connection: Connection, condition: str, newest: int) -> str | None:
    """Return the oldest of the newest run ids under a condition, or ``None`` if there are no more than that."""
    where = f" WHERE {condition}" if condition else ""
    text = f"SELECT run_id FROM workflow_runs{where} ORDER BY run_id DESC LIMIT 1 OFFSET ?"
    found = fetch(connection, text, (newest,))
    return found[0][0] if found else None


def _where(
    connection: Connection,
    wanted: RunFilter,
    now: int,
    polled: Polled,
    after: Position | None = None,
    order: Order = Order.NEWEST,
    *,
    merged: bool = False,
) -> tuple[str, str, Values]:
    """Return what to read from, the conditions, and the values of both.

    Args:
        connection: Where to read.
        wanted: Which runs.
        now: Microseconds since the epoch.
        polled: What live workers serve.
        after: The page begins after this run.
        order: The order of the page.
        merged: Whether a page is read, in order: an index of several parts is then merged.
    """
    follows = _SORTED[order][1]
    source, parts = _by_attributes(wanted.where, after, follows)
    types = wanted.workflow_types
    if merged and len(types) > 1 and follows and source[0] == "workflow_runs":
        source = _by_types(types, after, follows)
        parts.append(("run_id = found_id", ()))
    elif types:
        parts.append((f"workflow_type IN ({marks(types)})" if len(types) > 1 else "workflow_type = ?", types))
    if after is not None and follows:
        parts.append((follows, (after.run_id,)))
    if order is Order.DEADLINE:
        parts.append(("next_deadline_at IS NOT NULL", ()))
        if after is not None:
            beyond = "(next_deadline_at > ? OR next_deadline_at = ? AND run_id > ?)"
            at = after.deadline_at
            parts.append((f"next_deadline_at >= ? AND {beyond}", (at, at, at, after.run_id)))
    if not _asks_for_deliveries(wanted):
        parts.append(("workflow_type <> ?", (DELIVERY,)))
    if wanted.run_ids:
        parts.append((f"run_id IN ({marks(wanted.run_ids)})", wanted.run_ids))
    if wanted.statuses:
        parts += _statuses(wanted.statuses)
    for column in ("task_queue", "workflow_id", "queue", "partition_key", "owner_id", "build_id"):
        value = getattr(wanted, column)
        if value is not None:
            parts.append((f"{column} = ?", (value,)))
    if wanted.id_prefix is not None:
        parts.append(_id_prefix(wanted.id_prefix, connection.dialect.name))
    if wanted.parent is not None:
        inner = "SELECT run_id FROM workflow_runs WHERE workflow_id = ?"
        parts.append((f"parent_run_id IN ({inner})", (wanted.parent,)))
    if wanted.has_parent is not None:
        parts.append((f"parent_run_id IS {'NOT ' if wanted.has_parent else ''}NULL", ()))
    if wanted.workflow_ids:
        table, column = (
            ("workflow_instances", "current_run_id") if wanted.current else ("workflow_runs", "run_id")
        )
        inner = f"SELECT {column} FROM {table} WHERE workflow_id IN ({marks(wanted.workflow_ids)})"
        # As an array PostgreSQL looks these up first, where it would walk all runs for the first that match.
        among = f"IN ({inner})" if connection.dialect.name == "sqlite" else f"= ANY (ARRAY({inner}))"
        parts.append((f"run_id {among}", wanted.workflow_ids))
    if wanted.was_forked_from is not None:
        inner = "SELECT substr(value, 2) FROM search_attributes WHERE name = ?"
        choice = "IN" if wanted.was_forked_from else "NOT IN"
        parts.append((f"workflow_id {choice} ({inner})", (FORK_ATTRIBUTE,)))
    for column in ("created", "started", "closed"):
        since, until = getattr(wanted, f"{column}_after"), getattr(wanted, f"{column}_before")
        if since is not None:
            parts.append((f"{column}_at >= ?", (since,)))
        if until is not None:
            # Nothing starts or closes before it is created.
            parts.append((f"{column}_at < ?", (until,)))
            parts.append(("run_id < ?", (first_id_at(until + GRACE_US),)))
    if wanted.created_after is not None:
        parts.append(("run_id >= ?", (first_id_at(wanted.created_after - GRACE_US),)))
    if wanted.deadline_before is not None:
        inner = "SELECT run_id FROM workflow_runs WHERE next_deadline_at < ?"
        parts.append((f"run_id IN ({inner})", (wanted.deadline_before,)))
    if wanted.open is not None:
        parts.append(("closed_at IS NULL" if wanted.open else "closed_at IS NOT NULL", ()))
    if wanted.latest:
        parts.append(("next_run_id IS NULL", ()))
    if wanted.attention:
        inner, values = attention.runs_in_need(now, attention.find_unserved(connection, now, polled))
        parts.append((f"run_id IN ({inner})", values))
    if wanted.overdue:
        inner, values = attention.runs_where(attention.overdue(now))
        parts.append((f"run_id IN ({inner})", values))
    text, values = _and(parts)
    return source[0], text, (*source[1], *values)


def _asks_for_deliveries(wanted: RunFilter) -> bool:
    """Return whether a filter is so narrow, or about what needs attention, that deliveries of alerts are meant too."""
    return bool(
        wanted.workflow_types
        or wanted.run_ids
        or wanted.workflow_ids
        or wanted.workflow_id is not None
        or wanted.id_prefix is not None
        or wanted.task_queue is not None
        or wanted.owner_id is not None
        or wanted.attention
        or wanted.overdue
        or wanted.where
    )


def _by_attributes(
    wanted: Sequence[search_index.Wanted], after: Position | None, follows: str
) -> tuple[tuple[str, Values], list[tuple[str, Values]]]:
    """Return what to read from, and the conditions that are left.

    If an attribute must have one certain value, the walk follows its rows in the index: they are in the order of the
    page, so a page costs what it shows and not what there is.
    """
    leading = next((one for one in wanted if one.is_one), None)
    parts: list[tuple[str, Values]] = []
    for one in wanted:
        if one is not leading:
            text, values = search_index.condition(one)
            parts.append((f"run_id IN (SELECT run_id FROM search_attributes WHERE {text})", values))
    if leading is None:
        return ("workflow_runs", ()), parts
    text, values = search_index.condition(leading)
    if after is not None and follows:
        text, values = f"{text} AND {follows}", (*values, after.run_id)
    found = f"SELECT run_id AS found_id FROM search_attributes WHERE {text}"
    return (f"({found}) AS found CROSS JOIN workflow_runs", values), [*parts, ("run_id = found_id", ())]


def _by_types(types: Sequence[str], after: Position | None, follows: str) -> tuple[str, Values]:
    """Return what to read the runs of several types from, so that a page costs what it shows.

    Each type's part of the index is in the order of the page, so that databases merge them.
    """
    beyond, value = (f" AND {follows}", (after.run_id,)) if after is not None else ("", ())
    one = f"SELECT run_id AS found_id FROM workflow_runs WHERE workflow_type = ?{beyond}"
    values = tuple(part for type in types for part in (type, *value))
    return f"({' UNION ALL '.join([one] * len(types))}) AS found CROSS JOIN workflow_runs", values


def unknown_ids(connection: Connection, workflow_ids: Sequence[str]) -> list[str]:
    """Return those of the workflow ids that no workflow has, in their order.

    Args:
        connection: Where to read.
        workflow_ids: At least one.
    """
    text = f"SELECT workflow_id FROM workflow_instances WHERE workflow_id IN ({marks(workflow_ids)})"
    known = {row[0] for row in fetch(connection, text, tuple(workflow_ids))}
    return [workflow_id for workflow_id in workflow_ids if workflow_id not in known]


def _id_prefix(prefix: str, dialect: str) -> tuple[str, Values]:
    """Return the condition for workflow ids that begin with a prefix: a range of bytes."""
    least, less = (">=", "<") if dialect == "sqlite" else ("~>=~", "~<~")
    beyond = _beyond(prefix)
    if beyond is None:
        return f"workflow_id {least} ?", (prefix,)
    return f"workflow_id {least} ? AND workflow_id {less} ?", (prefix, beyond)


def _beyond(prefix: str) -> str | None:
    """Return the least text greater than all that begin with a prefix, if there is one."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def _statuses(statuses: Sequence[str]) -> list[tuple[str, Values]]:
    parts: list[tuple[str, Values]] = []
    if RunStatus.RUNNING in statuses and RunStatus.PENDING not in statuses:
        # The code of a run whose first workflow task fails has run, though nothing of it is recorded.
        parts.append((f"(status IN ({marks(statuses)}) OR ({_FIRST_TASK_FAILS}))", tuple(statuses)))
    elif len(statuses) == 1:
        parts.append(("status = ?", (statuses[0],)))
    else:
        parts.append((f"status IN ({marks(statuses)})", tuple(statuses)))
    if all(status in OPEN_RUN_STATUSES for status in statuses):
        parts.append(("closed_at IS NULL", ()))
    elif all(status in _INDEXED_ENDS for status in statuses):
        parts.append((_IN_TROUBLE_INDEX, ()))
    return parts


def _and(parts: Sequence[tuple[str, Values]]) -> tuple[str, Values]:
    kept = [(text, values) for text, values in parts if text]
    return " AND ".join(text for text, _ in kept), tuple(value for _, values in kept for value in values)
