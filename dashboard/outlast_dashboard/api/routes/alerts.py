"""The alerts of deadlines that came near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from outlast.visibility.views import Alert
from outlast_dashboard.api.contract.fields import Name
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_workflow.primitives.enums import AlertKind

router = APIRouter(prefix="/alerts", tags=["alerts"])


@router.get("")
async def fired(
    web: TheWeb,
    _: Reader,
    workflow_id: Annotated[Name | None, Query(description="Only those of this workflow.")] = None,
    workflow_type: Annotated[Name | None, Query(description="Only those of workflows of this type.")] = None,
    kind: Annotated[AlertKind | None, Query(description="Only those of this kind.")] = None,
    after: Annotated[Name | None, Query(description="The id of the last alert of the page before.")] = None,
    limit: Annotated[int, Query(description="Alerts at most.", ge=1, le=1000)] = 100,
) -> Sequence[Alert]:
    """List the alerts that were fired, the newest first."""
    return await web.client.alerts.list(
        workflow_id=workflow_id, workflow_type=workflow_type, kind=kind, after=after, limit=limit
    )
