"""Starting a workflow from a page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from holdfast import StartOptions
from holdfast.cli.options import duration
from holdfast_dashboard.access import TheWeb, Writer
from holdfast_dashboard.pages.forms import arguments
from holdfast_dashboard.pages.rendering import base_of, page
from holdfast_dashboard.paths import quoted
from holdfast_workflow.kinds import DuplicatePolicy

router = APIRouter()

Text = Annotated[str, Form()]


@router.get("/start")
async def ask(request: Request, web: TheWeb, principal: Writer) -> Response:
    """The form; what live workers serve is offered."""
    types = {name for worker in await web.client.workers() if worker.alive for name in worker.workflows}
    return page("start.html", request, principal, types=sorted(types), policies=[*DuplicatePolicy])


@router.post("/start")
async def start(
    request: Request,
    web: TheWeb,
    _: Writer,
    workflow_type: Text,
    workflow_id: Text = "",
    args: Text = "",
    task_queue: Text = "default",
    execution_timeout: Text = "",
    run_timeout: Text = "",
    duplicate_policy: Text = DuplicatePolicy.ALLOW_DUPLICATE.value,
) -> Response:
    """Start it, and show the run."""
    options = StartOptions(
        execution_timeout=duration("execution timeout", execution_timeout or None),
        run_timeout=duration("run timeout", run_timeout or None),
        duplicate_policy=duplicate_policy,
    )
    handle = await web.client.start(
        workflow_type, *arguments(args), id=workflow_id or None, task_queue=task_queue, options=options
    )
    return RedirectResponse(f"{base_of(request)}/workflows/{quoted(handle.workflow_id)}", 303)
