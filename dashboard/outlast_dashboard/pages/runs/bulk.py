"""One action on many runs: the page that asks first and says how many, and the one that reports.

An action reaches what the page before it showed and nothing more: the runs that were selected, or those that match a
filter and had been created when the page asked. If more of them match by the time of the answer, it asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request
from pydantic import ValidationError
from starlette.responses import Response

from outlast.client.bulk_actions import BulkAction, suited
from outlast.text.parsing import duration, moment
from outlast.visibility.filters import Filters
from outlast.visibility.views import RunSummary
from outlast_dashboard.api.routes.bulk import BulkBody, BulkReport, carry_out
from outlast_dashboard.authorization import TheWeb, Writer
from outlast_dashboard.pages.forms import arguments
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.pages.runs.filters import ChosenRuns
from outlast_dashboard.problems import Problem, ProblemError
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import (
    OPEN_RUN_STATUSES,
)

router = APIRouter()

Text = Annotated[str, Form()]
MOST_NAMED: Final = 10
_PARAMETERS: Final = frozenset(
    {
        *("action", "status", "workflow_type", "task_queue", "queue", "partition_key", "id_prefix", "where"),
        *(
            "schedule",
            "owner",
            "build_id",
            "has_parent",
            "forked_from",
            "was_forked_from",
            "created_after",
            "created_before",
            "attention",
            "order",
            "run_id",
        ),
    }
)


@router.get("/bulk")
async def ask(
    request: Request, web: TheWeb, principal: Writer, action: BulkAction, chosen: ChosenRuns
) -> Response:
    """Show how many runs an action would reach, and ask for confirmation."""
    _check(request, chosen)
    return await _ask(request, web, principal, action, chosen.pinned(web.now()))


async def _ask(
    request: Request,
    web: Web,
    principal: Principal,
    action: BulkAction,
    chosen: ChosenRuns,
    status_code: int = 200,
    **values: Any,
) -> Response:
    filters = chosen.filters(web.now())
    reached = narrowed(filters, action)
    number = 0
    named: Sequence[RunSummary] = ()
    if reached is not None:
        number = await web.client.count(**reached)
        named = (await web.client.list(page_size=MOST_NAMED, **reached).page()).runs
    shown = {
        "number": number,
        "all": await web.client.count(**filters),
        "named": named,
        "report": None,
        "wrong": "",
        "typed": {
            "reason": "",
            "name": "",
            "args": "",
            "to": "last-workflow-task",
            "start": "",
            "timeout": "",
            "children": "",
        },
        "grown": False,
        **values,
    }
    return page(
        "bulk.html",
        request,
        principal,
        status_code,
        action=action.value,
        chosen=chosen,
        now=web.now(),
        **shown,
    )


@router.post("/bulk")
async def act(
    request: Request,
    web: TheWeb,
    principal: Writer,
    chosen: ChosenRuns,
    action: Annotated[BulkAction, Form()],
    number: Annotated[int, Form(ge=0, le=10**12)] = 0,
    reason: Text = "",
    name: Text = "",
    args: Text = "",
    children: Text = "",
    to: Text = "last-workflow-task",
    start: Text = "",
    timeout: Text = "",
    cursor: Text = "",
) -> Response:
    """Carry out the action on the next thousand of the number that was confirmed."""
    _check(request, chosen)
    typed = {
        "reason": reason,
        "name": name,
        "args": args,
        "to": to,
        "start": start,
        "timeout": timeout,
        "children": children,
    }
    reached = narrowed(chosen.filters(web.now()), action)
    count = 0 if reached is None else await web.client.count(**reached)
    if reached is None or (not cursor and count > number):
        return await _ask(request, web, principal, action, chosen, 409, typed=typed, grown=True)
    try:
        until = moment("start", start, web.now(), ahead=True) if start else None
        if until is not None:
            # The next thousand get the same instant.
            typed["start"] = until.isoformat()
        body = BulkBody.model_validate(
            {
                "reason": reason or None,
                "name": name or None,
                "args": arguments(args),
                "to": to,
                "until": until,
                "execution_timeout_seconds": duration("execution timeout", timeout.strip() or None),
                "children": bool(children),
                "cursor": cursor or None,
            }
        )
        report: BulkReport = await carry_out(web, action, body, reached)
    except (InvalidOptionError, ValidationError) as error:
        wrong = error.message if isinstance(error, InvalidOptionError) else _what_is_wrong(error)
        return await _ask(request, web, principal, action, chosen, 422, typed=typed, wrong=wrong)
    return page(
        "bulk.html",
        request,
        principal,
        action=action.value,
        chosen=chosen,
        number=number,
        all=number,
        named=(),
        report=report,
        wrong="",
        typed=typed,
        grown=False,
        now=web.now(),
    )


def _what_is_wrong(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())


def narrowed(filters: Filters, action: BulkAction) -> Filters | None:
    """Return the filters with what the action needs, or ``None`` if nothing can match: closed runs cannot be cancelled.

    Args:
        filters: The filters that were chosen.
        action: The action: what it can be done to is added to the filters.
    """
    reached: Filters = {**filters, "latest": True}
    status, suits = filters.get("status"), suited(action)
    wanted = suits.get("open")
    if wanted is not None:
        if status is not None and (status in OPEN_RUN_STATUSES) is not wanted:
            return None
        if filters.get("open") is True and not wanted:
            return None
        reached["open"] = wanted
    statuses = suits.get("status")
    if isinstance(statuses, list):
        if status is None:
            reached["status"] = statuses
        elif status not in statuses:
            return None
    return reached


def _check(request: Request, chosen: ChosenRuns) -> None:
    """Refuse a parameter that is not known: a misspelt filter would make the action wider than what was meant.

    Raises:
        ProblemError: There is such a parameter, or nothing says which runs are meant.
    """
    for name in request.query_params:
        if name not in _PARAMETERS:
            raise ProblemError(
                Problem.of(422, "unknown-parameter", f"There is no filter {name!r:.100} here", field=name)
            )
    if chosen.is_empty:
        raise ProblemError(
            Problem.of(422, "nothing-selected", "Select some runs first, or choose a filter that says which")
        )
