"""The history of a run: by pages, or live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from outlast_dashboard.api.contract.handles import PinnedHandle
from outlast_dashboard.api.contract.models import HistoryPage
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.redaction import event_view
from outlast_dashboard.authorization import Reader, Standing, TheWeb
from outlast_dashboard.notifications import ChangeSignal
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.options.validation import MAX_INTEGER

router = APIRouter(tags=["history"])

AfterSeq = Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Only events after this seq.")]


@router.get("/workflows/{workflow_id}/history", responses=problems(404))
async def history(handle: PinnedHandle, principal: Reader, after_seq: AfterSeq = 0) -> HistoryPage:
    """Return the events of a run after a seq, at most a thousand."""
    assert handle.run_id is not None
    events = await handle.history_page(after_seq)
    ended = bool(events) and events[-1].type in REGISTRY and REGISTRY[events[-1].type].terminal
    return HistoryPage(
        run_id=handle.run_id,
        events=[event_view(event, principal) for event in events],
        next_after_seq=events[-1].seq if events and not ended else None,
    )


def _check_streams(web: TheWeb) -> None:
    web.streams.check()


@router.get(
    "/workflows/{workflow_id}/history/live",
    response_class=EventSourceResponse,
    responses=problems(404),
    dependencies=[Depends(_check_streams)],
)
async def follow(
    handle: PinnedHandle,
    web: TheWeb,
    principal: Reader,
    stands: Standing,
    after_seq: AfterSeq = 0,
    last_event_id: Annotated[
        int | None,
        Header(
            ge=0, le=MAX_INTEGER, description="The last event received; browsers send it when they reconnect."
        ),
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Stream a run's events as they happen. The ids of the server-sent events are seqs.

    The stream ends with the run, or with the token or session of the request.
    """
    seq = after_seq if last_event_id is None else last_event_id
    async with ChangeSignal(web.client) as changed:
        while True:
            # Checked first: if the run has ended by now, no event follows those that are read next.
            over = not await handle.is_open()
            while events := await handle.history_page(seq):
                for event in events:
                    if not stands():
                        return
                    yield ServerSentEvent(
                        data=event_view(event, principal).model_dump(mode="json"),
                        event=event.type,
                        id=str(event.seq),
                    )
                seq = events[-1].seq
            if over or not stands():
                return
            await changed.wait()
