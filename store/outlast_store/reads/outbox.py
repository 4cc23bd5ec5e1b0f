"""Reads of the outbox: what waits to be applied, and what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks, select
from outlast_store.schema import tables
from outlast_store.schema.rows import OutboxRow

MOST_COUNTED: Final = 10_000
KEPT_FOR_US: Final = 7 * 86_400 * 1_000_000
"""How long refused rows are kept."""

_WAITING: Final = select(tables.outbox, "state = 'waiting' AND outbox_id > ?") + " ORDER BY outbox_id LIMIT ?"
_OF_WORKFLOW: Final = (
    select(tables.outbox, "workflow_id = ? AND kind = 'start' AND state = ?") + " ORDER BY outbox_id"
)
_PAGE: Final = select(tables.outbox, "outbox_id > ?{}") + " ORDER BY outbox_id LIMIT ?"


class OutboxLoad(NamedTuple):
    """How much is in the outbox.

    Attributes:
        waiting: How many rows wait, counted up to 10,000.
        refused: How many were refused and are kept, counted up to 10,000.
        oldest_waiting_at: When the first row that waits was written, in microseconds, if it says so.
    """

    waiting: int
    refused: int
    oldest_waiting_at: int | None


def read_waiting(connection: Connection, after: int, limit: int) -> list[OutboxRow]:
    """Return what is to be applied, in order.

    Args:
        connection: Where to read.
        after: The number of the row to begin after.
        limit: Rows at most.
    """
    return [OutboxRow(*row) for row in fetch(connection, _WAITING, (after, limit))]


def find_current_runs(connection: Connection, workflow_ids: Sequence[str]) -> list[str]:
    """Return the current runs of those of the workflow ids (a few hundred at most) that have been started."""
    if not workflow_ids:
        return []
    text = f"SELECT current_run_id FROM workflow_instances WHERE workflow_id IN ({marks(workflow_ids)})"
    return [row[0] for row in fetch(connection, text, tuple(workflow_ids))]


def find_start(connection: Connection, workflow_id: str, state: str = "waiting") -> list[OutboxRow]:
    """Return the starts of a workflow id that wait, or that were refused, in order.

    Args:
        connection: Where to read.
        workflow_id: The workflow.
        state: ``waiting`` or ``refused``.
    """
    return [OutboxRow(*row) for row in fetch(connection, _OF_WORKFLOW, (workflow_id, state))]


def find_row(connection: Connection, outbox_id: int) -> OutboxRow | None:
    """Return a row, or ``None`` if there is none of this number."""
    rows = fetch(connection, select(tables.outbox, "outbox_id = ?"), (outbox_id,))
    return OutboxRow(*rows[0]) if rows else None


def read_page(connection: Connection, after: int, limit: int, state: str | None) -> list[OutboxRow]:
    """Return a page of rows, in order.

    Args:
        connection: Where to read.
        after: The number of the row to begin after.
        limit: Rows at most.
        state: Only ``waiting`` or ``refused`` ones.
    """
    text = _PAGE.format("" if state is None else " AND state = ?")
    values = (after, limit) if state is None else (after, state, limit)
    return [OutboxRow(*row) for row in fetch(connection, text, values)]


def read_load(connection: Connection) -> OutboxLoad:
    """Return how much is in the outbox."""
    text = "SELECT COUNT(*) FROM (SELECT 1 FROM outlast_outbox WHERE {} LIMIT ?) AS found"
    waiting, refused = (
        fetch(connection, text.format(condition), (MOST_COUNTED,))[0][0]
        for condition in ("state = 'waiting'", "refused_at IS NOT NULL")
    )
    text = "SELECT created_at FROM outlast_outbox WHERE state = 'waiting' ORDER BY outbox_id LIMIT 1"
    first = fetch(connection, text)
    return OutboxLoad(waiting, refused, first[0][0] if first else None)
