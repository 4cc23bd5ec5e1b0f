"""What can be done to a run from its page: signals, queries and updates, approvals of DAGs, cancellation,
termination, reset, resumption, deletion, another start.

A form works by itself: it leads to a page with the answer, or back to the run. Where scripts run, the answer is
put into the form's own place, and the page stays as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from outlast.errors import OutlastError
from outlast.text.parsing import duration, moment
from outlast_dashboard.api.contract.fields import WorkflowId
from outlast_dashboard.api.contract.redaction import HIDDEN
from outlast_dashboard.authorization import Reader, TheWeb, Writer, check
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import arguments
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.run.handler_menus import MessageKind, arguments_of, find_menu
from outlast_dashboard.problems import problem_of
from outlast_dashboard.security.principals import Principal, Scope

router = APIRouter()

PATIENCE_S: Final = 10.0

Reason = Annotated[str, Form()]
RunIdField = Annotated[str, Form(max_length=1000)]


async def _typed(request: Request) -> dict[str, str]:
    """Return what was typed into a form, wherever it was sent."""
    sent = request.query_params if request.method == "GET" else await request.form()
    return {name: value for name, value in sent.items() if isinstance(value, str)}


Typed = Annotated[dict[str, str], Depends(_typed)]


@router.get("/workflows/{workflow_id}/handlers/{kind}")
async def handlers(
    request: Request,
    web: TheWeb,
    principal: Reader,
    workflow_id: WorkflowId,
    kind: MessageKind,
    run_id: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Show the menu of the signals, queries or updates that a run handles."""
    check(principal, Scope.PAYLOADS if kind == "query" else Scope.WRITE)
    menu = await find_menu(web.client, workflow_id, run_id or None, kind)
    return page("_handlers.html", request, principal, menu=menu, workflow_id=workflow_id, run_id=run_id)


@router.post("/workflows/{workflow_id}/signal")
async def signal(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    name: Annotated[str, Form()],
    typed: Typed,
) -> Response:
    """Send a signal."""

    async def act() -> None:
        await web.client.handle(workflow_id).signal(name, *_arguments(typed))

    return await _answered(request, principal, workflow_id, act, f"Signal {name} was accepted.")


@router.get("/workflows/{workflow_id}/query")
async def query(
    request: Request, web: TheWeb, principal: Reader, workflow_id: WorkflowId, name: str, typed: Typed
) -> Response:
    """Send a query, and show its result."""
    check(principal, Scope.PAYLOADS)
    handle = web.client.handle(workflow_id, run_id=typed.get("run_id") or None)

    async def act() -> Any:
        return await handle.query(name, *_arguments(typed), timeout=PATIENCE_S)

    return await _answered(request, principal, workflow_id, act, f"Query {name}", shows=True)


@router.post("/workflows/{workflow_id}/update")
async def update(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    name: Annotated[str, Form()],
    typed: Typed,
) -> Response:
    """Send an update, and show its result."""

    async def act() -> Any:
        handle = web.client.handle(workflow_id)
        answer = await handle.execute_update(name, *_arguments(typed), timeout=PATIENCE_S)
        return answer if principal.sees_payloads else HIDDEN

    return await _answered(request, principal, workflow_id, act, f"Update {name}", shows=True)


