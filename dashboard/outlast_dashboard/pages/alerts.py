"""The page of alerts: what was fired, and who has seen it."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.streaming import live_page
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import AlertKind

router = APIRouter()

PAGE_SIZE: Final = 50
Choice = Annotated[str, Query()]
SEEN: Final = {"": None, "no": False, "yes": True}


@router.get("/alerts")
async def alerts(
    request: Request,
    web: TheWeb,
    principal: Reader,
    acknowledged: Choice = "",
    kind: Choice = "",
    workflow_type: Choice = "",
    workflow_id: Choice = "",
    cursor: Choice = "",
) -> Response:
    """Show the alerts that were fired."""
    typed = {
        "acknowledged": acknowledged,
        "kind": kind,
        "workflow_type": workflow_type,
        "workflow_id": workflow_id,
    }
    given = {name: value for name, value in typed.items() if value}

    async def values() -> dict[str, Any]:
        if acknowledged not in SEEN:
            raise InvalidOptionError("acknowledged must be yes or no", field="acknowledged")
        found = await web.client.alerts.list(
            acknowledged=SEEN[acknowledged],
            kind=kind or None,
            workflow_type=workflow_type or None,
            workflow_id=workflow_id or None,
            cursor=cursor or None,
            limit=PAGE_SIZE,
        )
        return {
            "found": found,
            "unacknowledged": await web.client.alerts.unacknowledged(),
            "next": urlencode({**given, "cursor": found.cursor}) if found.cursor is not None else None,
            "first": urlencode(given) if cursor else None,
            "back": urlencode({**given, "cursor": cursor} if cursor else given),
            "now": web.now(),
        }

    around: dict[str, Any] = {"kinds": AlertKind, "live_url": request.url.query, "typed": typed}
    around |= await known_names(web)
    try:
        return await live_page(request, web, principal, "alerts", values, **around, wrong={})
    except InvalidOptionError as error:
        field = field_of(error, typed)
        if field is None:
            raise
        wrong = {field: error.message}
        return page("alerts.html", request, principal, 422, **around, wrong=wrong)


@router.post("/alerts/{alert_id}/acknowledge")
async def acknowledge(
    request: Request,
    web: TheWeb,
    principal: Writer,
    alert_id: Annotated[str, Path()],
    back: Annotated[str, Form(max_length=4000)] = "",
) -> Response:
    """Acknowledge an alert for whoever is signed in, and show the page again that it was seen on."""
    await web.client.alerts.acknowledge(alert_id, by=principal.name)
    return RedirectResponse(f"{base_of(request)}/alerts{f'?{back}' if back else ''}", 303)
