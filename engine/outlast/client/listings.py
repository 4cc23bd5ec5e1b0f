"""What a client sees of many workflows at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack

import orjson

from outlast.histories.exporter import export_runs
from outlast.histories.importer import Imported, Progress, import_histories
from outlast.histories.source import Source
from outlast.runtime.runtime import Runtime
from outlast.visibility.describe import workers
from outlast.visibility.listing import Filters, Listing, run_filter
from outlast.visibility.views import WorkerSummary
from outlast_store.reads import run_listing


class Surveys:
    """The part of a client that is about all workflows of its database."""

    runtime: Runtime

    def list(self, *, page_size: int = 100, **filters: Unpack[Filters]) -> Listing:
        """Runs, newest first: ``async for run in client.list(status="failed")``, or ``await client.list().page()``.

        All filters that are given must match.

        Args:
            page_size: How many runs are read at a time, 1 to 1000.
            status: A status or several: pending, running, completed, failed, timed_out, cancelled, terminated,
                continued_as_new.
            workflow_type: The workflow's name.
            task_queue: Its task queue.
            workflow_id: Its id: all runs of it.
            id_prefix: How its id begins.
            parent: The id of the workflow that started it as its child.
            where: Search attributes by name: a value, several of which one is enough, or a :class:`Range`; of a list,
                one item must be so.
            created_after: Created then or later; aware.
            created_before: Created earlier.
            started_after: First started then or later.
            started_before: First started earlier.
            closed_after: Closed then or later.
            closed_before: Closed earlier.
            deadline_before: Open, and the nearer of its two deadlines is earlier.
            attention: Only runs that need a person; ``describe`` says why.
            overdue: Only runs of which a deadline or a timer has passed and nobody enforced it.
            open: Only open runs, or (``False``) only closed ones.

        Raises:
            InvalidOptionError: A filter that can't be; the message says what can.
        """
        return Listing(self.runtime, run_filter(**filters), page_size)

    async def count(self, **filters: Unpack[Filters]) -> int:
        """How many runs match; the filters are those of :meth:`list`.

        Raises:
            InvalidOptionError: A filter that can't be; the message says what can.
        """
        return await self.runtime.read_aside(
            run_listing.count, run_filter(**filters), self.runtime.environment.clock.now()
        )

    # --- histories --------------------------------------------------------------------------------------------------

    async def export_histories(
        self, *, chains: bool = False, page_size: int = 100, **filters: Unpack[Filters]
    ) -> AsyncIterator[dict[str, Any]]:
        """The documents of all runs that match, newest first.

        Args:
            chains: Also the other runs of their chains, each chain whole and first to last.
            page_size: How many runs are listed at a time.
            **filters: As for :meth:`list`.
        """
        found = self.list(page_size=page_size, **filters)
        async for text in export_runs(self.runtime, found, chains=chains):
            yield orjson.loads(text)

    async def import_histories(self, source: Source, *, progress: Progress | None = None) -> Imported:
        """Bring closed runs of another database into this one, to be looked at and replayed; they never run again.

        Args:
            source: A file that ``outlast export`` wrote, or documents.
            progress: Told what is done, ``check`` or ``import``, and how far it is.

        Raises:
            InvalidHistoryError: A document, a history or a chain that can't be, or an open run; nothing was written.
            HistoryExistsError: The database has one of the workflow ids or runs already.
        """
        return await import_histories(self.runtime, source, progress)

    async def workers(self) -> Sequence[WorkerSummary]:
        """The registered workers, oldest first: what each serves and how much it holds."""
        return await workers(self.runtime)
