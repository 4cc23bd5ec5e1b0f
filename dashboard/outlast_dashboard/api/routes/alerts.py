"""The alerts of deadlines that came near."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from outlast.visibility.views import Alert, AlertPage
from outlast_dashboard.api.contract.fields import Name
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_workflow.primitives.enums import AlertKind

router = APIRouter(prefix="/alerts", tags=["alerts"])


@router.get("")
async def fired(
    web: TheWeb,
    _: Reader,
    workflow_id: Annotated[Name | None, Query(description="Only those of this workflow.")] = None,
    workflow_type: Annotated[Name | None, Query(description="Only those of workflows of this type.")] = None,
    kind: Annotated[AlertKind | None, Query(description="Only those of this kind.")] = None,
    acknowledged: Annotated[
        bool | None, Query(description="Only those that somebody has acknowledged, or only the others.")
    ] = None,
    cursor: Annotated[Name | None, Query(description="The cursor of the page before.")] = None,
    limit: Annotated[int, Query(description="Alerts at most.", ge=1, le=1000)] = 100,
) -> AlertPage:
    """List the alerts that were fired, the newest first."""
    return await web.client.alerts.list(
        workflow_id=workflow_id,
        workflow_type=workflow_type,
        kind=kind,
        acknowledged=acknowledged,
        cursor=cursor,
        limit=limit,
    )


@router.post("/{alert_id}/acknowledge", responses=problems(404, 409))
async def acknowledge(
    alert_id: Annotated[Name, Path(description="The alert's id.")], web: TheWeb, principal: Writer
) -> Alert:
    """Say that you have seen an alert. The first one who says so stands; for anybody else it is a 409."""
    return await web.client.alerts.acknowledge(alert_id, by=principal.name)
