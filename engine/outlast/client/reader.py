"""What a client is made of, and what it reads: handles, lists, descriptions and histories.

A client composes five parts: its starts, its view of many workflows, its histories, its queues, and activities that
others end. The
parts and the database drivers are loaded by the first connection, so a program that only declares workflows imports
this module cheaply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Never, Unpack

from outlast.client.connection import Connection
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.primitives.interceptor_chain import Chain

if TYPE_CHECKING:
    from outlast.client.histories import Histories
    from outlast.client.interceptors import Interceptor
    from outlast.client.visibility import Visibility
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.histories.importer import Imported, Progress
    from outlast.histories.source import Source
    from outlast.queues.queues import Queues
    from outlast.runtime.runtime import Runtime
    from outlast.visibility.filters import Filters
    from outlast.visibility.listing import Listing
    from outlast.visibility.upcoming import Upcoming
    from outlast.visibility.views import WorkerSummary, WorkflowDescription
    from outlast_workflow.options.validation import Seconds
    from outlast_workflow.primitives.enums import UpcomingKind


class Reader(Connection):
    """A connection through which workflows are found, described, exported and imported.

    Attributes:
        url: The database's URL, as it was given.
        interceptors: The client's interceptors, the outermost first; those of its workers come after them.
        queues: The queues: define, update, pause, resume, describe, list and delete them.
    """

    queues: Queues

    def __init__(
        self,
        url: str,
        runtime: Runtime,
        converter: DataConverter,
        limits: StructuralLimits,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        super().__init__(url, runtime, converter, limits, interceptors)
        # A connection needs the engine. A process that only declares workflows never loads it.
        from outlast.client.activities import Activities
        from outlast.client.context import ClientContext
        from outlast.client.interceptors import ClientInterceptor
        from outlast.client.workflows.starts import Starts
        from outlast.queues.queues import Queues

        chain = Chain(interceptors, ClientInterceptor)
        context = ClientContext(runtime, converter, limits, chain)
        self._starts = Starts(context)
        self._activities = Activities(context)
        self.queues = Queues(runtime)
        self._context = context

    # Most processes never look at many workflows. What describes them takes 8 MB, most of it pydantic's.

    @cached_property
    def _visibility(self) -> Visibility:
        from outlast.client.visibility import Visibility

        return Visibility(self.runtime, self.handle)

    @cached_property
    def _histories(self) -> Histories:
        from outlast.client.histories import Histories

        return Histories(self.runtime)

    def handle(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        result_type: Any = None,
        **unknown: Never,
    ) -> WorkflowHandle[Any]:
        """Return a handle to a workflow that was started earlier. Only using it tells whether the workflow exists.

        Args:
            workflow_id: The workflow.
            run_id: One of its runs, to which the handle is pinned; otherwise the handle follows the current run.
            result_type: How to read the result.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: An id cannot be one.
        """
        if unknown:
            refuse_unknown("handle", unknown, ("run_id", "result_type"))
        return self._starts.handle(workflow_id, run_id, result_type)

    def list(self, *, page_size: int = 100, order: str = "newest", **filters: Unpack[Filters]) -> Listing:
        """List runs, newest first: ``async for run in client.list(status="failed")``.

        ``await client.list().page()`` returns one page. A run is listed if it matches all filters that are given.
        Instants must be timezone-aware.

        Args:
            page_size: How many runs are read at a time, 1 to 1000.
            order: ``newest`` or ``oldest`` first, or by ``deadline``: open runs that have one, the nearest first.
            status: A :class:`RunStatus` or its value (``failed``), or several.
            workflow_type: The workflow's name, or several.
            task_queue: The task queue that the run is on.
            workflow_id: The workflow id; lists all of its runs.
            workflow_ids: Several of them, 1000 at most.
            id_prefix: How the workflow id begins.
            parent: The id of the workflow that started the run as its child.
            has_parent: Only children, or (``False``) only runs that are no child.
            owner: The id of the worker that holds the run in memory.
            build_id: The build that ran the run's latest workflow task.
            queue: The queue that the run was started in.
            partition_key: Its partition there.
            schedule: The id of the schedule that started the run's chain.
            forked_from: The id of the workflow that it is a fork of.
            was_forked_from: ``True`` for workflows that there are forks of, ``False`` for the others.
            run_ids: The runs with these ids, 1000 at most.
            where: Search attributes by name: a value, several of which one must match, or a :class:`Range`. A list
                matches if one of its items does.
            created_after: Created then or later.
            created_before: Created earlier.
            started_after: First started then or later.
            started_before: First started earlier.
            closed_after: Closed then or later.
            closed_before: Closed earlier.
            deadline_before: Open, and the nearer of the run's two deadlines is earlier.
            attention: Only runs that need attention; ``describe`` says why.
            overdue: Only runs with a deadline or a timer that has passed and was not enforced.
            open: Only open runs, or (``False``) only closed ones.
            latest: Only runs that no other run of their chain has followed: one for each chain.

        Raises:
            InvalidOptionError: A filter cannot be used; the message says what can.
        """
        return self._visibility.list(page_size, filters, order)

    async def count(self, **filters: Unpack[Filters]) -> int:
        """Return how many runs match; the filters and the errors are those of :meth:`list`."""
        return await self._visibility.count(filters)

    async def upcoming(
        self,
        limit: int = 50,
        *,
        within: Seconds | None = None,
        kinds: Iterable[UpcomingKind | str] | None = None,
        workflow_type: str | None = None,
        task_queue: str | None = None,
        cursor: str | None = None,
    ) -> Upcoming:
        """Return what fires when: the next deadlines, timers, alerts and schedules of the whole database.

        What is overdue comes first. Start delays, backoffs and what waits in queues are not among it.

        Args:
            limit: How much at most, 1 to 1000.
            within: Only what falls due within this time, in seconds; later pages keep the first one's end.
            kinds: Only these, for example ``["alert", "schedule"]``. By default all but ``heartbeat``: each activity
                that works moves its own all the time.
            workflow_type: Only workflows of this type, and schedules that start it.
            task_queue: Only what is about this task queue: an activity's, or else the workflow's.
            cursor: The ``cursor`` of the page before, with the same filters.

        Returns:
            A page. Where filters leave out so much that it ends early, ``stopped`` says so; its cursor leads on.

        Raises:
            InvalidOptionError: Something cannot be used; nothing was read.
        """
        return await self._visibility.upcoming(
            limit,
            within=within,
            kinds=kinds,
            workflow_type=workflow_type,
            task_queue=task_queue,
            cursor=cursor,
        )

    async def describe(self, workflow_id: str, run_id: str | None = None) -> WorkflowDescription:
        """Describe a workflow's current run, or one of its runs; see :meth:`WorkflowHandle.describe`.

        Args:
            workflow_id: The workflow.
            run_id: One of its runs.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            RunNotFoundError: It has no such run.
        """
        return await self.handle(workflow_id, run_id=run_id).describe()

    async def export_history(self, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """Export one run; the parameters and errors are those of :meth:`describe`.

        The result is one JSON document, whose format is in ``docs/replaying.md``.
        """
        return await self.handle(workflow_id, run_id=run_id).export_history()

    async def export_histories(
        self, *, chains: bool = False, page_size: int = 100, **filters: Unpack[Filters]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the documents of all runs that match, newest first.

        Args:
            chains: Whether to include the other runs of their chains. Each chain is complete, first run to last.
            page_size: How many runs are listed at a time.
            **filters: As for :meth:`list`, as are the errors.
        """
        found = self.list(page_size=page_size, **filters)
        async for document in self._histories.export(found, chains=chains):
            yield document

    async def import_histories(self, source: Source, *, progress: Progress | None = None) -> Imported:
        """Import closed runs of another database, to be viewed and replayed here. They never run again.

        Args:
            source: A file that ``outlast export`` wrote, or documents.
            progress: Called with the phase, ``check`` or ``import``, and the bytes or documents checked, or the runs.

        Raises:
            InvalidHistoryError: A document, a history or a chain is invalid, or a run is open; nothing was written.
            HistoryExistsError: The database has one of the workflow ids or runs already.
        """
        return await self._histories.import_from(source, progress)

    async def workers(self) -> Sequence[WorkerSummary]:
        """Return the registered workers, oldest first: what each serves and how much it holds."""
        return await self._visibility.workers()
