"""Schedules: created, changed, shown, paused, triggered, backfilled and deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from outlast.client.schedules.views import BackfillResult, ScheduleDescription
from outlast.visibility.views import Instant
from outlast_dashboard.api.contract.fields import ScheduleId
from outlast_dashboard.api.contract.filters import NameFilter
from outlast_dashboard.api.contract.models import Started
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.schedule_bodies import (
    BackfillBody,
    CreateScheduleBody,
    NoteBody,
    PreviewBody,
    TriggerBody,
    UpdateScheduleBody,
)
from outlast_dashboard.authorization import Reader, TheWeb, Writer

router = APIRouter(prefix="/schedules", tags=["schedules"])

MOST_LISTED = 1_000
Next = Annotated[int, Query(ge=0, le=100, description="How many slots to come are shown.")]


@router.get("")
async def schedules(
    web: TheWeb,
    _: Reader,
    workflow_type: NameFilter = None,
    paused: bool | None = None,
    after: Annotated[str, Query(description="Only those whose ids come after this one.")] = "",
    next: Next = 1,
) -> list[ScheduleDescription]:
    """List schedules by id, at most a thousand; `after` continues."""
    found: list[ScheduleDescription] = []
    listed = web.client.schedules.list(workflow_type=workflow_type, paused=paused, next=next, after=after)
    async for one in listed:
        found.append(one)
        if len(found) == MOST_LISTED:
            break
    return found


@router.post("", status_code=201, responses=problems(404, 409))
async def create(body: CreateScheduleBody, web: TheWeb, _: Writer) -> ScheduleDescription:
    """Create a schedule; its slots count from now.

    `if_exists` says what to do about one of that id: `error`, `keep` it as it is, or `update` it to this one.
    """
    handle = await web.client.schedules.create(
        body.schedule_id,
        body.workflow_type,
        *(body.args or []),
        if_exists=body.if_exists,
        paused=body.paused,
        task_queue=body.task_queue,
        options=body.options(),
        **body.calendar(),
        **body.policies(),
    )
    return await handle.describe()


@router.post("/preview")
async def preview(body: PreviewBody, web: TheWeb, _: Writer) -> list[Instant]:
    """Return when a calendar would fire next, without a schedule. Jitter is not in it: it depends on the schedule."""
    calendar = body.calendar()
    return list(await web.client.schedules.preview(calendar.pop("spec", ()), next=body.next, **calendar))


@router.get("/{schedule_id}", responses=problems(404))
async def describe(schedule_id: ScheduleId, web: TheWeb, _: Reader, next: Next = 10) -> ScheduleDescription:
    """Describe a schedule: its calendar and policies, the slots to come, and what became of the last ones."""
    return await web.client.schedules.handle(schedule_id).describe(next=next)


@router.patch("/{schedule_id}", responses=problems(404))
async def update(
    schedule_id: ScheduleId, body: UpdateScheduleBody, web: TheWeb, _: Writer
) -> ScheduleDescription:
    """Change what is given. Another calendar counts from now."""
    handle = web.client.schedules.handle(schedule_id)
    await handle.update(**body.fields())
    return await handle.describe()


@router.post("/{schedule_id}/pause", responses=problems(404))
async def pause(schedule_id: ScheduleId, body: NoteBody, web: TheWeb, _: Writer) -> ScheduleDescription:
    """Start nothing until the schedule is resumed. What passes meanwhile is not missed."""
    handle = web.client.schedules.handle(schedule_id)
    await handle.pause(body.note)
    return await handle.describe()


@router.post("/{schedule_id}/resume", responses=problems(404))
async def resume(schedule_id: ScheduleId, body: NoteBody, web: TheWeb, _: Writer) -> ScheduleDescription:
    """Go on from now."""
    handle = web.client.schedules.handle(schedule_id)
    await handle.resume(body.note)
    return await handle.describe()


@router.post("/{schedule_id}/trigger", status_code=201, responses=problems(404, 409))
async def trigger(schedule_id: ScheduleId, body: TriggerBody, web: TheWeb, _: Writer) -> Started:
    """Start what the schedule starts, now; no slot is used."""
    handle = web.client.schedules.handle(schedule_id)
    started = await handle.trigger(overlap=body.overlap, request_id=body.request_id)
    assert started.run_id is not None
    return Started(workflow_id=started.workflow_id, run_id=started.run_id)


@router.post("/{schedule_id}/backfill", responses=problems(404))
async def backfill(schedule_id: ScheduleId, body: BackfillBody, web: TheWeb, _: Writer) -> BackfillResult:
    """Start the slots of a time that has passed; those that were started are left as they are.

    Where there are more than `limit`, nothing is started.
    """
    handle = web.client.schedules.handle(schedule_id)
    return await handle.backfill(body.start_time, body.end_time, limit=body.limit)


@router.delete("/{schedule_id}", status_code=204, responses=problems(404))
async def delete(schedule_id: ScheduleId, web: TheWeb, _: Writer) -> None:
    """Delete a schedule. What it has started stays."""
    await web.client.schedules.handle(schedule_id).delete()
