"""The page of one run: its state, what it waits for, and what is due."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from outlast import Client
from outlast.client.run_rows import row_of
from outlast_activities.deadlines import options_of
from outlast_dashboard.api.contract.fields import WorkflowId
from outlast_dashboard.api.contract.redaction import HIDDEN, description, event_view
from outlast_dashboard.authorization import Reader, TheWeb, Writer, check
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import arguments, progress
from outlast_dashboard.pages.rendering import base_of, page, seconds
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.pages.timeline import timeline
from outlast_dashboard.security.principals import Principal, Scope
from outlast_dashboard.web import Web
from outlast_store.reads.timeline import RunTimeline, run_timeline
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.options.activity import ActivityOptions

router = APIRouter()

EVENTS_PER_PAGE: Final = 200
PATIENCE_S: Final = 10.0


@router.get("/workflows/{workflow_id}")
async def run_page(
    request: Request,
    web: TheWeb,
    principal: Reader,
    workflow_id: WorkflowId,
    run_id: Annotated[str, Query()] = "",
    after: Annotated[int | None, Query(ge=0, description="Show the events after this seq.")] = None,
) -> Response:
    """Show a run, live."""
    client = web.client

    async def values() -> dict[str, Any]:
        return await _values(web, client, principal, workflow_id, run_id or None, after)

    return await live_page(request, web, principal, "run", values, asked_run_id=run_id, after=after)


async def _values(
    web: Web, client: Client, principal: Principal, workflow_id: str, run_id: str | None, after: int | None
) -> dict[str, Any]:
    found = description(await client.describe(workflow_id, run_id), principal)
    pinned = client.handle(workflow_id, run_id=found.run.run_id)
    row = await row_of(client.runtime, workflow_id, found.run.run_id)
    record: RunTimeline = await client.runtime.read(run_timeline, row.run_id, workflow_id, row.parent_run_id)
    if after is None:
        after = max(0, found.run.history_length - EVENTS_PER_PAGE)
    events = [event_view(event, principal) for event in await pinned.history_page(after)][:EVENTS_PER_PAGE]
    open_rows = {activity.activity_id: activity for activity in record.activities if activity.is_open}
    return {
        "found": found,
        "run": found.run,
        "row": row,
        "record": record,
        "drawing": timeline(row, record, client.runtime.environment.clock.now()),
        "activities": [
            (activity, policy_words(options), timeouts(options))
            for activity in found.pending_activities
            if activity.activity_id in open_rows
            for options in [options_of(open_rows[activity.activity_id])]
        ],
        "progress": {
            activity.activity_id: progress(activity.heartbeat_details)
            for activity in found.pending_activities
        },
        "events": events,
        "earlier": max(0, after - EVENTS_PER_PAGE) if after > 0 else None,
        "later": events[-1].seq if events and events[-1].seq < found.run.history_length else None,
        "ended": bool(events) and REGISTRY[events[-1].type].terminal,
        "now": web.now(),
    }


def timeouts(options: ActivityOptions) -> dict[str, float | None]:
    """Return an activity's four timeouts by kind, in seconds."""
    return {
        "schedule-to-start": options.schedule_to_start_timeout,
        "start-to-close": options.start_to_close_timeout,
        "heartbeat": options.heartbeat_timeout,
        "schedule-to-close": options.schedule_to_close_timeout,
    }


def policy_words(options: ActivityOptions) -> list[tuple[str, str]]:
    """Return an activity's four timeouts and its retry policy, in words."""
    policy = options.policy
    attempts = "unlimited attempts" if policy.max_attempts == 0 else f"at most {policy.max_attempts} attempts"
    backoff = (
        f"after {seconds(policy.initial_interval)} × {policy.backoff_coefficient:g} each, "
        f"{seconds(policy.max_interval)} at most"
    )
    return [
        *((kind, seconds(timeout)) for kind, timeout in timeouts(options).items()),
        ("retries", f"{attempts}, {backoff}"),
    ]


# --- actions --------------------------------------------------------------------------------------------------------


@router.post("/workflows/{workflow_id}/cancel")
async def cancel(
    request: Request, web: TheWeb, _: Writer, workflow_id: WorkflowId, reason: Annotated[str, Form()] = ""
) -> Response:
    """Request cancellation of a workflow."""
    await web.client.handle(workflow_id).cancel(reason or None)
    return _back(request, workflow_id)


@router.post("/workflows/{workflow_id}/terminate")
async def terminate(
    request: Request, web: TheWeb, _: Writer, workflow_id: WorkflowId, reason: Annotated[str, Form()] = ""
) -> Response:
    """Terminate a workflow."""
    await web.client.handle(workflow_id).terminate(reason or None)
    return _back(request, workflow_id)


@router.post("/workflows/{workflow_id}/reset")
async def reset(
    request: Request,
    web: TheWeb,
    _: Writer,
    workflow_id: WorkflowId,
    to: Annotated[str, Form()] = "last-workflow-task",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Start a new run from a point of the history."""
    await web.client.handle(workflow_id).reset(to, reason=reason or None)
    return _back(request, workflow_id)


@router.post("/workflows/{workflow_id}/delete")
async def delete(request: Request, web: TheWeb, _: Writer, workflow_id: WorkflowId) -> Response:
    """Delete a closed workflow."""
    await web.client.delete(workflow_id)
    return RedirectResponse(f"{base_of(request)}/", 303)


@router.post("/workflows/{workflow_id}/signal")
async def signal(
    request: Request,
    web: TheWeb,
    _: Writer,
    workflow_id: WorkflowId,
    name: Annotated[str, Form()],
    args: Annotated[str, Form()] = "",
) -> Response:
    """Send a signal; ``args`` is a JSON array."""
    await web.client.handle(workflow_id).signal(name, *arguments(args))
    return _back(request, workflow_id)


@router.get("/workflows/{workflow_id}/query")
async def query(
    request: Request, web: TheWeb, principal: Reader, workflow_id: WorkflowId, name: str, args: str = ""
) -> Response:
    """Send a query, and show its result."""
    check(principal, Scope.PAYLOADS)
    answer = await web.client.handle(workflow_id).query(name, *arguments(args), timeout=PATIENCE_S)
    return page(
        "answer.html", request, principal, what=f"Query {name}", workflow_id=workflow_id, answer=answer
    )


@router.post("/workflows/{workflow_id}/update")
async def update(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    name: Annotated[str, Form()],
    args: Annotated[str, Form()] = "",
) -> Response:
    """Send an update, and show its result."""
    handle = web.client.handle(workflow_id)
    answer = await handle.execute_update(name, *arguments(args), timeout=PATIENCE_S)
    if not principal.sees_payloads:
        answer = HIDDEN
    return page(
        "answer.html", request, principal, what=f"Update {name}", workflow_id=workflow_id, answer=answer
    )


def _back(request: Request, workflow_id: str) -> Response:
    return RedirectResponse(f"{base_of(request)}/workflows/{quoted(workflow_id)}", 303)
