"""Routing queries: to a worker of this process, or through a request row to the worker of another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from outlast.runtime.local_worker import LocalWorker
from outlast.runtime.runtime import Runtime
from outlast_runs.queries import AskQuery, ForgetQuery, QueryRequest, QueryResult
from outlast_store.reads.serving import lack_of_run
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.requests import OPEN
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.data.headers import stored
from outlast_workflow.errors import JournalClosedError
from outlast_workflow.errors.request import (
    NoWorkerError,
    QueryFailedError,
    RequestTimeoutError,
    UnknownHandlerError,
)
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND
from outlast_workflow.primitives.type_families import serves

DEFAULT_TIMEOUT_S: Final = 10.0
"""How long a query waits for its result where its caller says nothing."""


async def query_run(runtime: Runtime, run: RunRow, request: QueryRequest, timeout_s: float) -> QueryResult:
    """Query a run.

    Args:
        runtime: The database.
        run: The run.
        request: The query.
        timeout_s: Seconds to wait for the result.

    Raises:
        NoWorkerError: No live worker has the run's code and serves its task queue.
        RequestTimeoutError: There was no result in time.
    """
    worker = _local_worker(runtime, run)
    try:
        async with asyncio.timeout(timeout_s):
            if worker is not None:
                return await worker.answer_query(run.run_id, request, run)
            return await _query_elsewhere(runtime, run, request, timeout_s)
    except TimeoutError:
        raise RequestTimeoutError(run.workflow_id, request.name, timeout_s) from None


def _local_worker(runtime: Runtime, run: RunRow) -> LocalWorker | None:
    """Return a worker of this process that has the run's code, preferably the run's owner."""
    able: LocalWorker | None = None
    for worker in runtime.workers:
        if run.workflow_type in worker.types or serves(worker.types, run.workflow_type):
            if worker.worker_id == run.owner_id:
                return worker
            able = able or worker
    return able


async def _query_elsewhere(
    runtime: Runtime, run: RunRow, request: QueryRequest, timeout_s: float
) -> QueryResult:
    if await runtime.read(lack_of_run, run, runtime.environment.clock.now()) is not None:
        raise NoWorkerError(run.workflow_type, run.task_queue)
    row = RequestRow(
        first_run_id=run.first_run_id,
        kind="query",
        request_id=runtime.environment.ids.next(),
        run_id=run.run_id,
        name=request.name,
        input=stored(request.input, request.headers),
        state=OPEN,
        answer=None,
        answer_seq=None,
        created_at=0,
        expires_at=None,
    )
    subscription = runtime.request_waits.subscribe(row.kind, row.request_id)
    try:
        key = await runtime.journal.apply(AskQuery(row, int(timeout_s * MICROSECONDS_PER_SECOND)))
        # The answer comes from another process, whichever process owns the run.
        _, text = await runtime.request_waits.wait(subscription, key, None)
        return QueryResult.from_text(text, run.run_id)
    finally:
        with suppress(JournalClosedError):
            runtime.journal.submit(ForgetQuery(row.key), lambda value, error: None)


def value_of(result: QueryResult, run: RunRow, name: str, converter: DataConverter, result_type: Any) -> Any:
    """Return what a query's handler returned.

    Args:
        result: The result of the query.
        run: The run.
        name: The query's name.
        converter: Decodes the value or the failure.
        result_type: How to read the value.

    Raises:
        UnknownHandlerError: The workflow has no such query.
        QueryFailedError: The handler raised, or the run's code could not be replayed.
    """
    if result.result is not None:
        return converter.decode(result.result, result_type, f"the answer of query {name}")
    cause = exception_of(result.failure or {}, converter)
    if isinstance(cause, UnknownHandlerError):
        raise cause
    raise QueryFailedError(run.workflow_id, name) from cause
