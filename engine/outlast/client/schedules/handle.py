"""A handle to one schedule: describe it, change it, fire it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from sqlalchemy import Connection

from outlast.client.context import ClientContext
from outlast.client.schedules.definition import checked_overlap
from outlast.client.schedules.update import ScheduleEdit, ScheduleUpdate
from outlast.client.schedules.views import BackfillResult, ScheduleDescription, description
from outlast.client.workflows.handle import WorkflowHandle
from outlast_schedules.action import MOST_REQUEST_ID, slot_workflow_id
from outlast_schedules.changes import (
    BackfillSchedule,
    ChangeSchedule,
    DeleteSchedule,
    Edit,
    TriggerSchedule,
    pausing,
    resuming,
)
from outlast_schedules.damage import refuse_damaged
from outlast_schedules.due_slots import MOST_STARTS
from outlast_schedules.firing import Start
from outlast_schedules.specs.calendar import Calendar
from outlast_store.reads.schedules import find_latest_run, find_schedule, unknown_schedule
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.errors import InvalidOptionError, ScheduleNotFoundError
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.validation import instant_of, integer, validate_name, validate_note
from outlast_workflow.primitives.enums import Overlap
from outlast_workflow.primitives.lazy_names import names_of_class

MOST_NEXT: Final = 1_000
DEFAULT_NEXT: Final = 10
DEFAULT_BACKFILL: Final = 10_000
"""How many slots a backfill has at most, unless its caller says another number."""
_MOST_COUNTED: Final = 100_000
"""Up to which number the slots of a backfill that is too large are counted."""
_TRIGGER_OVERLAPS: Final = (Overlap.SKIP, Overlap.TERMINATE_OTHER, Overlap.ALLOW_ALL)


class ScheduleHandle:
    """One schedule. Only using the handle tells whether there is one.

    Attributes:
        schedule_id: Its id.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ScheduleHandle")

    def __init__(self, context: ClientContext, schedule_id: str) -> None:
        self._context = context
        self.schedule_id = schedule_id

    def __repr__(self) -> str:
        return f"ScheduleHandle({self.schedule_id!r})"

    @explained("describe", "handle.describe(next=5)")
    async def describe(self, *, next: int = DEFAULT_NEXT) -> ScheduleDescription:
        """Describe the schedule, with the slots to come.

        Args:
            next: How many of those, 0 to 1,000.

        Raises:
            ScheduleNotFoundError: There is none.
        """
        most = integer("next", next, 0, MOST_NEXT)
        now = self._context.runtime.environment.clock.now()
        found = await self._context.runtime.read(_described, self.schedule_id, now, most)
        if found is None:
            raise await self._unknown()
        return found

    @explained("pause", "handle.pause('why')")
    async def pause(self, note: str | None = None) -> None:
        """Pause the schedule; its slots pass and are not missed.

        Args:
            note: Why, for those who find it paused.

        Raises:
            ScheduleNotFoundError: There is none.
        """
        await self._change(pausing(validate_note(note)))

    @explained("resume", "handle.resume()")
    async def resume(self, note: str | None = None) -> None:
        """Let the schedule go on from now.

        Args:
            note: A note in place of the one that it has.

        Raises:
            ScheduleNotFoundError: There is none.
        """
        await self._change(resuming(validate_note(note)))

    @explained("update", "handle.update(spec=Cron('0 3 * * *')), by names")
    async def update(self, **fields: Unpack[ScheduleUpdate]) -> None:
        """Change the schedule; what is not given stays. Another calendar counts from now.

        Args:
            **fields: What :class:`outlast.Schedule` takes; ``workflow`` and ``args`` are given by name. ``options`` as
                :class:`StartOptions` take the place of all options; a dict changes only those that it names, and
                ``None`` in it takes one away.

        Raises:
            DurableCallError: The workflow cannot be called with the arguments.
            InvalidOptionError: A value is not valid, or the schedule would never fire; nothing was written.
            QueueNotFoundError: Nobody has defined the queue of the options.
            ScheduleNotFoundError: There is none.
        """
        if not fields:
            raise InvalidOptionError(
                "update needs something to change: give spec=, note= or another field", field="update"
            )
        row = await self._row()
        refuse_damaged(row)
        edit = ScheduleEdit(self._context, self.schedule_id, fields)
        # Whatever can be wrong with the fields is found before anything is written.
        edited = row.copy()
        edit(edited, 0)
        edit.check_arguments(edited)
        if edited.spec != row.spec:
            await check_fire(self._context, [edited], self._context.runtime.environment.clock.now())
        await self._change(edit)

    @explained("delete", "handle.delete()")
    async def delete(self) -> None:
        """Delete the schedule. The workflows that it has started stay.

        Raises:
            ScheduleNotFoundError: There is none.
        """
        await self._context.runtime.journal.apply(DeleteSchedule(self.schedule_id))

    @explained("trigger", "handle.trigger(request_id='once')")
    async def trigger(
        self,
        *,
        overlap: Literal["skip", "terminate_other", "allow_all"] | Overlap = Overlap.ALLOW_ALL,
        request_id: str | None = None,
    ) -> WorkflowHandle[Any]:
        """Start what the schedule starts, now. No slot is used, and a paused schedule can be triggered too.

        Args:
            overlap: What happens to the workflow started last if it is open: ``allow_all`` leaves it alone, ``skip``
                raises an error instead of starting another, ``terminate_other`` terminates it.
            request_id: A key of your own, at most 40 characters. Triggers with the same key start one workflow.

        Raises:
            DamagedScheduleError: Something else has changed its row, which cannot be read.
            ScheduleNotFoundError: There is none.
            WorkflowAlreadyStartedError: The workflow started last is open, and ``overlap`` is ``skip``.
        """
        how = checked_overlap(overlap)
        if how not in _TRIGGER_OVERLAPS:
            known = ", ".join(_TRIGGER_OVERLAPS)
            raise InvalidOptionError(f"overlap of a trigger must be one of {known}", field="overlap")
        runtime = self._context.runtime
        environment = runtime.environment
        if request_id is None:
            key = environment.ids.next()
        else:
            key = validate_name("request id", request_id)
            if len(key) > MOST_REQUEST_ID:
                raise InvalidOptionError(
                    f"request id must be at most {MOST_REQUEST_ID} characters here", field="request_id"
                )
        workflow_id = f"{self.schedule_id}-trigger-{key}"
        found = await runtime.read(_with_latest_run, self.schedule_id)
        if found is None:
            raise await self._unknown()
        row, latest = found
        refuse_damaged(row)
        done = await runtime.journal.apply(TriggerSchedule(row, workflow_id, how, latest, environment))
        ending = runtime.run_ends.subscribe(done.run_id)
        return WorkflowHandle(self._context, workflow_id, done.run_id, None, ending, existed=not done.created)

    @explained("backfill", "handle.backfill(start_time, end_time)")
    async def backfill(
        self, start_time: datetime, end_time: datetime, *, limit: int | None = DEFAULT_BACKFILL
    ) -> BackfillResult:
        """Start the slots of a time that has passed, whatever the overlap policy says.

        Each has the workflow id that it would have had then, so one that was started is left as it is, and a backfill
        that was interrupted can be repeated.

        Args:
            start_time: The first slot is at this instant or later (aware).
            end_time: The last slot is before this instant (aware), which is not in the future.
            limit: How many slots there may be; ``None``: any number. Where there are more, nothing is started.

        Raises:
            InvalidOptionError: The times are not aware, not in order, or in the future, or there are more slots than
                the limit (``field`` is ``limit`` then, and the message says how many).
            ScheduleNotFoundError: There is none.
        """
        runtime = self._context.runtime
        first, end = instant_of("start time", start_time), instant_of("end time", end_time)
        if end < first:
            raise InvalidOptionError("end time must not be before start time", field="end_time")
        if end > runtime.environment.clock.now():
            raise InvalidOptionError(
                "end time must not be in the future: the schedule itself fires those slots", field="end_time"
            )
        most = None if limit is None else integer("limit", limit, 1)
        row = await self._row()
        refuse_damaged(row)
        if most is not None:
            await self._check_number(row.spec, first - 1, end, most)
        started, existing = 0, 0
        after: int | None = first - 1
        while after is not None:
            slots, after = await runtime.read(_slots_between, row.spec, after, end, MOST_STARTS)
            if slots:
                starts = [
                    Start(row, slot, slot_workflow_id(row.schedule_id, slot), runtime.environment)
                    for slot in slots
                ]
                new, there = await runtime.journal.apply(BackfillSchedule(row, starts))
                started, existing = started + new, existing + there
        return BackfillResult(started=started, existing=existing)

    async def _check_number(self, spec: str, after: int, end: int, limit: int) -> None:
        """Refuse more slots than a limit."""
        counted = max(limit, _MOST_COUNTED) + 1
        found, at = 0, after
        while found < counted:
            slots, on = await self._context.runtime.read_aside(_slots_between, spec, at, end, counted - found)
            found += len(slots)
            if on is None:
                break
            at = on
        if found > limit:
            many = f"more than {counted - 1:,}" if found == counted else f"{found:,}"
            raise InvalidOptionError(
                f"limit is {limit:,} workflows, and the schedule {self.schedule_id!r} has {many} slots in that time: "
                "give a higher limit to start them all, or a shorter time",
                field="limit",
            )

    async def _row(self) -> ScheduleRow:
        row = await self._context.runtime.read(find_schedule, self.schedule_id)
        if row is None:
            raise await self._unknown()
        return row

    async def _unknown(self) -> ScheduleNotFoundError:
        return await self._context.runtime.read(unknown_schedule, self.schedule_id)

    async def _change(self, edit: Edit) -> None:
        await self._context.runtime.journal.apply(ChangeSchedule(self.schedule_id, edit))


