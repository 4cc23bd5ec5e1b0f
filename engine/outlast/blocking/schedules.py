"""Schedules of a blocking client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVarTuple, Unpack, overload

from outlast.blocking.handles import BlockingHandle
from outlast.blocking.thread import Caller
from outlast.client.schedules.definition import Schedule, ScheduleOptions
from outlast.client.schedules.handle import DEFAULT_BACKFILL, DEFAULT_NEXT, ScheduleHandle
from outlast.client.schedules.schedules import Schedules
from outlast.client.schedules.update import ScheduleUpdate
from outlast.client.schedules.views import BackfillResult, ScheduleDescription
from outlast_schedules.changes import AppliedSchedules
from outlast_schedules.specs.spec import Spec
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.validation import IfExists, Seconds
from outlast_workflow.primitives.enums import Overlap
from outlast_workflow.primitives.lazy_names import names_of_class

Ts = TypeVarTuple("Ts")


class BlockingSchedules:
    """The schedules of one database. See :class:`outlast.client.schedules.schedules.Schedules`."""

    def __init__(self, schedules: Schedules, caller: Caller) -> None:
        self._schedules = schedules
        self._caller = caller

    @overload
    def create(
        self,
        schedule_id: str,
        workflow: Callable[[*Ts], Coroutine[Any, Any, Any]],
        *args: *Ts,
        if_exists: IfExists = "error",
        **options: Unpack[ScheduleOptions],
    ) -> BlockingScheduleHandle: ...

    @overload
    def create(
        self,
        schedule_id: str,
        workflow: str,
        *args: Any,
        if_exists: IfExists = "error",
        **options: Unpack[ScheduleOptions],
    ) -> BlockingScheduleHandle: ...

    # mypy cannot match a TypeVarTuple with *args: Any, as in the client.
    def create(  # type: ignore[misc]
        self, schedule_id: str, workflow: Any, *args: Any, **options: Any
    ) -> BlockingScheduleHandle:
        """Create a schedule. Its slots count from now.

        Args:
            schedule_id: Its id.
            workflow: A workflow, or the name of its type.
            *args: The workflow's arguments.
            **options: As for :class:`outlast.Schedule`, and ``if_exists``.
        """
        made = self._caller.call(lambda: self._schedules.create(schedule_id, workflow, *args, **options))
        return BlockingScheduleHandle(made, self._caller)

    @explained("apply", "schedules.apply([Schedule(…)], prune=False)")
    def apply(self, schedules: Sequence[Schedule], *, prune: bool = False) -> AppliedSchedules:
        """Make the database's schedules as a set says, in one transaction.

        Args:
            schedules: The set, as code declares it.
            prune: Whether schedules that the set lacks are deleted.
        """
        return self._caller.call(lambda: self._schedules.apply(schedules, prune=prune))

    def handle(self, schedule_id: str) -> BlockingScheduleHandle:
        """Return a handle to a schedule. Only using it tells whether there is one."""
        return BlockingScheduleHandle(self._schedules.handle(schedule_id), self._caller)

    @explained("preview", "schedules.preview(Cron('0 2 * * *'), next=5)")
    def preview(
        self,
        spec: Spec | Sequence[Spec],
        *,
        exclude: Spec | Sequence[Spec] = (),
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        jitter: Seconds = 0,
        next: int = DEFAULT_NEXT,
    ) -> tuple[datetime, ...]:
        """Return the next slots that a schedule would have, without creating one.

        Args:
            spec: When it fires.
            exclude: What is left out.
            start_at: No slot is earlier.
            end_at: No slot is later.
            jitter: Checked, and not in the slots.
            next: How many slots.
        """
        return self._caller.call(
            lambda: self._schedules.preview(
                spec, exclude=exclude, start_at=start_at, end_at=end_at, jitter=jitter, next=next
            )
        )

    @explained("list", "schedules.list(paused=True)")
    def list(
        self,
        *,
        workflow_type: str | None = None,
        paused: bool | None = None,
        next: int = DEFAULT_NEXT,
        after: str = "",
    ) -> Iterator[ScheduleDescription]:
        """Yield the schedules, in the order of their ids.

        Args:
            workflow_type: Only those that start workflows of this type.
            paused: Only those that are paused, or that are not.
            next: How many slots to come each shows.
            after: Only those whose ids come after this one.
        """
        found = self._schedules.list(workflow_type=workflow_type, paused=paused, next=next, after=after)
        return self._caller.each(found)


class BlockingScheduleHandle:
    """One schedule. See :class:`outlast.ScheduleHandle`."""

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ScheduleHandle")

    def __init__(self, handle: ScheduleHandle, caller: Caller) -> None:
        self._handle = handle
        self._caller = caller

    @property
    def schedule_id(self) -> str:
        """The schedule's id."""
        return self._handle.schedule_id

    def __repr__(self) -> str:
        return repr(self._handle).replace("ScheduleHandle", "BlockingScheduleHandle", 1)

    @explained("describe", "handle.describe(next=5)")
    def describe(self, *, next: int = DEFAULT_NEXT) -> ScheduleDescription:
        """Describe the schedule, with as many slots to come as ``next`` says."""
        return self._caller.call(lambda: self._handle.describe(next=next))

    @explained("pause", "handle.pause('why')")
    def pause(self, note: str | None = None) -> None:
        """Pause the schedule, with a note that says why."""
        self._caller.call(lambda: self._handle.pause(note))

    @explained("resume", "handle.resume()")
    def resume(self, note: str | None = None) -> None:
        """Let the schedule go on from now."""
        self._caller.call(lambda: self._handle.resume(note))

    @explained("update", "handle.update(spec=Cron('0 3 * * *')), by names")
    def update(self, **fields: Unpack[ScheduleUpdate]) -> None:
        """Change the schedule; what is not given stays."""
        self._caller.call(lambda: self._handle.update(**fields))

    def delete(self) -> None:
        """Delete the schedule. The workflows that it has started stay."""
        self._caller.call(self._handle.delete)

    @explained("trigger", "handle.trigger(request_id='once')")
    def trigger(
        self,
        *,
        overlap: Literal["skip", "terminate_other", "allow_all"] | Overlap = Overlap.ALLOW_ALL,
        request_id: str | None = None,
    ) -> BlockingHandle[Any]:
        """Start what the schedule starts, now.

        Args:
            overlap: What happens to the workflow started last if it is open.
            request_id: A key of your own. Triggers with the same key start one workflow.
        """
        started = self._caller.call(lambda: self._handle.trigger(overlap=overlap, request_id=request_id))
        return BlockingHandle(started, self._caller)

    @explained("backfill", "handle.backfill(start_time, end_time)")
    def backfill(
        self, start_time: datetime, end_time: datetime, *, limit: int | None = DEFAULT_BACKFILL
    ) -> BackfillResult:
        """Start the slots of a time that has passed.

        Args:
            start_time: The first slot is at this instant or later (aware).
            end_time: The last slot is before this instant (aware).
            limit: How many slots there may be; ``None``: any number.
        """
        return self._caller.call(lambda: self._handle.backfill(start_time, end_time, limit=limit))
