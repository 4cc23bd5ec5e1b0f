"""Observing the import while it runs, through ``describe``, ``history`` and the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outlast import Client, HistoryEvent, WorkflowDescription
from outlast.demo.stage import Stage
from outlast.demo.warehouse import Execution, Warehouse
from outlast.visibility.views import PendingActivity, WorkerSummary


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """An event, and the number of its run in the chain."""

    run_number: int
    event: HistoryEvent


@dataclass(frozen=True, slots=True)
class Scene:
    """The state of the import at one moment.

    Attributes:
        description: The description of the workflow.
        workers: The registered workers of the demonstration's task queue.
        ledger: The warehouse's ledger.
        news: The events since the scene before.
    """

    description: WorkflowDescription
    workers: Sequence[WorkerSummary]
    ledger: Sequence[Execution]
    news: Sequence[ChainEvent]

    @property
    def activity(self) -> PendingActivity | None:
        """The open activity; the import has one at a time."""
        return next(iter(self.description.pending_activities), None)

    @property
    def current(self) -> Execution | None:
        """The entry of the chunk that is being loaded, or was when its worker died."""
        latest = self.ledger[-1] if self.ledger else None
        return latest if latest is not None and latest.finished_at is None else None

    @property
    def chunks_done(self) -> int:
        """The number of loaded chunks."""
        return sum(1 for line in self.ledger if line.finished_at is not None)

    @property
    def rows_reached(self) -> int:
        """The last row of the file that is in the warehouse."""
        return max((line.reached_row for line in self.ledger), default=0)


class Observer:
    """Follows a workflow through its chain of runs."""

    def __init__(self, client: Client, stage: Stage, warehouse: Warehouse) -> None:
        self._client = client
        self._stage = stage
        self._warehouse = warehouse
        self._run_id = stage.run_id
        self._run_number = 1
        self._seq = 0

    async def observe(self) -> Scene:
        """Return the state of the import."""
        news = await self._news()
        description = await self._client.describe(self._stage.workflow_id)
        workers = [
            worker for worker in await self._client.workers() if self._stage.task_queue in worker.task_queues
        ]
        return Scene(description, workers, self._warehouse.ledger(), news)

    async def _news(self) -> list[ChainEvent]:
        news: list[ChainEvent] = []
        following: str | None = self._run_id
        while following is not None:
            if following != self._run_id:
                self._run_id, self._run_number, self._seq = following, self._run_number + 1, 0
            following = None
            handle = self._client.handle(self._stage.workflow_id, run_id=self._run_id)
            async for event in handle.history(after_seq=self._seq):
                news.append(ChainEvent(self._run_number, event))
                self._seq = event.seq
                following = event.payload.get("next_run_id")
        return news
