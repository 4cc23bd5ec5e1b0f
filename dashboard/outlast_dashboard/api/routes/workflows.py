"""Starting workflows, listing them, describing one and waiting for its result."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from outlast import StartOptions
from outlast.client.workflows.run_rows import current_run_id, final_row, row_of
from outlast.text.error_reports import error_document
from outlast.visibility.dags import DagDescription, describe_dag
from outlast.visibility.listing import MOST_PER_PAGE
from outlast.visibility.views import RunPage, WorkflowDescription
from outlast_dashboard.api.contract.fields import MAX_WAIT_S, IdempotencyKey, RunId, WorkflowId
from outlast_dashboard.api.contract.filters import RunFilters
from outlast_dashboard.api.contract.models import Count, EndError, Ending, Started
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.redaction import HIDDEN, description
from outlast_dashboard.api.contract.start_bodies import DebounceBody, StartBody
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.problems import Problem, ProblemError
from outlast_dashboard.web import Web
from outlast_store.reads.run_listing import Order
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyStartedError, WorkflowResultError
from outlast_workflow.primitives.enums import DuplicatePolicy, RunStatus

router = APIRouter(tags=["workflows"])


@router.post("/workflows", status_code=201, responses=problems(404, 409))
async def start(body: StartBody, web: TheWeb, _: Writer, idempotency_key: IdempotencyKey = None) -> Started:
    """Start a workflow. Once this answers, the start is durable.

    An `Idempotency-Key` becomes the workflow id: a repeated request with it gets the same run.
    """
    if idempotency_key is not None and body.workflow_id is not None:
        raise InvalidOptionError(
            "an idempotency key becomes the workflow id: give only one of the two; an id of your own is a key "
            "already, with duplicate_policy reject_duplicate or return_existing",
            field="workflow_id",
        )
    options = body.options()
    if idempotency_key is not None:
        options = options.replace(duplicate_policy=DuplicatePolicy.REJECT_DUPLICATE)
    arguments: list[Any] = body.args
    if body.debounce is not None:
        return await _debounced(body, web, options, body.debounce, idempotency_key or body.workflow_id)
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


async def _debounced(
    body: StartBody, web: Web, options: StartOptions, debounce: DebounceBody, id: str | None
) -> Started:
    if id is not None:
        raise InvalidOptionError(
            "a debounced start has no workflow id: its key decides which calls go together",
            field="workflow_id",
        )
    arguments: list[Any] = body.args
    handle = await web.client.debounce(
        body.workflow_type,
        *arguments,
        key=debounce.key,
        period=debounce.period_seconds,
        timeout=debounce.timeout_seconds,
        task_queue=body.task_queue,
        options=options,
    )
    assert handle.run_id is not None
    return Started(workflow_id=handle.workflow_id, run_id=handle.run_id)


@router.get("/workflows")
async def list_runs(
    filters: RunFilters,
    web: TheWeb,
    _: Reader,
    cursor: Annotated[
        str | None, Query(description="The cursor of the page before, for the same filters.")
    ] = None,
    page_size: Annotated[int, Query(ge=1, le=MOST_PER_PAGE)] = 100,
    order: Annotated[
        Order, Query(description="By age, or open runs by their nearest deadline.")
    ] = Order.NEWEST,
) -> RunPage:
    """List runs by pages, newest first. No run is missed or listed twice, whatever is written meanwhile."""
    return await web.client.list(page_size=page_size, order=order, **filters).page(cursor)


@router.get("/count")
async def count_runs(filters: RunFilters, web: TheWeb, _: Reader) -> Count:
    """Count the runs that match."""
    return Count(count=await web.client.count(**filters))


@router.get("/workflows/{workflow_id}", responses=problems(404))
async def describe(
    workflow_id: WorkflowId, web: TheWeb, principal: Reader, run_id: RunId = None
) -> WorkflowDescription:
    """Describe a workflow: deadlines and the time left, open activities with all four timeouts, failures."""
    return description(await web.client.describe(workflow_id, run_id), principal)


@router.get("/workflows/{workflow_id}/dag", responses=problems(404))
async def describe_as_dag(
    workflow_id: WorkflowId, web: TheWeb, _: Reader, run_id: RunId = None
) -> DagDescription:
    """Describe a run of a DAG: how each node stands, what it waits for, what fires when. No worker is needed."""
    client = web.client
    found = await client.describe(workflow_id, run_id)
    dag = await describe_dag(client.runtime, client.converter, found)
    if dag is None:
        raise ProblemError(
            Problem.of(404, "dag-not-found", "The workflow is not a run of a DAG, or it has not begun yet")
        )
    return dag


@router.get(
    "/workflows/{workflow_id}/result",
    responses={202: {"model": Ending, "description": "The workflow has not ended in time."}, **problems(404)},
)
async def result(
    workflow_id: WorkflowId,
    web: TheWeb,
    principal: Reader,
    response: Response,
    run_id: RunId = None,
    wait_seconds: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="How long to wait for the end; 0 does not wait.")
    ] = 5,
    follow_runs: Annotated[
        bool, Query(description="Whether to go on to the runs that follow; if not, this run alone is asked.")
    ] = True,
) -> Ending:
    """Return the result of a workflow at the end of its chain of runs, or why it has none.

    The status is 202 if the workflow has not ended in time: ask again. Without `follow_runs`, a run that another one
    follows has the error `WorkflowContinuedAsNewError`, which names that one.
    """
    run_id = run_id or await current_run_id(web.client.runtime, workflow_id)
    handle = web.client.handle(workflow_id, run_id=run_id)
    row = await _row(web, workflow_id, run_id, follow_runs)
    if row.is_open and wait_seconds:
        with contextlib.suppress(WorkflowResultError, TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await handle.result(follow_runs=follow_runs)
        row = await _row(web, workflow_id, run_id, follow_runs)
    ending = Ending(workflow_id=workflow_id, run_id=row.run_id, status=RunStatus(row.status))
    if row.is_open:
        response.status_code = 202
        return ending
    try:
        value = await handle.result(follow_runs=follow_runs)
    except WorkflowResultError as error:
        return ending.model_copy(update={"error": EndError.model_validate(error_document(error))})
    return ending.model_copy(update={"result": value if principal.sees_payloads else HIDDEN})


async def _row(web: TheWeb, workflow_id: str, run_id: str, follow_runs: bool) -> RunRow:
    return await (final_row if follow_runs else row_of)(web.client.runtime, workflow_id, run_id)
