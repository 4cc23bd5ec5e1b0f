"""The schedules of a client's database: ``client.schedules``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypeVarTuple, Unpack, overload

from sqlalchemy import Connection

from outlast.client.context import ClientContext
from outlast.client.schedules.definition import Schedule, ScheduleOptions, checked_flag
from outlast.client.schedules.handle import DEFAULT_NEXT, MOST_NEXT, ScheduleHandle, check_fire
from outlast.client.schedules.views import ScheduleDescription, description
from outlast_schedules.action import validate_schedule_id
from outlast_schedules.changes import AppliedSchedules, ApplySchedules, CreateSchedule
from outlast_schedules.specs.calendar import Calendar
from outlast_schedules.specs.spec import Spec
from outlast_store.reads.schedules import read_schedules
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.validation import (
    IfExists,
    Seconds,
    check_if_exists,
    integer,
    validate_after,
    validate_list,
    validate_name,
)
from outlast_workflow.primitives.times import from_datetime, iso, to_datetime

_PAGE: Final = 100
MOST_APPLIED: Final = 1_000

Ts = TypeVarTuple("Ts")


class Schedules:
    """The schedules of one database.

    Args:
        context: The client's database, converter and limits.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    @overload
    async def create(
        self,
        schedule_id: str,
        workflow: Callable[[*Ts], Coroutine[Any, Any, Any]],
        *args: *Ts,
        if_exists: IfExists = "error",
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleHandle: ...

    @overload
    async def create(
        self,
        schedule_id: str,
        workflow: str,
        *args: Any,
        if_exists: IfExists = "error",
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleHandle: ...

    # mypy cannot match a TypeVarTuple with *args: Any, as in the client.
    async def create(  # type: ignore[misc]
        self, schedule_id: str, workflow: Any, *args: Any, if_exists: IfExists = "error", **options: Any
    ) -> ScheduleHandle:
        """Create a schedule. Its slots count from now.

        Args:
            schedule_id: Its id.
            workflow: ``Report.run``, a workflow function, or a workflow type's name.
            *args: The workflow's arguments.
            if_exists: What to do if the id is taken: ``error``, ``keep`` it as it is, or ``update`` it to this one.
            **options: As for :class:`outlast.Schedule`.

        Raises:
            InvalidOptionError: A value is not valid, or the schedule would never fire; nothing was written.
            PayloadEncodeError: An argument has no JSON form; nothing was written.
            ScheduleExistsError: The id is taken.
        """
        check_if_exists(if_exists)
        schedule: Schedule = Schedule(schedule_id, workflow, *args, **options)
        row = schedule.to_row(self._context)
        await check_fire(self._context, [row], self._context.runtime.environment.clock.now())
        change = CreateSchedule(row, keep=if_exists == "keep", update=if_exists == "update")
        await self._context.runtime.journal.apply(change)
        return ScheduleHandle(self._context, schedule.schedule_id)

    @explained("apply", "schedules.apply([Schedule(…)], prune=False)")
    async def apply(self, schedules: Sequence[Schedule], *, prune: bool = False) -> AppliedSchedules:
        """Make the database's schedules as a set says, in one transaction. Applying it again changes nothing.

        A schedule that is there stays paused or not, and keeps its counters and what is decided of its slots; another
        calendar counts from now.

        Args:
            schedules: The set, as code declares it; at most 1,000.
            prune: Whether schedules that the set lacks are deleted.

        Raises:
            InvalidOptionError: It is no list, two have the same id, or one can never fire; nothing was written.
        """
        if isinstance(schedules, Schedule):
            raise InvalidOptionError("schedules must be a list: put the schedule into one", field="schedules")
        given = validate_list("schedules", schedules, "Schedule(…)")
        for one in given:
            if not isinstance(one, Schedule):
                raise InvalidOptionError(
                    f"schedules must be a list of Schedule(…), not of {type(one).__name__}", field="schedules"
                )
        integer("number of schedules", len(given), 0, MOST_APPLIED)
        rows = [schedule.to_row(self._context) for schedule in given]
        if len({row.schedule_id for row in rows}) < len(rows):
            raise InvalidOptionError("two schedules of the set have the same id", field="schedules")
        await check_fire(self._context, rows, 0)
        change = ApplySchedules(rows, prune=checked_flag("prune", prune))
        return await self._context.runtime.journal.apply(change)

    @explained("handle", "schedules.handle('nightly')")
    def handle(self, schedule_id: str) -> ScheduleHandle:
        """Return a handle to a schedule. Only using it tells whether there is one.

        Raises:
            InvalidOptionError: The id cannot be one.
        """
        return ScheduleHandle(self._context, validate_schedule_id(schedule_id))

    @explained("preview", "schedules.preview(Cron('0 2 * * *'), next=5)")
    async def preview(
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
            spec: When it fires, as for :class:`outlast.Schedule`.
            exclude: What is left out.
            start_at: No slot is earlier.
            end_at: No slot is later.
            jitter: Checked, and not in the slots: by how much each fires later depends on the schedule's id.
            next: How many slots, 0 to 1,000.

        Raises:
            InvalidOptionError: A value is not valid, or so much is excluded that the slots would take too long to find.
        """
        calendar = Calendar(spec, exclude, start_at, end_at, jitter)
        runtime = self._context.runtime
        now = to_datetime(runtime.environment.clock.now())
        # On a thread of the readers: a cron text that never fires is looked for through many years.
        return await runtime.read(lambda _: slots_of(calendar, now, next))

    @explained("list", "schedules.list(paused=True)")
    async def list(
        self,
        *,
        workflow_type: str | None = None,
        paused: bool | None = None,
        next: int = DEFAULT_NEXT,
        after: str = "",
    ) -> AsyncIterator[ScheduleDescription]:
        """Yield the schedules, in the order of their ids: ``async for one in client.schedules.list()``.

        Args:
            workflow_type: Only those that start workflows of this type.
            paused: Only those that are paused, or (``False``) that are not.
            next: How many slots to come each shows, 0 to 1,000.
            after: Only those whose ids come after this one.

        Raises:
            InvalidOptionError: A filter cannot be used.
        """
        if workflow_type is not None:
            validate_name("workflow type", workflow_type)
        most = integer("next", next, 0, MOST_NEXT)
        after = validate_after(after)
        runtime = self._context.runtime
        while True:
            now = runtime.environment.clock.now()
            page = await runtime.read_aside(_page, after, now, most, workflow_type, paused)
            for one in page:
                yield one
            if len(page) < _PAGE:
                return
            after = page[-1].schedule_id


def slots_of(calendar: Calendar, now: datetime, next: int) -> tuple[datetime, ...]:
    """Return the next slots of a calendar.

    Args:
        calendar: The calendar.
        now: They come after this instant.
        next: How many, 0 to 1,000.

    Raises:
        InvalidOptionError: The number is out of range, or so much is excluded that they would take too long to find.
    """
    most = integer("next", next, 0, MOST_NEXT)
    slots, on_from = calendar.first_slots(from_datetime(now), most)
    if on_from is not None:
        found = f"{len(slots):,} of {most:,} slots" if slots else "no slot"
        raise InvalidOptionError(
            f"so much is excluded that a search up to {iso(on_from)} has found {found}: exclude less, ask for fewer "
            "slots (next=), or begin later (start_at=)",
            field="exclude",
        )
    return tuple(to_datetime(slot) for slot in slots)


def _page(
    connection: Connection, after: str, now: int, next: int, workflow_type: str | None, paused: bool | None
) -> list[ScheduleDescription]:
    rows = read_schedules(connection, after, _PAGE, workflow_type=workflow_type, paused=paused)
    return [description(connection, row, now, next) for row in rows]
