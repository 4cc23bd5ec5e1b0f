"""The runs of a chain and the chains of its children, closed ones included: what is deleted together with a workflow.

No index finds the closed children of a run. Its history names each child that it called, and the child's runs name
their parent. Children that another chain has taken over since are left out, as are those of a run that this one was
copied from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks
from outlast_store.transitions.deletion import chain_backwards

MOST_MARKS = 500
"""How many ids one statement names."""


class ChildChain(NamedTuple):
    """A chain that a run started as its child, by its last run."""

    last_run_id: str
    workflow_id: str


@dataclass(frozen=True, slots=True)
class StoredFamily:
    """A chain, and the chains of its children.

    Attributes:
        is_open: Whether the chain is open.
        due: Its runs whose children await their close policy.
        children: The chains of its children, each once.
    """

    is_open: bool
    due: tuple[str, ...]
    children: tuple[ChildChain, ...]


def read_family(connection: Connection, last_run_id: str) -> StoredFamily:
    """Return the state of a chain and its children.

    Args:
        connection: Where to read.
        last_run_id: The last run of the chain.
    """
    runs = chain_backwards(connection, last_run_id)
    is_open = False
    due: list[str] = []
    for part in _parts(runs):
        text = f"SELECT run_id, closed_at, cascade_at FROM workflow_runs WHERE run_id IN ({marks(part)})"
        for run_id, closed_at, cascade_at in fetch(connection, text, tuple(part)):
            is_open = is_open or closed_at is None
            if closed_at is not None and cascade_at is not None:
                due.append(run_id)
    called: dict[str, None] = {}
    for run_id in runs:
        called |= dict.fromkeys(_called(connection, run_id))
    children: dict[ChildChain, None] = {}
    chain = frozenset(runs)
    for workflow_id in called:
        text = "SELECT run_id, parent_run_id FROM workflow_runs WHERE workflow_id = ? AND next_run_id IS NULL"
        for run_id, parent_run_id in fetch(connection, text, (workflow_id,)):
            if parent_run_id in chain:
                children[ChildChain(run_id, workflow_id)] = None
    return StoredFamily(is_open, tuple(due), tuple(children))


def _called(connection: Connection, run_id: str) -> list[str]:
    """Return the workflow ids of the children that a run has called."""
    sqlite = connection.dialect.name == "sqlite"
    # The payload also holds the child's input, which nobody needs here.
    workflow_id = "json_extract(payload, '$.workflow_id')" if sqlite else "payload::json ->> 'workflow_id'"
    text = f"SELECT {workflow_id} FROM history_events WHERE run_id = ? AND type = 'ChildWorkflowScheduled'"
    return [row[0] for row in fetch(connection, text, (run_id,))]


def _parts(run_ids: list[str]) -> list[list[str]]:
    return [run_ids[start : start + MOST_MARKS] for start in range(0, len(run_ids), MOST_MARKS)]
