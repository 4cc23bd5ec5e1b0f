"""Lists and counts of runs: filters, and pages that continue where the last one ended.

Pages are ordered by run id, newest first, because run ids are time-ordered; the next page begins after the last id of
the one before. So a run that existed when the walk began, and matches throughout, is seen exactly once, however much
is written meanwhile.

These filters use indexes: open runs, runs that ended badly, workflow type, workflow id, search attributes, attention.
The others are tested while walking back from the newest run. Where a filter bounds when runs were created, the time in
the run id bounds the walk, with a day's grace for clocks that differ.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import Values, fetch, marks
from outlast_store.reads import attention
from outlast_store.reads.serving import Polled
from outlast_store.reads.workers import list_workers
from outlast_store.schema import search_index
from outlast_store.schema.ids import first_id_at
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES, RunStatus

GRACE_US: Final = 24 * 3600 * 1_000_000
"""How far the clocks of the processes that make ids may differ, in microseconds."""
_INDEXED_ENDS: Final = frozenset({"failed", "timed_out", "cancelled", "terminated"})
_IN_TROUBLE_INDEX: Final = "status IN ('failed', 'timed_out', 'cancelled', 'terminated')"
"""The condition of the partial index, word for word, because SQLite uses the index only if it finds just that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list. Instants are microseconds since the epoch.

    ``…_after`` is inclusive and ``…_before`` is exclusive, so adjacent windows meet.
    """

    statuses: tuple[str, ...] = ()
    workflow_type: str | None = None
    task_queue: str | None = None
    workflow_id: str | None = None
    id_prefix: str | None = None
    parent: str | None = None
    where: tuple[search_index.Wanted, ...] = ()
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


_FIRST_TASK_FAILS: Final = "status = 'pending' AND task_failures > 0"
COLUMNS: Final = ", ".join(ListedRun.__dataclass_fields__)


def page(
    connection: Connection, wanted: RunFilter, now: int, *, before: str | None, limit: int
) -> list[tuple[ListedRun, list[attention.Need]]]:
    """Return a page of runs, newest first, each with the reasons why it needs attention.

    Args:
        connection: Where to read.
        wanted: Which runs.
        now: Microseconds since the epoch.
        before: The page begins below this run id; ``None`` begins with the newest run.
        limit: Runs at most.
    """
    with snapshot(connection):
        polled = Polled.of(list_workers(connection), now)
        source, where, values = _where(connection, wanted, now, polled, before)
        order = "found_id" if "found_id" in source else "run_id"
        text = f"SELECT {COLUMNS} FROM {source}{where and ' WHERE ' + where} ORDER BY {order} DESC LIMIT ?"
        runs = [ListedRun(*row) for row in fetch(connection, text, (*values, limit))]
        still_open = [
            (run.run_id, run.task_queue, run.workflow_type) for run in runs if run.closed_at is None
        ]
        needs = attention.needs_of(connection, still_open, now, polled)
    return [(run, needs.get(run.run_id, [])) for run in runs]


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


def _where(
    connection: Connection,
    wanted: RunFilter,
    now: int,
    polled: Polled,
    before: str | None = None,
) -> tuple[str, str, Values]:
    """Return what to read from, the conditions, and the values of both."""
    source, parts = _by_attributes(wanted.where, before)
    if before is not None:
        parts.append(("run_id < ?", (before,)))
    if wanted.statuses:
        parts += _statuses(wanted.statuses)
    for column in ("workflow_type", "task_queue", "workflow_id"):
        value = getattr(wanted, column)
        if value is not None:
            parts.append((f"{column} = ?", (value,)))
    if wanted.id_prefix is not None:
        parts.append(_id_prefix(wanted.id_prefix, connection.dialect.name))
    if wanted.parent is not None:
        inner = "SELECT run_id FROM workflow_runs WHERE workflow_id = ?"
        parts.append((f"parent_run_id IN ({inner})", (wanted.parent,)))
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
    for chosen, conditions in (
        (wanted.attention, attention.everything(now, polled) if wanted.attention else []),
        (wanted.overdue, attention.overdue(now)),
    ):
        if chosen:
            inner, values = attention.runs_where(conditions)
            parts.append((f"run_id IN ({inner})", values))
    text, values = _and(parts)
    return source[0], text, (*source[1], *values)


def _by_attributes(
    wanted: Sequence[search_index.Wanted], before: str | None
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
    if before is not None:
        text, values = f"{text} AND run_id < ?", (*values, before)
    found = f"SELECT run_id AS found_id FROM search_attributes WHERE {text}"
    return (f"({found}) AS found CROSS JOIN workflow_runs", values), [*parts, ("run_id = found_id", ())]


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
