"""Streams of a workflow: what is there, or live as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import Response, StreamingResponse

from outlast.client.workflows.streams import StreamItem, StreamItems
from outlast.errors import OutlastError, StreamTimeoutError
from outlast_dashboard.api.contract.fields import StreamName
from outlast_dashboard.api.contract.handles import PinnedHandle
from outlast_dashboard.api.contract.models import StreamItemView, StreamPage
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.redaction import HIDDEN
from outlast_dashboard.authorization import Reader, Standing, TheWeb
from outlast_dashboard.security.principals import Principal
from outlast_workflow.options.validation import MAX_INTEGER

router = APIRouter(tags=["streams"])

KEEP_ALIVE_AFTER_S: Final = 15.0
"""After so long without an item a comment is sent, so that proxies keep the connection."""
KEEP_ALIVE: Final = b": still here\n\n"

Start = Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Only items from this offset on.")]


def item_view(item: StreamItem[Any], principal: Principal) -> StreamItemView:
    """Return an item as a principal may see it."""
    return StreamItemView(
        offset=item.offset,
        value=item.value if principal.sees_payloads else HIDDEN,
        written_at=item.written_at,
        run_id=item.run_id,
        activity_id=item.activity_id,
        attempt=item.attempt,
    )


@router.get("/workflows/{workflow_id}/streams/{name}", responses=problems(404))
async def stream(handle: PinnedHandle, principal: Reader, name: StreamName, start: Start = 0) -> StreamPage:
    """Return the items of a stream from an offset on: at most five hundred, and fewer where 4 MiB are full."""
    items = handle.stream(name, start=start)
    page = await items.ready()
    return StreamPage(
        items=[item_view(item, principal) for item in page], next_start=items.offset, ended=items.ended
    )


def _check_streams(web: TheWeb) -> None:
    web.streams.check()


@router.get(
    "/workflows/{workflow_id}/streams/{name}/live",
    response_class=Response,
    responses={
        200: {"description": "Server-sent events", "content": {"text/event-stream": {}}},
        204: {"description": "The stream has ended: a browser does not connect again."},
        **problems(404),
    },
    dependencies=[Depends(_check_streams)],
)
async def follow(
    handle: PinnedHandle,
    principal: Reader,
    stands: Standing,
    name: StreamName,
    start: Start = 0,
    last_event_id: Annotated[
        int | None,
        Header(
            ge=0,
            le=MAX_INTEGER,
            description="The last offset received; browsers send it when they reconnect.",
        ),
    ] = None,
) -> Response:
    """Send the items of a stream as they come. The ids of the server-sent events are offsets.

    The last one is of type `end`: the workflow has closed the stream, or has ended. The connection also ends with the
    token or session of the request.
    """
    again = last_event_id is not None
    if last_event_id is not None:
        start = last_event_id + 1
    items = handle.stream(name, start=start, timeout=KEEP_ALIVE_AFTER_S)
    first = await items.ready()
    if again and items.ended and not first:
        return Response(status_code=204)
    return StreamingResponse(
        _events(items, first, principal, stands),
        media_type="text/event-stream",
        headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
    )


async def _events(
    items: StreamItems[Any], first: Any, principal: Principal, stands: Standing
) -> AsyncIterator[bytes]:
    page = first
    # Something is sent at once, so that the client learns that it is connected.
    yield KEEP_ALIVE
    while True:
        for item in page:
            if not stands():
                return
            data = orjson.dumps(item_view(item, principal).model_dump(mode="json"))
            yield b"id: %d\ndata: %s\n\n" % (item.offset, data)
        try:
            page = await items.page()
        except StreamTimeoutError:
            page = ()
            if not stands():
                return
            yield KEEP_ALIVE
            continue
        except OutlastError:
            # The browser connects again, and gets the error as an answer.
            return
        if not page:
            yield b'event: end\ndata: {"offset": %d}\n\n' % items.offset
            return
