"""The page that starts a workflow."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast import StartOptions
from outlast.errors import OutlastError
from outlast.text.parsing import instant
from outlast_dashboard.authorization import TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import arguments, field_of
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.start_options import FOLDED, options_typed
from outlast_dashboard.problems import problem_of
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web
from outlast_workflow.primitives.enums import DuplicatePolicy

router = APIRouter()

Text = Annotated[str, Form()]


def _typed(
    workflow_type: Text,
    workflow_id: Text = "",
    args: Text = "",
    task_queue: Text = "default",
    execution_timeout: Text = "",
    execution_deadline: Text = "",
    run_timeout: Text = "",
    duplicate_policy: Text = DuplicatePolicy.ALLOW_DUPLICATE.value,
    start_delay: Text = "",
    priority: Text = "",
    queue: Text = "",
    partition_key: Text = "",
    schedule_to_start_timeout: Text = "",
    max_attempts: Text = "",
    search_attributes: Text = "",
    memo: Text = "",
    summary: Text = "",
    alerts: Text = "",
) -> dict[str, str]:
    return dict(locals())


@router.get("/start")
async def ask(request: Request, web: TheWeb, principal: Writer) -> Response:
    """Show the form. It suggests the workflow types and task queues that are known."""
    return await _form(request, web, principal, _typed("", duplicate_policy="allow_duplicate"))


@router.post("/start")
async def start(
    request: Request, web: TheWeb, principal: Writer, typed: Annotated[dict[str, str], Depends(_typed)]
) -> Response:
    """Start a workflow, and show its run. An error is shown at its field, and the form keeps what was typed."""
    try:
        handle = await web.client.start(
            typed["workflow_type"],
            *arguments(typed["args"]),
            id=typed["workflow_id"] or None,
            task_queue=typed["task_queue"],
            options=StartOptions(
                **options_typed(typed),
                execution_deadline=instant("execution deadline", typed["execution_deadline"].strip() or None),
                duplicate_policy=typed["duplicate_policy"],
            ),
        )
    except OutlastError as error:
        if problem_of(error).status >= 500:
            raise
        return await _form(request, web, principal, typed, error)
    return RedirectResponse(f"{base_of(request)}/workflows/{quoted(handle.workflow_id)}", 303)


async def _form(
    request: Request,
    web: Web,
    principal: Principal,
    typed: dict[str, str],
    error: OutlastError | None = None,
) -> Response:
    known = await known_names(web)
    problem = problem_of(error) if error is not None else None
    field = field_of(error, typed) if error is not None else None
    values: dict[str, Any] = {
        "typed": typed,
        **known,
        "policies": [*DuplicatePolicy],
        "wrong": {field: problem.detail} if problem is not None and field is not None else {},
        "other": problem.detail if problem is not None and field is None else "",
        "more": any(typed[name] for name in (*FOLDED, "execution_deadline")),
    }
    return page("start.html", request, principal, problem.status if problem is not None else 200, **values)
