"""What the runtime and its clients ask of a worker in the same process.

The runtime knows the workers of its process only by this protocol, so it imports nothing of them. It is the one place
where a call goes upward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outlast_runs.queries import QueryRequest, QueryResult
from outlast_runs.start import Started, StartRun
from outlast_store.schema.rows import RunRow

StartCallback = Callable[[Started | None, BaseException | None], None]
"""Called on the loop with the outcome of a start: its value, or the error that prevented it."""


class LocalWorker(Protocol):
    """A running worker of this process and event loop."""

    @property
    def worker_id(self) -> str:
        """The id that the worker is registered under."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """The workflow types whose code the worker has."""
        ...

    def serves(self, workflow_type: str, task_queue: str) -> bool:
        """Return whether the worker now accepts runs of a type on a task queue."""
        ...

    def start(self, change: StartRun, callback: StartCallback) -> None:
        """Start a workflow, with its first workflow task in the same transaction.

        Args:
            change: The start; its run is owned by this worker.
            callback: Receives the outcome, on the loop.
        """
        ...

    async def answer_query(
        self, run_id: str, request: QueryRequest, run: RunRow | None = None
    ) -> QueryResult:
        """Answer a query of a run whose code the worker has.

        Args:
            run_id: The run.
            request: The query.
            run: The run's row, if it was read after the query was made.

        Raises:
            RunNotFoundError: There is no such run.
        """
        ...

    def refresh_cached(self, run_id: str) -> None:
        """Read a run again if it is cached: another process may have closed it."""
        ...
