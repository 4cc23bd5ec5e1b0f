"""The evidence of the import, read back from both databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast import Client, HistoryEvent, WorkflowDescription
from outlast.demo.importing import ImportSummary
from outlast.demo.stage import Stage
from outlast.demo.warehouse import Execution, Totals, Warehouse
from outlast.testing.invariants.checker import check_database

MOST_RUNS = 1_000


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """One run of the chain, from ``describe`` and ``history``."""

    description: WorkflowDescription
    events: Sequence[HistoryEvent]

    @property
    def started(self) -> dict[str, Any]:
        """The payload of its ``WorkflowStarted``."""
        return self.events[0].payload

    def of_type(self, *types: str) -> list[HistoryEvent]:
        """Return its events of some types."""
        return [event for event in self.events if event.type in types]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is left of the import.

    Attributes:
        stage: What was to be imported, and when the first worker was killed.
        summary: What the workflow returned.
        runs: Its runs, in order.
        totals: What is in the warehouse.
        rejected: The rows that were not valid orders, and why.
        ledger: One entry for each time a chunk was started.
        written_again: The rows that were written more than once.
        violations: What the invariant checker found; ``None`` if the database holds too many other workflows.
    """

    stage: Stage
    summary: ImportSummary
    runs: Sequence[RunEvidence]
    totals: Totals
    rejected: dict[int, str]
    ledger: Sequence[Execution]
    written_again: Sequence[int]
    violations: Sequence[str] | None


async def collect(client: Client, stage: Stage) -> Evidence:
    """Read everything back.

    Raises:
        OutlastError: The workflow ended without a result, or cannot be read.
    """
    handle = client.handle(stage.workflow_id, run_id=stage.run_id, result_type=ImportSummary)
    summary: ImportSummary = await handle.result()
    with Warehouse(stage.warehouse) as warehouse:
        return Evidence(
            stage=stage,
            summary=summary,
            runs=await _runs(client, stage),
            totals=warehouse.totals(),
            rejected=warehouse.rejected(),
            ledger=warehouse.ledger(),
            written_again=warehouse.written_again(),
            violations=await _violations(client),
        )


async def _runs(client: Client, stage: Stage) -> list[RunEvidence]:
    runs: list[RunEvidence] = []
    run_id: str | None = stage.run_id
    while run_id is not None:
        description = await client.describe(stage.workflow_id, run_id)
        handle = client.handle(stage.workflow_id, run_id=run_id)
        runs.append(RunEvidence(description, [event async for event in handle.history()]))
        run_id = description.run.next_run_id
    return runs


async def _violations(client: Client) -> list[str] | None:
    """Check the invariants, unless the database holds many other workflows: the checker reads all of it."""
    if await client.count() > MOST_RUNS:
        return None
    return await client.runtime.read(check_database)
