"""The page of what fires when: all that lies ahead, filtered, page by page."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from outlast.text.parsing import duration
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.pages.streaming import live_page
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import UpcomingKind

router = APIRouter()

PAGE_SIZE: Final = 50
Choice = Annotated[str, Query()]
PERIODS: Final = (("1m", "minute"), ("1h", "hour"), ("24h", "24 hours"), ("7d", "7 days"))


@router.get("/upcoming")
async def upcoming(
    request: Request,
    web: TheWeb,
    principal: Reader,
    kind: Choice = "",
    workflow_type: Choice = "",
    task_queue: Choice = "",
    within: Choice = "",
    cursor: Choice = "",
) -> Response:
    """Show what fires when."""
    typed = {"kind": kind, "workflow_type": workflow_type, "task_queue": task_queue, "within": within}
    given = {name: value for name, value in typed.items() if value}

    async def values() -> dict[str, Any]:
        found = await web.client.upcoming(
            PAGE_SIZE,
            kinds=[kind] if kind else None,
            workflow_type=workflow_type or None,
            task_queue=task_queue or None,
            within=duration("within", within or None),
            cursor=cursor or None,
        )
        return {
            "found": found,
            "next": urlencode({**given, "cursor": found.cursor}) if found.cursor is not None else None,
            "first": urlencode(given) if cursor else None,
            "now": found.now,
        }

    around: dict[str, Any] = {"kinds": UpcomingKind, "periods": PERIODS, "live_url": request.url.query}
    around |= {"typed": typed, **await known_names(web)}
    try:
        return await live_page(request, web, principal, "upcoming", values, **around, wrong={})
    except InvalidOptionError as error:
        field = "kind" if error.field == "kinds" else field_of(error, typed)
        if field is None:
            raise
        wrong = {field: error.message}
        return page("upcoming.html", request, principal, 422, **around, wrong=wrong)
