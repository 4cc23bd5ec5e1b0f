"""What a client sees of many workflows, and does to many: listing, counting, bulk operations, workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from outlast.client.bulk import RUNS_PER_PAGE, Bulk
from outlast.client.workflows.handle import WorkflowHandle
from outlast.runtime.runtime import Runtime
from outlast.visibility.filters import Filters, run_filter
from outlast.visibility.listing import Listing
from outlast.visibility.upcoming import Upcoming, read_upcoming
from outlast.visibility.views import WorkerSummary
from outlast.visibility.workers import worker_summaries
from outlast_store.reads import run_listing


class Visibility:
    """A client's view of all workflows of its database.

    Args:
        runtime: The database.
        handle: Makes the handle of a run, from its workflow id and ``run_id``.
    """

    def __init__(self, runtime: Runtime, handle: Callable[..., WorkflowHandle[Any]]) -> None:
        self._runtime = runtime
        self._handle = handle

    def list(self, page_size: int, filters: Filters, order: str = "newest") -> Listing:
        """Return the runs that match; see :meth:`outlast.Client.list`."""
        return Listing(self._runtime, run_filter(**filters), page_size, order)

    async def count(self, filters: Filters) -> int:
        """Return how many runs match; see :meth:`outlast.Client.count`."""
        now = self._runtime.environment.clock.now()
        return await self._runtime.read_aside(run_listing.count, run_filter(**filters), now)

    def bulk(self, cursor: str | None, at_once: int, filters: Filters) -> Bulk:
        """Return what may be done to all workflows that match; see :meth:`outlast.Client.bulk`."""
        wanted = replace(run_filter(**filters), latest=True)
        if wanted.workflow_ids:
            # By ids the workflow is meant as it is now, not its earlier chains.
            wanted = replace(wanted, current=True)
        listing = Listing(self._runtime, wanted, RUNS_PER_PAGE)
        return Bulk(self._runtime, listing, self._handle, cursor, at_once, wanted.workflow_ids)

    async def upcoming(self, limit: int, **options: Any) -> Upcoming:
        """Return what fires when; see :meth:`outlast.Client.upcoming`."""
        return await read_upcoming(self._runtime, limit, **options)

    async def workers(self) -> Sequence[WorkerSummary]:
        """Return the registered workers; see :meth:`outlast.Client.workers`."""
        return await worker_summaries(self._runtime)
