"""One operation on many workflows: those that match filters, page by page, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Unpack

from outlast.client.workflows.control import start_of
from outlast.client.workflows.handle import WorkflowHandle
from outlast.histories.deletion import delete_chain, delete_workflow
from outlast.histories.fork import ForkEachOptions
from outlast.runtime.runtime import Runtime
from outlast.visibility.listing import Listing
from outlast.visibility.views import RunSummary
from outlast_store.reads.run_listing import unknown_ids
from outlast_workflow.errors import (
    InvalidOptionError,
    OutlastError,
    StoreError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import Seconds, integer, validate_reason
from outlast_workflow.primitives.enums import KEEP, Keep

RUNS_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """What became of one workflow.

    Attributes:
        workflow_id: The workflow id.
        run_id: The run that matched; ``None`` where no workflow has an id that was named.
        error: Why the operation failed, for example because the workflow has ended in the meantime; else ``None``.
        cursor: Where to continue if the walk is interrupted now. Nothing before it is repeated.
        fork_id: The workflow id of the fork that was made, if it was forked.
    """

    workflow_id: str
    run_id: str | None
    error: OutlastError | None
    cursor: str | None
    fork_id: str | None = None

    @property
    def done(self) -> bool:
        """Whether the operation succeeded."""
        return self.error is None


class Bulk:
    """Operations on all workflows that match: each method is an async iterator of outcomes, newest run first.

    Each workflow is handled once, if the last run of its chain matches. Where ``workflow_ids`` are given, that is the
    current run of each, and an id that no workflow has gets an outcome with a ``WorkflowNotFoundError``, first of all.
    An operation that fails becomes an outcome with its error, and the walk continues. A database that does not answer
    ends the walk. If you stop iterating, the workflows in progress are still finished.

    Args:
        runtime: The database.
        listing: The runs that match, only the last one of each chain.
        handle: Makes the handle of a run, from its workflow id and ``run_id``.
        cursor: Where to continue an earlier walk.
        at_once: How many workflows are handled at a time, 1 to 1000.
        workflow_ids: The ids that were named, if any.
    """

    def __init__(
        self,
        runtime: Runtime,
        listing: Listing,
        handle: Callable[..., WorkflowHandle[Any]],
        cursor: str | None,
        at_once: int,
        workflow_ids: Sequence[str] = (),
    ) -> None:
        self._runtime = runtime
        self._listing = listing
        self._handle = handle
        self._cursor = cursor
        self._workflow_ids = workflow_ids
        self._at_once = integer("at once", at_once, 1, 1000)

    def cancel(self, reason: str | None = None) -> AsyncIterator[BulkOutcome]:
        """Ask each workflow to cancel; its code decides."""
        why = validate_reason(reason)
        return self._each(lambda run: self._of(run).cancel(why))

    def terminate(self, reason: str | None = None) -> AsyncIterator[BulkOutcome]:
        """End each workflow at once, without running its code."""
        why = validate_reason(reason)
        return self._each(lambda run: self._of(run).terminate(why))

    def signal(self, signal: Any, *args: Any, request_id: str | None = None) -> AsyncIterator[BulkOutcome]:
        """Send each workflow a signal.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: The signal's arguments.
            request_id: A key of your own. With it the signal arrives once, even if the walk is repeated.
        """
        return self._each(lambda run: self._of(run).signal(signal, *args, request_id=request_id))

    def set_start_delay(
        self, delay: Seconds | None = None, *, until: datetime | None = None
    ) -> AsyncIterator[BulkOutcome]:
        """Move the start of each workflow that has not begun; see :meth:`WorkflowHandle.set_start_delay`.

        Args:
            delay: Seconds from now, or a timedelta; or
            until: when they may begin, a datetime with a time zone.
        """
        start_of(delay, until)
        return self._each(lambda run: self._of(run).set_start_delay(delay, until=until))

    def reset(
        self,
        to: str | int = "last-workflow-task",
        *,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        signals: bool = True,
    ) -> AsyncIterator[BulkOutcome]:
        """Start a new run of each workflow from a point of its history; see :meth:`WorkflowHandle.reset`."""
        return self._each(
            lambda run: self._of(run).reset(
                to, reason=reason, execution_timeout=execution_timeout, signals=signals
            )
        )

    def resume(
        self,
        *,
        reason: str | None = None,
        execution_timeout: Seconds | None = None,
        queue: str | Keep | None = KEEP,
        signals: bool = True,
    ) -> AsyncIterator[BulkOutcome]:
        """Take up each workflow that ended badly; see :meth:`WorkflowHandle.resume`. Others become outcomes."""
        return self._each(
            lambda run: self._of(run).resume(
                reason=reason, execution_timeout=execution_timeout, queue=queue, signals=signals
            )
        )

    def fork(
        self, to: str | int = "last-workflow-task", **options: Unpack[ForkEachOptions]
    ) -> AsyncIterator[BulkOutcome]:
        """Start a fork of each workflow; see :meth:`WorkflowHandle.fork`. Each has a new id, which its outcome names.

        The walk does not come to the forks that it makes. A walk that is repeated forks again: continue an interrupted
        one at its cursor.

        Args:
            to: The last event to keep, as for :meth:`WorkflowHandle.fork`.
            **options: As there, but for ``id`` and ``duplicate_policy``.
        """
        if "id" in options:
            raise InvalidOptionError(
                "a bulk fork takes no id: each fork has a new one, which its outcome names", field="id"
            )
        known = ("to", *sorted(ForkEachOptions.__optional_keys__))
        unknown = {name: value for name, value in options.items() if name not in known}
        if unknown:
            refuse_unknown("fork", unknown, known)

        async def fork(run: RunSummary) -> str:
            return (await self._of(run).fork(to, **options)).workflow_id

        return self._each(fork, fork=True)

    def delete(
        self, *, terminate: bool = False, children: bool = False, reason: str | None = None
    ) -> AsyncIterator[BulkOutcome]:
        """Delete each chain whose last run matches and is closed; see :meth:`outlast.Client.delete`.

        Of workflows that are named by their ids, all chains are deleted.

        Args:
            terminate: Whether open ones are terminated first; with ``children``, open descendants as well.
            children: Whether the chains that they have started as children are deleted too, and theirs.
            reason: Why they are terminated.
        """
        why = validate_reason(reason)

        async def delete(run: RunSummary) -> None:
            if terminate:
                with suppress(WorkflowClosedError):
                    await self._of(run).terminate(why)
            if self._workflow_ids:
                await delete_workflow(self._runtime, run.workflow_id, terminate=terminate, children=children)
            else:
                await delete_chain(
                    self._runtime, run.run_id, run.workflow_id, terminate=terminate, children=children
                )

        return self._each(delete)

    def _of(self, run: RunSummary) -> WorkflowHandle[Any]:
        return self._handle(run.workflow_id, run_id=run.run_id)

    async def _each(
        self, act: Callable[[RunSummary], Awaitable[Any]], *, fork: bool = False
    ) -> AsyncIterator[BulkOutcome]:
        cursor = self._cursor
        if self._workflow_ids and cursor is None:
            # Before anything is done: a workflow that this walk deletes was known.
            for unknown in await self._runtime.read_aside(unknown_ids, self._workflow_ids):
                yield BulkOutcome(unknown, None, WorkflowNotFoundError(unknown), None)
        while True:
            page = await self._listing.page(cursor)
            for start in range(0, len(page.runs), self._at_once):
                some = page.runs[start : start + self._at_once]
                if start + self._at_once >= len(page.runs):
                    cursor = page.cursor or cursor  # what is yielded below is done, with it the whole page
                for run, made, error in await asyncio.gather(*(_tried(act, run) for run in some)):
                    yield BulkOutcome(run.workflow_id, run.run_id, error, cursor, made if fork else None)
            if page.cursor is None:
                return


async def _tried(
    act: Callable[[RunSummary], Awaitable[Any]], run: RunSummary
) -> tuple[RunSummary, Any, OutlastError | None]:
    try:
        return run, await act(run), None
    except StoreError:
        raise
    except OutlastError as error:
        return run, None, error