@router.post("/workflows/{workflow_id}/approve")
async def approve(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    node: Annotated[str, Form()],
    decision: Annotated[Literal["approve", "reject"], Form()],
    comment: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Decide an approval that a DAG waits for, in the name of who asks."""

    async def act() -> Any:
        said = (node, decision, comment.strip() or None, principal.name)
        return await web.client.handle(workflow_id).execute_update("approve", *said, timeout=PATIENCE_S)

    return await _answered(
        request,
        principal,
        workflow_id,
        act,
        f"{node} was {'approved' if decision == 'approve' else 'rejected'}.",
    )


@router.post("/workflows/{workflow_id}/cancel")
async def cancel(
    request: Request, web: TheWeb, principal: Writer, workflow_id: WorkflowId, reason: Reason = ""
) -> Response:
    """Request cancellation of a workflow."""
    act = partial(web.client.handle(workflow_id).cancel, reason or None)
    return await _answered(request, principal, workflow_id, act, "Cancellation was requested.")


@router.post("/workflows/{workflow_id}/terminate")
async def terminate(
    request: Request, web: TheWeb, principal: Writer, workflow_id: WorkflowId, reason: Reason = ""
) -> Response:
    """Terminate a workflow."""
    act = partial(web.client.handle(workflow_id).terminate, reason or None)
    return await _answered(request, principal, workflow_id, act, "It was terminated.")


@router.post("/workflows/{workflow_id}/start-delay")
async def set_start_delay(
    request: Request, web: TheWeb, principal: Writer, workflow_id: WorkflowId, start: Annotated[str, Form()]
) -> Response:
    """Move the start of a workflow that has not begun."""

    async def act() -> None:
        until = moment("start", start.strip(), web.now(), ahead=True)
        await web.client.handle(workflow_id).set_start_delay(until=until)

    return await _answered(request, principal, workflow_id, act, "Its start was moved.")


@router.post("/workflows/{workflow_id}/reset")
async def reset(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    to: Annotated[str, Form()] = "last-workflow-task",
    event: Annotated[str, Form()] = "",
    reason: Reason = "",
    run_id: RunIdField = "",
) -> Response:
    """Start a new run from a point of the history."""

    async def act() -> str:
        handle = web.client.handle(workflow_id, run_id=run_id or None)
        await handle.reset(_point(event.strip() or to), reason=reason or None)
        return _page_of(request, workflow_id)

    return await _led(request, principal, act)


@router.post("/workflows/{workflow_id}/resume")
async def resume(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    reason: Reason = "",
    execution_timeout: Annotated[str, Form()] = "",
    run_id: RunIdField = "",
) -> Response:
    """Take up a workflow that ended badly."""

    async def act() -> str:
        timeout = duration("execution timeout", execution_timeout.strip() or None)
        handle = web.client.handle(workflow_id, run_id=run_id or None)
        await handle.resume(reason=reason or None, execution_timeout=timeout)
        return _page_of(request, workflow_id)

    return await _led(request, principal, act)


@router.post("/workflows/{workflow_id}/fork")
async def fork(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    to: Annotated[str, Form()] = "last-workflow-task",
    event: Annotated[str, Form()] = "",
    fork_id: Annotated[str, Form()] = "",
    reason: Reason = "",
    execution_timeout: Annotated[str, Form()] = "",
    run_id: RunIdField = "",
) -> Response:
    """Start another workflow with the history of this one up to a point."""

    async def act() -> str:
        made = await web.client.handle(workflow_id, run_id=run_id or None).fork(
            _point(event.strip() or to.strip()),
            id=fork_id.strip() or None,
            reason=reason or None,
            execution_timeout=duration("execution timeout", execution_timeout.strip() or None),
        )
        return _page_of(request, made.workflow_id)

    return await _led(request, principal, act)


@router.post("/workflows/{workflow_id}/delete")
async def delete(
    request: Request,
    web: TheWeb,
    principal: Writer,
    workflow_id: WorkflowId,
    children: Annotated[bool, Form()] = False,
) -> Response:
    """Delete a closed workflow, alone or with its children."""

    async def act() -> str:
        await web.client.delete(workflow_id, children=children)
        return f"{base_of(request)}/"

    return await _led(request, principal, act)


async def _answered(
    request: Request,
    principal: Principal,
    workflow_id: str,
    act: Callable[[], Awaitable[Any]],
    said: str,
    *,
    shows: bool = False,
) -> Response:
    """Act, and answer: in the form's own place if a script asked, otherwise by a page.

    Args:
        request: The request.
        principal: Who made it.
        workflow_id: The workflow.
        act: What to do.
        said: What to say once it is done.
        shows: Whether what it returns is shown.
    """
    in_place = "hx-request" in request.headers
    try:
        answer = await act()
    except OutlastError as error:
        return _refused(request, principal, error)
    if not in_place and not shows:
        return RedirectResponse(_page_of(request, workflow_id), 303)
    return page(
        "_answer.html" if in_place else "answer.html",
        request,
        principal,
        problem=None,
        said=said,
        shows=shows,
        answer=answer,
        workflow_id=workflow_id,
    )


async def _led(request: Request, principal: Principal, act: Callable[[], Awaitable[str]]) -> Response:
    """Act, and lead to the page that ``act`` returns the address of. What it refuses is said in the form's own place.

    Args:
        request: The request.
        principal: Who made it.
        act: What to do.
    """
    try:
        address = await act()
    except OutlastError as error:
        return _refused(request, principal, error)
    if "hx-request" in request.headers:
        # A script would put the page that a redirect leads to into the form.
        return Response(headers={"hx-redirect": address})
    return RedirectResponse(address, 303)


def _refused(request: Request, principal: Principal, error: OutlastError) -> Response:
    """Return what a form says of an error in its own place, where what was typed stays.

    Raises:
        OutlastError: There is no script, or it is a failure of the server: the error has a page.
    """
    problem = problem_of(error)
    if "hx-request" not in request.headers or problem.status == 500:
        raise error
    return page("_answer.html", request, principal, problem.status, problem=problem, said="", shows=False)


def _arguments(typed: dict[str, str]) -> list[Any]:
    """Return the arguments of a message: a JSON array, or one field for each, with the array after them."""
    return [*arguments_of(typed), *arguments(typed.get("args", ""))]


def _point(to: str) -> str | int:
    """Return a point of a history: its name, or the number of its last event."""
    return int(to) if to.isdecimal() and len(to) < 16 else to


def _page_of(request: Request, workflow_id: str) -> str:
    return f"{base_of(request)}/workflows/{quoted(workflow_id)}"
