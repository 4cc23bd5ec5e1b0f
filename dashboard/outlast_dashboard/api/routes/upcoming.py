"""What fires when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from outlast.visibility.upcoming import Upcoming
from outlast_dashboard.api.contract.fields import Name
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_workflow.options.validation import MAX_SECONDS
from outlast_workflow.primitives.enums import UpcomingKind

router = APIRouter(prefix="/upcoming", tags=["operations"])


@router.get("")
async def upcoming(
    web: TheWeb,
    _: Reader,
    kind: Annotated[
        list[UpcomingKind] | None,
        Query(description="Only these kinds; repeatable. By default all but heartbeats."),
    ] = None,
    workflow_type: Annotated[Name | None, Query(description="Only workflows of this type.")] = None,
    task_queue: Annotated[Name | None, Query(description="Only what is about this task queue.")] = None,
    within_seconds: Annotated[
        float | None, Query(description="Only what falls due within this time.", gt=0, le=MAX_SECONDS)
    ] = None,
    cursor: Annotated[
        str | None, Query(description="The cursor of the page before, for the same filters.")
    ] = None,
    limit: Annotated[int, Query(description="How much at most.", ge=1, le=1000)] = 50,
) -> Upcoming:
    """List the next deadlines, timers, alerts and schedules of all workflows, what is overdue first."""
    return await web.client.upcoming(
        limit,
        within=within_seconds,
        kinds=kind,
        workflow_type=workflow_type,
        task_queue=task_queue,
        cursor=cursor,
    )
