"""Starting workflows, finding them, looking at one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from holdfast.listing import MOST_PER_PAGE
from holdfast.views import RunPage, WorkflowDescription
from holdfast_dashboard.access import Reader, TheWeb, Writer
from holdfast_dashboard.api.fields import IdempotencyKey, RunId, WorkflowId
from holdfast_dashboard.api.filters import RunFilters
from holdfast_dashboard.api.models import Count, StartBody, Started
from holdfast_dashboard.api.redaction import description
from holdfast_dashboard.api.responses import problems
from holdfast_workflow.errors import InvalidOptionError, WorkflowAlreadyStartedError
from holdfast_workflow.kinds import DuplicatePolicy

router = APIRouter(tags=["workflows"])


@router.post("/workflows", status_code=201, responses=problems(409))
async def start(body: StartBody, web: TheWeb, _: Writer, idempotency_key: IdempotencyKey = None) -> Started:
    """Start a workflow; when this answers, the start is durable.

    With an `Idempotency-Key` it is the workflow id, and whoever starts with it again is told of the same run.
    """
    if idempotency_key is not None and body.workflow_id is not None:
        raise InvalidOptionError(
            "an idempotency key stands for the workflow id: give one of the two; an id of your own is a key "
            "already, with duplicate_policy reject_duplicate or return_existing",
            field="workflow_id",
        )
    options = body.options()
    if idempotency_key is not None:
        options = options.replace(duplicate_policy=DuplicatePolicy.REJECT_DUPLICATE)
    arguments: list[Any] = body.args
    try:
        handle = await web.client.start(
            body.workflow_type,
            *arguments,
            id=body.workflow_id or idempotency_key,
            task_queue=body.task_queue,
            options=options,
        )
    except WorkflowAlreadyStartedError as known:
        if idempotency_key is None:
            raise
        return Started(workflow_id=known.workflow_id, run_id=known.run_id)
    assert handle.run_id is not None
    return Started(workflow_id=handle.workflow_id, run_id=handle.run_id)


@router.get("/workflows")
async def list_runs(
    filters: RunFilters,
    web: TheWeb,
    _: Reader,
    cursor: Annotated[str | None, Query(description="From the page before; for the same filters.")] = None,
    page_size: Annotated[int, Query(ge=1, le=MOST_PER_PAGE)] = 100,
) -> RunPage:
    """Runs, newest first, a page at a time. A walk misses none and shows none twice, whatever is written meanwhile."""
    return await web.client.list(page_size=page_size, **filters).page(cursor)


@router.get("/workflows/count")
async def count_runs(filters: RunFilters, web: TheWeb, _: Reader) -> Count:
    """How many runs match."""
    return Count(count=await web.client.count(**filters))


@router.get("/workflows/{workflow_id}", responses=problems(404))
async def describe(
    workflow_id: WorkflowId, web: TheWeb, principal: Reader, run_id: RunId = None
) -> WorkflowDescription:
    """What a workflow is doing: deadlines and the time left, open activities with all four timeouts, failures."""
    return description(await web.client.describe(workflow_id, run_id), principal)
