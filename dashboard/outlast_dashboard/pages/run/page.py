"""The page of one run: its state and outcome, what it waits for, what is due, and its history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Request
from starlette.responses import Response, StreamingResponse

from outlast import Client
from outlast.client.workflows.run_rows import row_of
from outlast.visibility.describe import cause_of
from outlast_dashboard.api.contract.fields import WorkflowId
from outlast_dashboard.api.contract.redaction import description, event_view
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_dashboard.pages.plugins import sections_of
from outlast_dashboard.pages.run.graph import graph_of
from outlast_dashboard.pages.run.history import history_of, read_slice
from outlast_dashboard.pages.run.outcome import outcome_of
from outlast_dashboard.pages.run.work import (
    is_told_above,
    most_pressing,
    open_activities,
    others,
    run_deadlines,
)
from outlast_dashboard.pages.runs.choice import MOST_SEQ, Chosen, RunChoice
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.pages.timeline.drawing import parts_of, timeline
from outlast_dashboard.pages.timeline.folding import fold
from outlast_dashboard.problems import Problem, ProblemError
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web
from outlast_store.reads.activities import find_activities
from outlast_store.reads.failure_groups import FailureGroup, find_failure_groups
from outlast_store.reads.timeline import RunTimeline, find_attempts, run_timeline
from outlast_store.schema.rows import RunRow
from outlast_workflow.primitives.enums import PropagationKind

router = APIRouter()

MOST_FAILURE_GROUPS: Final = 20


@router.get("/workflows/{workflow_id}")
async def run_page(
    request: Request, web: TheWeb, principal: Reader, workflow_id: WorkflowId, choice: Chosen
) -> Response:
    """Show a run, live."""
    client = web.client

    async def values() -> dict[str, Any]:
        return await _values(web, client, principal, workflow_id, choice)

    return await live_page(request, web, principal, "run", values)


async def _values(
    web: Web, client: Client, principal: Principal, workflow_id: str, choice: RunChoice
) -> dict[str, Any]:
    runtime = client.runtime
    described = await client.describe(workflow_id, choice.run_id or None)
    found = description(described, principal)
    row = await row_of(runtime, workflow_id, found.run.run_id)
    now = runtime.environment.clock.now()
    record: RunTimeline = await runtime.read(run_timeline, row.run_id, workflow_id, row.parent_run_id)
    span = choice.span
    within = None if span is None else (row.created_at + span[0], row.created_at + span[1])
    parts = parts_of(record, now)
    folded = fold(parts, now, within)
    ids = folded.activity_ids
    rows = await runtime.read(find_activities, row.run_id, ids) if ids else []
    attempts = await runtime.read(find_attempts, row.run_id, ids) if ids else []
    children = {part.id: part.workflow_id for part in parts if part.kind == "child"}
    events = await runtime.read(read_slice, row.run_id, choice)
    pressing = most_pressing(found.pending_activities)
    chosen = [activity.activity_id for activity in pressing]
    pending = await runtime.read(find_activities, row.run_id, chosen) if chosen else []
    sections = await sections_of(client, described, payloads=principal.sees_payloads)
    input_key = next((one.input_key for one in sections if one.input_key), "")
    shown = open_activities(pressing, {row.activity_id: row for row in pending})
    return {
        "found": found,
        "run": found.run,
        "row": row,
        "record": record,
        "choice": choice,
        "outcome": await outcome_of(client, row, principal, input_key),
        "activities": shown,
        "others": others(found.pending_activities, pressing),
        "deadlines": run_deadlines(found),
        "graph": await graph_of(client, described),
        "sections": sections,
        "drawing": timeline(row, record, folded, rows, attempts, now, span, described.alerts),
        "failures": [
            (group, cause_of(orjson.loads(group.document)) if group.document is not None else None)
            for group in await runtime.read(find_failure_groups, row.run_id, MOST_FAILURE_GROUPS)
            if not _is_the_end(row, group) and not is_told_above(group, shown)
        ],
        "history": history_of(events, choice, principal, children),
        "now": web.now(),
    }


def _is_the_end(run: RunRow, group: FailureGroup) -> bool:
    """Return whether a failure is the run's own end, which the page tells in its head."""
    latest = group.latest
    return (
        run.closed_at is not None
        and latest.source_kind == "workflow_run"
        and latest.propagation_kind not in (PropagationKind.TASK, PropagationKind.UPDATE)
    )


@router.get("/workflows/{workflow_id}/history.json")
async def download(web: TheWeb, principal: Reader, workflow_id: WorkflowId, choice: Chosen) -> Response:
    """Download a run's whole history as JSON."""
    found = await web.client.describe(workflow_id, choice.run_id or None)
    handle = web.client.handle(workflow_id, run_id=found.run.run_id)

    async def written() -> AsyncIterator[bytes]:
        head = {
            "workflow_id": workflow_id,
            "run_id": found.run.run_id,
            "workflow_type": found.workflow_type,
            "status": found.run.status,
        }
        yield orjson.dumps(head)[:-1] + b',"events":['
        separator = b"\n"
        async for event in handle.history():
            yield separator + orjson.dumps(event_view(event, principal).model_dump(mode="json"))
            separator = b",\n"
        yield b"\n]}\n"

    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in workflow_id)[:100]
    disposition = f'attachment; filename="{name.encode("ascii", "replace").decode().replace("?", "_")}.json"'
    return StreamingResponse(
        written(), media_type="application/json", headers={"content-disposition": disposition}
    )


@router.get("/workflows/{workflow_id}/events/{seq}.json")
async def event_document(
    web: TheWeb,
    principal: Reader,
    workflow_id: WorkflowId,
    choice: Chosen,
    seq: Annotated[int, Path(ge=1, le=MOST_SEQ)],
) -> Response:
    """Show one event as JSON: for payloads that are too large for the page."""
    found = await web.client.describe(workflow_id, choice.run_id or None)
    handle = web.client.handle(workflow_id, run_id=found.run.run_id)
    async for event in handle.history(after_seq=seq - 1):
        if event.seq == seq:
            view = event_view(event, principal).model_dump(mode="json")
            return Response(orjson.dumps(view, option=orjson.OPT_INDENT_2), media_type="application/json")
        break
    raise ProblemError(Problem.of(404, "event-not-found", f"The run has no event {seq}"))
