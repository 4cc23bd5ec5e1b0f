"""The pages of schedules: all of them, and one with its calendar; pausing, resuming and triggering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.api.contract.fields import ScheduleId
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.rendering import base_of
from outlast_dashboard.pages.streaming import live_page

router = APIRouter()

DAYS: Final = 14
MOST_SLOTS: Final = 500
MOST_LISTED: Final = 500
TIMES_SHOWN: Final = 3


@dataclass(slots=True)
class Day:
    """A day of the calendar strip, in UTC.

    Attributes:
        day: The day.
        slots: The slots of the day, as far as they were read.
        known: Whether all slots of the day were read.
    """

    day: date
    slots: list[datetime] = field(default_factory=list)
    known: bool = True

    @property
    def shown(self) -> list[datetime]:
        """The first slots of the day."""
        return self.slots[:TIMES_SHOWN]

    @property
    def more(self) -> int:
        """How many slots follow those."""
        return len(self.slots) - len(self.shown)


def calendar_of(slots: Sequence[datetime], now: datetime, most: int = MOST_SLOTS) -> list[Day]:
    """Return the days to come with their slots.

    Args:
        slots: The slots to come, in order, as many as were read.
        now: The time.
        most: How many were read at most.
    """
    today = now.date()
    days = [Day(today + timedelta(days=number)) for number in range(DAYS)]
    for slot in slots:
        place = (slot.date() - today).days
        if place < DAYS:
            days[place].slots.append(slot)
    if len(slots) == most:
        # What comes after the last slot that was read is not known.
        last = slots[-1].date()
        for day in days:
            day.known = day.day < last
    return days


@router.get("/schedules")
async def schedules(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the schedules."""

    async def values() -> dict[str, Any]:
        found = []
        async for one in web.client.schedules.list(next=1):
            found.append(one)
            if len(found) == MOST_LISTED:
                break
        return {"schedules": found, "most": MOST_LISTED, "now": web.now()}

    return await live_page(request, web, principal, "schedules", values)


@router.get("/schedules/{schedule_id}")
async def schedule(request: Request, web: TheWeb, principal: Reader, schedule_id: ScheduleId) -> Response:
    """Show a schedule: when it fires, what becomes of its slots, and what it has done."""

    async def values() -> dict[str, Any]:
        now = web.now()
        found = await web.client.schedules.handle(schedule_id).describe(next=MOST_SLOTS)
        return {"schedule": found, "days": calendar_of(found.next_slots, now), "now": now}

    path = f"{base_of(request)}/schedules/{quoted(schedule_id)}"
    return await live_page(request, web, principal, "schedule", values, path=path)


@router.post("/schedules/{schedule_id}/pause")
async def pause(
    request: Request, web: TheWeb, _: Writer, schedule_id: ScheduleId, note: Annotated[str, Form()] = ""
) -> Response:
    """Pause a schedule."""
    await web.client.schedules.handle(schedule_id).pause(note or None)
    return _back(request, schedule_id)


@router.post("/schedules/{schedule_id}/resume")
async def resume(request: Request, web: TheWeb, _: Writer, schedule_id: ScheduleId) -> Response:
    """Resume a schedule."""
    await web.client.schedules.handle(schedule_id).resume()
    return _back(request, schedule_id)


@router.post("/schedules/{schedule_id}/trigger")
async def trigger(request: Request, web: TheWeb, _: Writer, schedule_id: ScheduleId) -> Response:
    """Start what a schedule starts, now."""
    started = await web.client.schedules.handle(schedule_id).trigger()
    return RedirectResponse(f"{base_of(request)}/workflows/{quoted(started.workflow_id)}", 303)


def _back(request: Request, schedule_id: str) -> Response:
    return RedirectResponse(f"{base_of(request)}/schedules/{quoted(schedule_id)}", 303)
