"""Draining the outbox: a step of every watchdog, and what a process does at once for its own callers.

Rows are read and applied in the order of their numbers, a page at a time; a page is one change. Any number may drain at
once: each row is looked at under its lock, and a page waits for whoever has its first row, so no row is applied before
one that it follows. A page that fails as a whole is applied row by row, and the row at fault is kept as refused. The
protocol, and what happens when a process dies, is in :mod:`outlast_runs.outbox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from outlast_runs.outbox import AppliedOutbox, ApplyOutbox, RefuseOutbox
from outlast_store.reads.outbox import find_current_runs, read_load, read_waiting
from outlast_store.schema.rows import OutboxRow
from outlast_watchdog.event_log import EventLog
from outlast_watchdog.watched import NOT_THE_ROWS, WatchedRuntime

PAGE: Final = 200


@dataclass(slots=True)
class Drained:
    """What a drain did.

    Attributes:
        applied: How many rows it has applied.
        refused: How many it has refused.
        more: Whether it stopped at its limit.
    """

    applied: int = 0
    refused: int = 0
    more: bool = False


async def drain(runtime: WatchedRuntime, event_log: EventLog, *, most: int | None = None) -> Drained:
    """Apply what waits in the outbox now.

    Args:
        runtime: Database, journal and clock.
        event_log: Writes the log, and measures.
        most: How many rows at most; ``None`` for all.

    Raises:
        StoreError: The database cannot be read or written. What was committed before stays.
    """
    drained, last, left = Drained(), 0, most
    while left is None or left > 0:
        page = PAGE if left is None else min(PAGE, left)
        rows, current_runs = await runtime.read(_read_page, last, page)
        if not rows:
            return drained
        for applied in await _apply(runtime, rows, current_runs):
            drained.applied += len(applied.applied)
            drained.refused += len(applied.refused)
            event_log.outbox_applied(applied)
        if len(rows) < page:
            return drained
        last = rows[-1].outbox_id
        left = None if left is None else left - len(rows)
    drained.more = True
    return drained


def _read_page(connection: Connection, after: int, limit: int) -> tuple[list[OutboxRow], list[str]]:
    rows = read_waiting(connection, after, limit)
    return rows, find_current_runs(connection, sorted({row.workflow_id for row in rows}))


async def _apply(
    runtime: WatchedRuntime, rows: Sequence[OutboxRow], current_runs: Sequence[str]
) -> list[AppliedOutbox]:
    try:
        return [await runtime.journal.apply(ApplyOutbox(rows, current_runs, runtime.environment))]
    except NOT_THE_ROWS:
        raise
    except Exception as error:
        if len(rows) == 1:
            return [await _refuse(runtime, rows[0], error)]
    done: list[AppliedOutbox] = []
    for row in rows:
        done += await _apply(runtime, [row], current_runs)
    return done


async def _refuse(runtime: WatchedRuntime, row: OutboxRow, error: Exception) -> AppliedOutbox:
    """Keep a row that nobody can apply as refused, unless it is the database that fails."""
    await runtime.read(read_load)
    done = AppliedOutbox(runtime.environment.clock.now())
    # The text of a foreign error may quote what it could not write.
    reason = f"it could not be applied ({type(error).__name__})"
    if await runtime.journal.apply(RefuseOutbox(row.outbox_id, reason)):
        done.refused.append((row, reason))
    return done