async def check_fire(context: ClientContext, rows: Sequence[ScheduleRow], now: int) -> None:
    """Refuse schedules that have no slot after an instant. A reader finds out, since that may take long.

    Args:
        context: The client's database.
        rows: The schedules.
        now: Microseconds since the epoch.

    Raises:
        InvalidOptionError: One never fires.
    """
    await context.runtime.read_aside(_check_fire, rows, now)


def _check_fire(_connection: Connection, rows: Sequence[ScheduleRow], now: int) -> None:
    for row in rows:
        calendar = Calendar.from_json(row.spec)
        if calendar.slot_after(now) is None:
            what = "; ".join(str(spec) for spec in calendar.specs)
            raise InvalidOptionError(
                f"schedule {row.schedule_id!r} never fires: {what:.500} names no slot from now on that is not excluded "
                "or after its end",
                field="spec",
            )


def _described(connection: Connection, schedule_id: str, now: int, next: int) -> ScheduleDescription | None:
    row = find_schedule(connection, schedule_id)
    return None if row is None else description(connection, row, now, next)


def _with_latest_run(connection: Connection, schedule_id: str) -> tuple[ScheduleRow, str | None] | None:
    row = find_schedule(connection, schedule_id)
    if row is None:
        return None
    if row.last_workflow_id is None or row.last_first_run_id is None:
        return row, None
    latest = find_latest_run(connection, row.last_workflow_id, row.last_first_run_id)
    return row, None if latest is None else latest[0]


def _slots_between(
    _connection: Connection, spec: str, after: int, end: int, most: int
) -> tuple[list[int], int | None]:
    """Return slots after one instant and before another, and after which instant more may follow, if any.

    Each look is short, however much is excluded.
    """
    found, on_from = Calendar.from_json(spec).first_slots(after, most)
    slots = [slot for slot in found if slot < end]
    if on_from is not None:
        return slots, on_from - 1 if on_from < end else None
    return slots, slots[-1] if len(slots) == most else None
