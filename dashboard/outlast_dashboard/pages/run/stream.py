"""The page of one stream of a workflow: its newest items, live, or those from an offset on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from outlast.client.workflows.streams import StreamItem
from outlast.text.event_gists import preview
from outlast_dashboard.api.contract.fields import RunId, StreamName, WorkflowId
from outlast_dashboard.api.contract.redaction import description
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.security.principals import Principal
from outlast_workflow.options.validation import MAX_INTEGER

router = APIRouter()

MOST_ITEMS: Final = 100
"""How many items the page shows."""


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item as the page shows it; ``text`` is its value on one line."""

    offset: int
    text: str
    written_at: datetime
    activity_id: int | None
    attempt: int | None


@router.get("/workflows/{workflow_id}/streams/{name}")
async def stream_page(
    request: Request,
    web: TheWeb,
    principal: Reader,
    workflow_id: WorkflowId,
    name: StreamName,
    run_id: RunId = None,
    start: Annotated[int | None, Query(ge=0, le=MAX_INTEGER)] = None,
) -> Response:
    """Show a stream."""

    async def values() -> dict[str, Any]:
        found = description(await web.client.describe(workflow_id, run_id or None), principal)
        stream = next((one for one in found.streams if one.name == name), None)
        count = stream.items if stream is not None else 0
        first = max(count - MOST_ITEMS, 0) if start is None else start
        reader = web.client.handle(workflow_id, run_id=found.run.run_id).stream(name, start=first)
        shown: list[ShownItem] = []
        # Only their texts are kept: a page of large items is a part of them.
        while len(shown) < MOST_ITEMS and (items := await reader.ready()):
            shown += [_shown(item, principal) for item in items[: MOST_ITEMS - len(shown)]]
        return {
            "found": found,
            "name": name,
            "stream": stream,
            "start": start,
            "first": first,
            "most": MOST_ITEMS,
            "items": shown[::-1] if start is None else shown,
            "ended": found.run.closed_at is not None,
            "now": web.now(),
        }

    return await live_page(request, web, principal, "stream", values)


def _shown(item: StreamItem[Any], principal: Principal) -> ShownItem:
    text = preview(item.value) if principal.sees_payloads else "hidden"
    return ShownItem(item.offset, text, item.written_at, item.activity_id, item.attempt)
