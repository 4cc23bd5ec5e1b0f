"""Operations of a blocking client on many workflows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Unpack

from outlast.blocking.thread import Caller
from outlast.client.bulk import Bulk, BulkOutcome
from outlast.histories.fork import ForkEachOptions
from outlast.histories.reset import ResetOptions, ResumeOptions
from outlast_workflow.options.validation import Seconds


class BlockingBulk:
    """Operations on all workflows that match: each method is an iterator of outcomes.

    See :class:`outlast.client.bulk.Bulk`.
    """

    def __init__(self, bulk: Bulk, caller: Caller) -> None:
        self._bulk = bulk
        self._caller = caller

    def cancel(self, reason: str | None = None) -> Iterator[BulkOutcome]:
        """Ask each workflow to cancel; its code decides."""
        return self._caller.each(self._bulk.cancel(reason))

    def terminate(self, reason: str | None = None) -> Iterator[BulkOutcome]:
        """End each workflow at once, without running its code."""
        return self._caller.each(self._bulk.terminate(reason))

    def signal(self, signal: Any, *args: Any, request_id: str | None = None) -> Iterator[BulkOutcome]:
        """Send each workflow a signal.

        Args:
            signal: A handler, or its name.
            *args: Its arguments.
            request_id: A key with which it arrives once, even if the walk is repeated.
        """
        return self._caller.each(self._bulk.signal(signal, *args, request_id=request_id))

    def set_start_delay(
        self, delay: Seconds | None = None, *, until: datetime | None = None
    ) -> Iterator[BulkOutcome]:
        """Move the start of each workflow that has not begun.

        Args:
            delay: Seconds from now, or a timedelta; or
            until: when they may begin, a datetime with a time zone.
        """
        return self._caller.each(self._bulk.set_start_delay(delay, until=until))

    def reset(
        self, to: str | int = "last-workflow-task", **options: Unpack[ResetOptions]
    ) -> Iterator[BulkOutcome]:
        """Start a new run of each workflow from a point of its history.

        Args:
            to: The point: the number of an event, or one of the named points of :meth:`outlast.WorkflowHandle.reset`.
            **options: As for :meth:`outlast.WorkflowHandle.reset`.
        """
        return self._caller.each(self._bulk.reset(to, **options))

    def resume(self, **options: Unpack[ResumeOptions]) -> Iterator[BulkOutcome]:
        """Take up each workflow that ended badly. The options are those of :meth:`outlast.WorkflowHandle.resume`."""
        return self._caller.each(self._bulk.resume(**options))

    def fork(
        self, to: str | int = "last-workflow-task", **options: Unpack[ForkEachOptions]
    ) -> Iterator[BulkOutcome]:
        """Start a fork of each workflow, with a new id that its outcome names.

        Args:
            to: The last event to keep, as for :meth:`outlast.WorkflowHandle.fork`.
            **options: As there, but for ``id`` and ``duplicate_policy``.
        """
        return self._caller.each(self._bulk.fork(to, **options))

    def delete(
        self, *, terminate: bool = False, children: bool = False, reason: str | None = None
    ) -> Iterator[BulkOutcome]:
        """Delete each chain whose last run matches and is closed.

        Args:
            terminate: Whether open ones are terminated first; with ``children``, open descendants as well.
            children: Whether the chains that they have started as children are deleted too, and theirs.
            reason: Why they are terminated.
        """
        return self._caller.each(self._bulk.delete(terminate=terminate, children=children, reason=reason))
