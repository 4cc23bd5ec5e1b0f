"""The pages of schedules: all of them, and one with its calendar; pausing, resuming and triggering."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.api.contract.fields import ScheduleId
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.rendering import base_of
from outlast_dashboard.pages.schedules.calendar import MOST_SLOTS, calendar_of
from outlast_dashboard.pages.streaming import live_page

router = APIRouter()

MOST_LISTED: Final = 500


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
