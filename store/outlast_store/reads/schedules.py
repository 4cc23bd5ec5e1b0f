"""Reads of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Final

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks, select
from outlast_store.queues.contents import Scan
from outlast_store.schema import tables
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.errors import ScheduleNotFoundError

_ONE: Final = select(tables.schedules, "schedule_id = ?")

_MOST_IDS: Final = 1_000
"""Among how many ids a similar one is looked for."""

_PAGE: Final = select(tables.schedules, "schedule_id > ?")

_DUE: Final = (
    select(
        tables.schedules, "next_look_at <= ? AND next_look_at >= ? AND (next_look_at, schedule_id) > (?, ?)"
    )
    + " ORDER BY next_look_at, schedule_id LIMIT ?"
)

_WAITING: Final = "schedule_id IN ({}) AND buffered IS NOT NULL AND paused_at IS NULL"

_LATEST_RUN: Final = """
    SELECT run_id, closed_at FROM workflow_runs WHERE workflow_id = ? AND first_run_id = ?
    ORDER BY run_id DESC LIMIT 1"""


def find_schedule(connection: Connection, schedule_id: str) -> ScheduleRow | None:
    """Return a schedule, or ``None`` if there is none of this id."""
    found = fetch(connection, _ONE, (schedule_id,))
    return ScheduleRow(*found[0]) if found else None


def find_schedules(connection: Connection, schedule_ids: Sequence[str]) -> dict[str, ScheduleRow]:
    """Return those of the schedules that there are, by id."""
    text = select(tables.schedules, f"schedule_id IN ({marks(schedule_ids)})")
    rows = [ScheduleRow(*row) for row in fetch(connection, text, tuple(schedule_ids))] if schedule_ids else []
    return {row.schedule_id: row for row in rows}


def unknown_schedule(connection: Connection, schedule_id: str) -> ScheduleNotFoundError:
    """Return the error for a schedule that there is not, with the ids that look like it."""
    return schedule_not_found(partial(fetch, connection), schedule_id)


def schedule_not_found(scan: Scan, schedule_id: str) -> ScheduleNotFoundError:
    """Return the error for a schedule that there is not, with the ids that look like it.

    Args:
        scan: How to read.
        schedule_id: The id.
    """
    text = "SELECT schedule_id FROM schedules ORDER BY schedule_id LIMIT ?"
    known = [row[0] for row in scan(text, (_MOST_IDS,))]
    return ScheduleNotFoundError(schedule_id, similar=get_close_matches(schedule_id, known))


def read_schedules(
    connection: Connection,
    after: str,
    limit: int,
    *,
    workflow_type: str | None = None,
    paused: bool | None = None,
) -> list[ScheduleRow]:
    """Return a page of schedules, in the order of their ids.

    Args:
        connection: Where to read.
        after: The page begins after this id.
        limit: Rows at most.
        workflow_type: Only those that start workflows of this type.
        paused: Only those that are paused, or that are not.
    """
    text, values = _PAGE, [after]
    if workflow_type is not None:
        text += " AND workflow_type = ?"
        values.append(workflow_type)
    if paused is not None:
        text += f" AND paused_at IS {'NOT ' if paused else ''}NULL"
    rows = fetch(connection, f"{text} ORDER BY schedule_id LIMIT ?", (*values, limit))
    return [ScheduleRow(*row) for row in rows]


def read_due_schedules(
    connection: Connection, until: int, position: tuple[int, str], limit: int
) -> list[ScheduleRow]:
    """Return schedules that have something to do.

    Args:
        connection: Where to read.
        until: Looks up to this instant.
        position: Where the page begins: after this instant and schedule id.
        limit: Rows at most.
    """
    return [ScheduleRow(*row) for row in fetch(connection, _DUE, (until, position[0], *position, limit))]


def read_waiting_schedules(connection: Connection, schedule_ids: Sequence[str]) -> list[ScheduleRow]:
    """Return those of the schedules that have slots which wait for a workflow to end, and are not paused.

    Args:
        connection: Where to read.
        schedule_ids: The schedules.
    """
    text = select(tables.schedules, _WAITING.format(marks(schedule_ids)))
    return [ScheduleRow(*row) for row in fetch(connection, text, tuple(schedule_ids))]


def find_latest_run(connection: Connection, workflow_id: str, first_run_id: str) -> tuple[str, bool] | None:
    """Return the latest run of a chain and whether it is open; ``None`` where the chain was deleted.

    Args:
        connection: Where to read.
        workflow_id: The workflow.
        first_run_id: The first run of the chain.
    """
    found = fetch(connection, _LATEST_RUN, (workflow_id, first_run_id))
    return (found[0][0], found[0][1] is None) if found else None
