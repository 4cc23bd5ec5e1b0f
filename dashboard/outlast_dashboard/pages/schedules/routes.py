"""The pages of schedules: all of them, and one with its calendar, which is paused, triggered, backfilled, deleted."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast.client.schedules.handle import DEFAULT_BACKFILL
from outlast.errors import OutlastError
from outlast.text.parsing import limit as read_limit
from outlast.text.parsing import moment
from outlast.text.wording import CATCH_UP_WORDS, OVERLAP_WORDS, counted
from outlast_dashboard.api.contract.fields import ScheduleId
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.schedules.calendar import MOST_SLOTS, calendar_of
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.problems import problem_of

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
        zone = ZoneInfo(found.time_zone)
        days = calendar_of([slot.astimezone(zone) for slot in found.next_slots], now.astimezone(zone))
        said = {
            "overlap_words": OVERLAP_WORDS[found.overlap],
            "catch_up_words": CATCH_UP_WORDS[found.catch_up],
        }
        return {"schedule": found, "days": days, "zone": zone, "now": now, **said}

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


@router.post("/schedules/{schedule_id}/backfill")
async def backfill(
    request: Request,
    web: TheWeb,
    principal: Writer,
    schedule_id: ScheduleId,
    start_time: Annotated[str, Form()],
    end_time: Annotated[str, Form()],
    limit: Annotated[str, Form()] = str(DEFAULT_BACKFILL),
) -> Response:
    """Start the slots of a time that has passed, and say how many there were."""
    now = web.now()
    try:
        first = moment("start time", start_time, now) or now
        end = moment("end time", end_time, now) or now
        done = await web.client.schedules.handle(schedule_id).backfill(
            first, end, limit=read_limit("limit", limit)
        )
    except OutlastError as error:
        problem = problem_of(error)
        if problem.status >= 500 or "hx-request" not in request.headers:
            raise
        return page("_answer.html", request, principal, problem.status, problem=problem)
    if "hx-request" not in request.headers:
        return RedirectResponse(f"{base_of(request)}/?{urlencode({'schedule': schedule_id})}", 303)
    said = f"Started {counted(done.started, 'workflow')}, {done.existing} were there already."
    return page("_answer.html", request, principal, problem=None, shows=False, said=said)


@router.post("/schedules/{schedule_id}/delete")
async def delete(request: Request, web: TheWeb, _: Writer, schedule_id: ScheduleId) -> Response:
    """Delete a schedule; what it has started stays."""
    await web.client.schedules.handle(schedule_id).delete()
    return RedirectResponse(f"{base_of(request)}/schedules", 303)


def _back(request: Request, schedule_id: str) -> Response:
    return RedirectResponse(f"{base_of(request)}/schedules/{quoted(schedule_id)}", 303)
