"""One action on all runs that match, at most a thousand per request; a cursor continues where a request ended."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from outlast.client.bulk_actions import ActionDetails, BulkAction, begin
from outlast.visibility.filters import Filters, leaves_out
from outlast.visibility.views import View
from outlast_dashboard.api.contract.fields import Timeout
from outlast_dashboard.api.contract.filters import RunFilters
from outlast_dashboard.api.contract.models import Point, ReasonBody, StartDelayBody
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.authorization import TheWeb, Writer
from outlast_dashboard.problems import Problem, problem_of
from outlast_dashboard.web import Web
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer

router = APIRouter(tags=["bulk"])

MOST_PER_REQUEST: Final = 1000


class BulkBody(ReasonBody, StartDelayBody):
    """The details of an action.

    ``signal`` needs a ``name``; ``to`` is for ``reset`` and ``fork``, ``before`` (the id of a command) for ``fork``
    instead; ``execution_timeout_seconds`` is for these and ``resume``;
    ``set-start-delay`` needs ``delay_seconds`` or ``until``; ``terminate`` and ``children`` are for ``delete``.
    ``workflow_ids`` is the filter of that name, for more ids than an address holds.
    """

    name: StrictStr | None = None
    args: list[Any] = Field(default_factory=list)
    to: Point = "last-workflow-task"
    before: Annotated[StrictInt, Field(ge=1)] | None = None
    execution_timeout_seconds: Timeout | None = None
    terminate: StrictBool = False
    children: StrictBool = False
    workflow_ids: list[StrictStr] | None = None
    cursor: str | None = None
    limit: Annotated[
        StrictInt, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_PER_REQUEST})
    ] = MOST_PER_REQUEST


class Refused(View):
    """One that it could not be done to, and why."""

    workflow_id: str
    run_id: str | None
    problem: Problem


class BulkReport(View):
    """The outcome of a request. A ``cursor`` means that more runs match; it continues there.

    ``forks`` has the workflow id of each fork by that of its original.
    """

    done: int
    refused: list[Refused]
    cursor: str | None
    forks: dict[str, str]


@router.post("/bulk/{action}", responses=problems(404))
async def bulk(action: BulkAction, body: BulkBody, filters: RunFilters, web: TheWeb, _: Writer) -> BulkReport:
    """Cancel, terminate, reset, resume, fork, delete or signal what matches, or move its start; a filter is needed."""
    return await carry_out(web, action, body, filters)


async def carry_out(web: Web, action: BulkAction, body: BulkBody, filters: Filters) -> BulkReport:
    """Carry out an action on the next runs that match.

    Args:
        web: The control plane.
        action: The action.
        body: Its details.
        filters: Which runs.

    Raises:
        InvalidOptionError: There is no filter, or a detail is missing or not valid.
    """
    if body.workflow_ids is not None:
        filters = {**filters, "workflow_ids": body.workflow_ids}
    if not leaves_out(filters):
        raise InvalidOptionError("a bulk action needs a filter that says which runs", field="filters")
    limit = integer("limit", body.limit, 1, MOST_PER_REQUEST)
    details = ActionDetails(
        reason=body.reason,
        name=body.name,
        args=body.args,
        to=body.to,
        before=body.before,
        execution_timeout=body.execution_timeout_seconds,
        delay=body.delay_seconds,
        until=body.until,
        terminate=body.terminate,
        children=body.children,
    )
    walk = begin(web.client.bulk(cursor=body.cursor, **filters), action, details)
    done, refused, cursor = 0, [], None
    forks: dict[str, str] = {}
    async for outcome in walk:
        if outcome.error is None:
            done += 1
            if outcome.fork_id is not None:
                forks[outcome.workflow_id] = outcome.fork_id
        else:
            refused.append(
                Refused(
                    workflow_id=outcome.workflow_id, run_id=outcome.run_id, problem=problem_of(outcome.error)
                )
            )
        # Ids that no workflow has come first, and no cursor lies behind them.
        if outcome.run_id is not None and done + len(refused) >= limit:
            cursor = outcome.cursor
            break
    return BulkReport(done=done, refused=refused, cursor=cursor, forks=forks)
