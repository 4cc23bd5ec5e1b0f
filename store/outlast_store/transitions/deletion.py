"""Deleting closed chains, whole but in small steps. Each step is a change of its own, so none blocks others for long.
Chains of a single run, as most are, share their steps.

A chain is deleted from its first run to its last. Of each run, what other tables hold comes first, some hundreds of
rows a step, then the run itself. The last run comes last. With it go the chain's requests and streams and, where the
workflow id has no other chain, the instance. A deletion that is interrupted between two steps leaves a chain whose last
run is still there, so the next attempt finds it and continues. Each step checks again, under locks, that the run is
closed, that the chain has not continued (a reset may continue a closed chain), and that no child waits for its parent
close policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Connection, Table

from outlast_store.database.sql_text import fetch, marks
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.run_listing import GRACE_US
from outlast_store.schema import tables
from outlast_store.schema.ids import first_id_at
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors.refusals import DeleteRefusedError
from outlast_workflow.options.alerts import DELIVERY

ROWS_IN_A_STEP: Final = 500

_OF_A_RUN: Final = (
    tables.history_events,
    tables.activity_attempts,
    tables.activity_executions,
    tables.workflow_failures,
    tables.timers,
    tables.search_attributes,
    tables.alerts,
)
_OF_A_CHAIN: Final = (tables.workflow_requests, tables.stream_items, tables.streams)
_FORGET_DELIVERY: Final = "UPDATE alerts SET deliveries = replace(deliveries, ?, 'null') WHERE alert_id IN"


class Chain(NamedTuple):
    """A closed chain.

    Attributes:
        last_run_id: Its last run.
        workflow_id: Its workflow.
        closed_at: When it was closed.
        is_alone: Whether it has no other run.
    """

    last_run_id: str
    workflow_id: str
    closed_at: int
    is_alone: bool


class DeleteChainStep(BaseChange):
    """Take the next step in deleting a run of a closed chain.

    Args:
        run_id: The run.
        last_run_id: The last run of its chain.
        workflow_id: Their workflow id.
        most: How many rows of a table are deleted in a step.
    """

    def __init__(self, run_id: str, last_run_id: str, workflow_id: str, most: int = ROWS_IN_A_STEP) -> None:
        self.run_id = run_id
        self.last_run_id = last_run_id
        self.workflow_id = workflow_id
        self.most = most
        self.runs = tuple({run_id, last_run_id})
        self.instances = (workflow_id,)

    def apply(self, batch: Batch) -> bool:
        """Delete some rows; return whether the run is gone.

        Raises:
            DeleteRefusedError: The chain is open or has continued, or its children await their close policy.
        """
        batch.require_locks()
        last = batch.run(self.last_run_id)
        run = batch.run(self.run_id)
        if last is None or run is None:
            return True
        if last.is_open or run.is_open or last.next_run_id is not None:
            raise DeleteRefusedError(
                f"workflow {self.workflow_id!r} is open: terminate it first, or wait for its end"
            )
        if last.cascade_at is not None or run.cascade_at is not None:
            raise DeleteRefusedError(
                f"children of workflow {self.workflow_id!r} await their close policy: "
                "delete it again when a watchdog has seen to them"
            )
        return _deleted(batch, [run], self.most, ended=run.run_id == last.run_id)


class DeleteLoneRuns(BaseChange):
    """Take the next step in deleting closed chains of one run each.

    What is no longer as it was read stays: a chain that has continued, or whose children await their close policy.

    Args:
        chains: The chains; each is alone.
        most: How many rows of a table are deleted in a step.
    """

    def __init__(self, chains: Sequence[Chain], most: int = ROWS_IN_A_STEP) -> None:
        self.most = most
        self.runs = tuple(chain.last_run_id for chain in chains)
        self.instances = tuple({chain.workflow_id for chain in chains})

    def apply(self, batch: Batch) -> int | None:
        """Delete some rows; return how many of the runs are still there, or ``None`` while another step is needed."""
        batch.require_locks()
        found = [run for run_id in self.runs if (run := batch.run(run_id)) is not None]
        going = [
            run for run in found if not run.is_open and run.next_run_id is None and run.cascade_at is None
        ]
        if going and not _deleted(batch, going, self.most, ended=True):
            return None
        return len(found) - len(going)


def _deleted(batch: Batch, runs: Sequence[RunRow], most: int, *, ended: bool) -> bool:
    """Delete some rows of runs, and the runs once nothing else of them is left; return whether they are gone.

    Args:
        batch: Where to delete.
        runs: The runs; their rows are locked.
        most: How many rows of a table may go.
        ended: Whether their chains end with them, so that what belongs to a chain goes too.
    """
    ids = tuple(run.run_id for run in runs)
    for run in runs:
        if ended and run.workflow_type == DELIVERY:
            _forget_delivery(batch, run)
    if not _emptied(batch, _OF_A_RUN, "run_id", ids, most):
        return False
    if ended:
        if not _emptied(batch, _OF_A_CHAIN, "first_run_id", tuple(run.first_run_id for run in runs), most):
            return False
        _leave(batch, runs)
    batch.execute(f"DELETE FROM workflow_runs WHERE run_id IN ({marks(ids)})", ids)
    return True


def _emptied(batch: Batch, held_in: Sequence[Table], column: str, ids: tuple[str, ...], most: int) -> bool:
    """Delete some rows of tables; return whether none is left.

    One question finds the tables that hold any; for most runs these are two.
    """
    of_them = f"{column} IN ({marks(ids)})"
    asked = ", ".join(f"EXISTS (SELECT 1 FROM {table.name} WHERE {of_them})" for table in held_in)
    [held] = batch.scan(f"SELECT {asked}", ids * len(held_in))
    return all(
        _deleted_all(batch, table, of_them, ids, most)
        for table, holds in zip(held_in, held, strict=True)
        if holds
    )


def _deleted_all(batch: Batch, table: Table, of_them: str, ids: tuple[str, ...], most: int) -> bool:
    """Delete some rows of a table; return whether none is left."""
    keys = ", ".join(str(key.name) for key in table.primary_key)
    some = f"SELECT {keys} FROM {table.name} WHERE {of_them} LIMIT ?"
    text = f"DELETE FROM {table.name} WHERE {of_them} AND ({keys}) IN ({some})"
    return batch.execute(text, (*ids, *ids, most)) < most


def _forget_delivery(batch: Batch, run: RunRow) -> None:
    """Let the alerts that it delivered name it no more; they are in its input, which goes with the first step."""
    found = batch.scan("SELECT payload FROM history_events WHERE run_id = ? AND seq = 1", (run.run_id,))
    for (payload,) in found:
        alert_ids = orjson.loads(payload)["input"][1]
        if alert_ids:
            forget = f"{_FORGET_DELIVERY} ({marks(alert_ids)})"
            batch.execute(forget, (f'"{run.workflow_id}"', *alert_ids))


def _leave(batch: Batch, runs: Sequence[RunRow]) -> None:
    """Delete instances with the last chains of their workflow ids; until then, point them to the newest chain left."""
    ids = [run.run_id for run in runs]
    instances = {
        run.workflow_id: instance
        for run in runs
        if (instance := batch.instance(run.workflow_id)) is not None and instance.current_run_id in ids
    }
    if not instances:
        return
    names = tuple(instances)
    text = (
        "SELECT workflow_id, run_id, run_number, workflow_type FROM workflow_runs "
        f"WHERE workflow_id IN ({marks(names)}) AND run_id NOT IN ({marks(ids)}) "
        "AND next_run_id IS NULL ORDER BY run_id"
    )
    for workflow_id, *newest in batch.scan(text, (*names, *ids)):
        instance = instances[workflow_id]
        instance.current_run_id, instance.run_count, instance.workflow_type = newest
    gone = tuple(name for name, instance in instances.items() if instance.current_run_id in ids)
    if gone:
        batch.execute(f"DELETE FROM workflow_instances WHERE workflow_id IN ({marks(gone)})", gone)
        # What waits is still to happen; what was refused holds the workflow's data.
        batch.execute(
            f"DELETE FROM outlast_outbox WHERE workflow_id IN ({marks(gone)}) AND state = 'refused'", gone
        )


def chain_backwards(connection: Connection, last_run_id: str) -> list[str]:
    """Return what is left of a chain, from its first run to its last."""
    text = (
        "WITH RECURSIVE chain(run_id, previous_run_id, depth) AS ("
        "SELECT run_id, previous_run_id, 0 FROM workflow_runs WHERE run_id = ? "
        "UNION ALL SELECT r.run_id, r.previous_run_id, c.depth + 1 FROM workflow_runs r "
        "JOIN chain c ON r.run_id = c.previous_run_id"
        ") SELECT run_id FROM chain ORDER BY depth DESC"
    )
    return [row[0] for row in fetch(connection, text, (last_run_id,))]


def last_runs(connection: Connection, workflow_id: str) -> list[tuple[str, bool]]:
    """Return the last run of each chain of a workflow, oldest first, and whether it is open."""
    text = "SELECT run_id, closed_at FROM workflow_runs WHERE workflow_id = ? AND next_run_id IS NULL ORDER BY run_id"
    return [(row[0], row[1] is None) for row in fetch(connection, text, (workflow_id,))]


def expired(
    connection: Connection,
    after: str,
    before: str | None,
    closed_before: int | None,
    limit: int,
    *,
    completed_type: str | None = None,
) -> list[Chain]:
    """Return closed chains by their last runs, oldest first.

    They are found by run id, which says when a run was created. No run is created after it was closed, so the walk ends
    at runs created too late, with a day's grace for clocks.

    Args:
        connection: Where to read.
        after: Only last runs with ids above.
        before: Only those with ids below.
        closed_before: Only those that were closed earlier.
        limit: How many.
        completed_type: Only those of this workflow type that completed.
    """
    conditions: list[tuple[str, Any]] = [("run_id > ?", after)]
    if closed_before is not None:
        conditions.append(("closed_at < ?", closed_before))
        created_later = first_id_at(closed_before + GRACE_US)
        before = min(before or created_later, created_later)
    if before is not None:
        conditions.append(("run_id < ?", before))
    if completed_type is not None:
        conditions.append(("status = 'completed' AND workflow_type = ?", completed_type))
    where = " AND ".join(text for text, _ in conditions)
    text = (
        "SELECT run_id, workflow_id, closed_at, previous_run_id IS NULL FROM workflow_runs "
        f"WHERE {where} AND next_run_id IS NULL AND closed_at IS NOT NULL AND cascade_at IS NULL "
        "ORDER BY run_id LIMIT ?"
    )
    return [Chain(*row) for row in fetch(connection, text, (*(value for _, value in conditions), limit))]


def newest_kept(connection: Connection, count: int) -> str | None:
    """Return the last run of the oldest of the newest ``count`` closed chains; ``None`` where there are fewer.

    Args:
        connection: Where to read.
        count: How many closed chains are kept.
    """
    text = (
        "SELECT run_id FROM workflow_runs WHERE next_run_id IS NULL AND closed_at IS NOT NULL "
        "ORDER BY run_id DESC LIMIT 1 OFFSET ?"
    )
    rows = fetch(connection, text, (count - 1,))
    return rows[0][0] if rows else None
