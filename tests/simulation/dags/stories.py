"""DAGs among the programs of a simulation: started, told, decided and cancelled by a client, and judged by the oracle.

One seed in so many has them, drawn from a source of its own, so that the other seeds are as they were.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection
from tests.dag.recorded_dags import judge_history
from tests.simulation.dags import drawn
from tests.simulation.dags.drawn import DrawnDag, definition_of_dag, draw_dag

from outlast import Client, StartOptions
from outlast.errors import (
    DagApprovalError,
    NoWorkerError,
    RequestTimeoutError,
    UpdateFailedError,
    UpdateRejectedError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_dag import approve
from outlast_store.database.sql_text import fetch
from outlast_store.reads.histories import read_history
from outlast_workflow.errors import JournalClosedError, StoreError

AWAY = (StoreError, RequestTimeoutError, NoWorkerError)


class Dags:
    """The DAGs of a simulation.

    Args:
        seed: The seed.
        dags: The DAGs; by default they are drawn.
    """

    def __init__(self, seed: int, dags: Sequence[DrawnDag] | None = None) -> None:
        rng = self.rng = random.Random(f"dags of {seed}")
        if dags is None:
            count = rng.choice((2, 3, 4)) if seed % 11 == 3 else 0
            dags = [draw_dag(rng, f"dag-{seed}-{number}", patient=False) for number in range(count)]
        self.dags = list(dags)
        self.told: set[tuple[str, Any]] = set()
        self.closed: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether everything has been said to them."""
        return len(self.closed) == len(self.dags)

    def workflows(self, rng: random.Random) -> list[Any]:
        """Return what a worker serves: of each DAG one of its versions.

        Args:
            rng: Chooses among the versions.
        """
        if not self.dags:
            return []
        versions = [dag.spec if rng.random() < 0.5 else dag.later for dag in self.dags]
        return [*drawn.WORKFLOWS, *map(definition_of_dag, versions)]

    @property
    def activities(self) -> list[Any]:
        return drawn.ACTIVITIES if self.dags else []

    # --- what is done with them ---------------------------------------------------------------------------------------

    async def run(self, client: Client) -> None:
        """Start them, and tell them what there is to tell until they have ended."""
        while not self.done:
            for dag in self.dags:
                if dag.id in self.closed:
                    continue
                try:
                    await self._go_on(client, dag)
                except (WorkflowClosedError, WorkflowNotFoundError):
                    self.closed.add(dag.id)
                except JournalClosedError:
                    raise
                except AWAY:
                    pass
            await asyncio.sleep(0.3)

    async def _go_on(self, client: Client, dag: DrawnDag) -> None:
        await self._once((dag.id, "start"), self._start, client, dag)
        for place, (name, value) in enumerate(dag.signals):
            key = f"{dag.id} {place}"
            await self._once((dag.id, key), client.signal, dag.id, name, value, request_id=key)
        if dag.cancelled_after is not None and (dag.id, "cancel") not in self.told:
            await asyncio.sleep(dag.cancelled_after)
            await self._once((dag.id, "cancel"), client.handle(dag.id).cancel, "simulated")
        undecided = 0
        for node, approved in dag.decisions.items():
            if (dag.id, node) in self.told:
                continue
            try:
                decision: Any = "approve" if approved else "reject"
                await approve(client.handle(dag.id), node, decision=decision, timeout=3)
            except DagApprovalError as error:
                # It may have been decided by whoever did not learn of it.
                undecided += not error.closed
                if not error.closed:
                    continue
            except (UpdateRejectedError, UpdateFailedError):
                undecided += 1
                continue
            self.told.add((dag.id, node))
        if not undecided or (await client.describe(dag.id)).run.closed_at is not None:
            self.closed.add(dag.id)

    async def _once(self, key: tuple[str, Any], act: Any, *given: Any, **named: Any) -> None:
        if key not in self.told:
            await act(*given, **named)
            self.told.add(key)

    async def _start(self, client: Client, dag: DrawnDag) -> None:
        with suppress(WorkflowAlreadyStartedError):
            await client.start(
                dag.spec.name,
                *dag.arguments,
                id=dag.id,
                task_queue="main",
                options=StartOptions(duplicate_policy="reject_duplicate"),
            )

    # --- when all is over ---------------------------------------------------------------------------------------------

    def check(self, connection: Connection) -> Iterator[str]:
        """Yield what is wrong with the runs of DAGs.

        Args:
            connection: To the database.
        """
        types = {"outlast.dag", *(dag.spec.name for dag in self.dags)}
        text = "SELECT run_id, workflow_type, closed_at FROM workflow_runs ORDER BY run_id"
        for run_id, workflow_type, closed_at in fetch(connection, text):
            if workflow_type not in types:
                continue
            if closed_at is None:
                yield f"run {run_id} of {workflow_type} never ends"
                continue
            yield from judge_history(run_id, workflow_type, read_history(connection, run_id))
