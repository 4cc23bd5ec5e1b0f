"""The page that starts a workflow."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast import RetryPolicy, StartOptions
from outlast.errors import OutlastError
from outlast.text.parsing import duration
from outlast_dashboard.authorization import TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import arguments, document, field_of, whole
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.problems import problem_of
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web
from outlast_workflow.primitives.enums import DuplicatePolicy

router = APIRouter()

Text = Annotated[str, Form()]
_MORE: Final = (
    *("start_delay", "priority", "queue", "partition_key", "max_attempts"),
    *("search_attributes", "memo", "summary"),
)


def _typed(
    workflow_type: Text,
    workflow_id: Text = "",
    args: Text = "",
    task_queue: Text = "default",
    execution_timeout: Text = "",
    run_timeout: Text = "",
    duplicate_policy: Text = DuplicatePolicy.ALLOW_DUPLICATE.value,
    start_delay: Text = "",
    priority: Text = "",
    queue: Text = "",
    partition_key: Text = "",
    max_attempts: Text = "",
    search_attributes: Text = "",
    memo: Text = "",
    summary: Text = "",
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
            options=_options(typed),
        )
    except OutlastError as error:
        if problem_of(error).status >= 500:
            raise
        return await _form(request, web, principal, typed, error)
    return RedirectResponse(f"{base_of(request)}/workflows/{quoted(handle.workflow_id)}", 303)


def _options(typed: dict[str, str]) -> StartOptions:
    attempts = whole("max_attempts", typed["max_attempts"])
    priority = whole("priority", typed["priority"])
    options = StartOptions(
        execution_timeout=duration("execution timeout", typed["execution_timeout"] or None),
        run_timeout=duration("run timeout", typed["run_timeout"] or None),
        start_delay=duration("start delay", typed["start_delay"] or None),
        duplicate_policy=typed["duplicate_policy"],
        memo=document("memo", typed["memo"]),
        search_attributes=document("search_attributes", typed["search_attributes"]),
        summary=typed["summary"].strip() or None,
        queue=typed["queue"] or None,
        partition_key=typed["partition_key"] or None,
        retry_policy=None if attempts is None else RetryPolicy(max_attempts=attempts),
    )
    return options if priority is None else options.replace(priority=priority)


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
        "more": any(typed[name] for name in _MORE),
    }
    return page("start.html", request, principal, problem.status if problem is not None else 200, **values)
