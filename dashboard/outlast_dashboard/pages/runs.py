"""The first page: runs, and above them those that need attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from starlette.responses import Response

from outlast.text.attributes import conditions
from outlast.visibility.filters import Filters
from outlast.visibility.views import RunPage, RunSummary
from outlast_dashboard.api.routes.bulk import Action, BulkBody, carry_out
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.security.principals import Scope
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import RunStatus

router = APIRouter()

PAGE_SIZE: Final = 50
MOST_NEEDING_ATTENTION: Final = 20

Choice = Annotated[str, Query()]
Field = Annotated[str, Form()]


def _chosen(
    status: Choice = "",
    workflow_type: Choice = "",
    task_queue: Choice = "",
    id_prefix: Choice = "",
    where: Choice = "",
) -> dict[str, str]:
    return {
        "status": status,
        "workflow_type": workflow_type.strip(),
        "task_queue": task_queue.strip(),
        "id_prefix": id_prefix.strip(),
        "where": where.strip(),
    }


Chosen = Annotated[dict[str, str], Depends(_chosen)]
"""The filters of the form above the runs."""


@router.get("/")
async def runs(
    request: Request,
    web: TheWeb,
    principal: Reader,
    chosen: Chosen,
    cursor: Choice = "",
) -> Response:
    """Show runs, newest first."""
    client = web.client

    async def values() -> dict[str, Any]:
        shown = await client.list(page_size=PAGE_SIZE, **_filters(chosen)).page(cursor or None)
        needing_attention: Sequence[RunSummary] = ()
        if not cursor and not any(chosen.values()):
            needing_attention = (
                await client.list(page_size=MOST_NEEDING_ATTENTION, attention=True).page()
            ).runs
        return {
            "runs": shown.runs,
            "needing_attention": needing_attention,
            "older": _older(chosen, shown),
            "newest": _query(chosen) if cursor else None,
            "now": web.now(),
        }

    form = {
        "chosen": chosen,
        "statuses": [("open", "open"), *((kind.value, kind.value.replace("_", " ")) for kind in RunStatus)],
        "live_url": request.url.query,
    }
    bulk = _query(chosen) if principal.may(Scope.WRITE) else ""
    try:
        return await live_page(request, web, principal, "runs", values, **form, bulk=bulk, wrong={})
    except InvalidOptionError as error:
        field = field_of(error, chosen)
        if field is None:
            raise
        return page("runs.html", request, principal, 422, **form, bulk="", wrong={field: error.message})


def _filters(chosen: dict[str, str]) -> Filters:
    filters = Filters()
    for name, value in chosen.items():
        if not value:
            continue
        if name == "status" and value == "open":
            filters["open"] = True
        elif name == "where":
            filters["where"] = conditions([part for part in value.split(" and ") if part.strip()])
        else:
            filters[name] = value  # type: ignore[literal-required]  # the names are those of Filters
    return filters


def _query(chosen: dict[str, str], **more: str) -> str:
    return urlencode({name: value for name, value in {**chosen, **more}.items() if value})


def _older(chosen: dict[str, str], shown: RunPage) -> str | None:
    return _query(chosen, cursor=shown.cursor) if shown.cursor is not None else None


@router.get("/bulk")
async def ask(
    request: Request,
    web: TheWeb,
    principal: Writer,
    action: Action,
    chosen: Chosen,
) -> Response:
    """Show how many runs match, and ask for confirmation."""
    number = await web.client.count(**_filters(chosen))
    return page(
        "bulk.html", request, principal, action=action.value, chosen=chosen, number=number, report=None
    )


@router.post("/bulk")
async def act(
    request: Request,
    web: TheWeb,
    principal: Writer,
    action: Annotated[Action, Form()],
    status: Field = "",
    workflow_type: Field = "",
    task_queue: Field = "",
    id_prefix: Field = "",
    where: Field = "",
    reason: Field = "",
    cursor: Field = "",
) -> Response:
    """Carry out the action on the next thousand."""
    chosen = _chosen(status, workflow_type, task_queue, id_prefix, where)
    body = BulkBody(reason=reason or None, cursor=cursor or None)
    report = await carry_out(web, action, body, _filters(chosen))
    number = await web.client.count(**_filters(chosen))
    return page(
        "bulk.html", request, principal, action=action.value, chosen=chosen, number=number, report=report
    )
