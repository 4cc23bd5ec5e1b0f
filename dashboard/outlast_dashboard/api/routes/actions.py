"""Requests to a workflow: signals, queries, updates, cancellation, termination, reset, resumption and deletion."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from outlast import SignalTo
from outlast.errors import RequestTimeoutError
from outlast_dashboard.api.contract.fields import (
    MAX_WAIT_S,
    HandlerName,
    IdempotencyKey,
    MemoName,
    RunId,
    WaitQuery,
    WorkflowId,
)
from outlast_dashboard.api.contract.models import (
    Answer,
    ArgsBody,
    Done,
    ForkBody,
    MemoValue,
    QueryBody,
    ReasonBody,
    ResetBody,
    ResumeBody,
    Signalled,
    SignalsBody,
    StartDelayBody,
    Started,
    UpdateBody,
    UpdateState,
)
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.redaction import HIDDEN
from outlast_dashboard.authorization import Reader, TheWeb, Writer, check
from outlast_dashboard.security.principals import Scope
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import KEEP

router = APIRouter(tags=["requests"], responses=problems(404, 409))


@router.post("/workflows/{workflow_id}/signals/{name}", status_code=202)
async def signal(
    workflow_id: WorkflowId,
    name: HandlerName,
    body: ArgsBody,
    web: TheWeb,
    _: Writer,
    run_id: RunId = None,
    idempotency_key: IdempotencyKey = None,
) -> Done:
    """Send a signal. Once this answers, the signal is durable; signals are handled in the order of arrival."""
    handle = web.client.handle(workflow_id, run_id=run_id)
    await handle.signal(name, *body.args, request_id=idempotency_key)
    return Done(workflow_id=workflow_id)


@router.post("/signals", status_code=202)
async def signal_many(body: SignalsBody, web: TheWeb, _: Writer) -> Signalled:
    """Send signals to several workflows in one transaction: all of them, or none."""
    signals = [
        SignalTo(one.workflow_id, one.name, *one.args, request_id=one.request_id) for one in body.signals
    ]
    sent = await web.client.signal_many(signals, to_forks=body.to_forks)
    return Signalled(workflow_ids=list(sent))


@router.get("/workflows/{workflow_id}/memo/{name}", responses=problems(408))
async def memo_value(
    workflow_id: WorkflowId,
    name: MemoName,
    web: TheWeb,
    principal: Reader,
    run_id: RunId = None,
    timeout_seconds: WaitQuery = 0,
) -> MemoValue:
    """Read a field of a memo, and wait until the workflow's code has set it. Memos are payloads."""
    check(principal, Scope.PAYLOADS)
    handle = web.client.handle(workflow_id, run_id=run_id)
    seconds = wait(timeout_seconds) if timeout_seconds else 0
    try:
        return MemoValue(value=await handle.memo_value(name, timeout=seconds))
    except TimeoutError:
        raise RequestTimeoutError(workflow_id, name, seconds) from None


@router.post("/workflows/{workflow_id}/queries/{name}", responses=problems(408))
async def query(
    workflow_id: WorkflowId,
    name: HandlerName,
    body: QueryBody,
    web: TheWeb,
    principal: Reader,
    run_id: RunId = None,
) -> Answer:
    """Query an open or closed workflow, which does not change. Results are payloads."""
    check(principal, Scope.PAYLOADS)
    handle = web.client.handle(workflow_id, run_id=run_id)
    return Answer(answer=await handle.query(name, *body.args, timeout=wait(body.timeout_seconds)))


@router.post("/workflows/{workflow_id}/updates/{name}", responses={202: {"model": UpdateState}})
async def update(
    workflow_id: WorkflowId,
    name: HandlerName,
    body: UpdateBody,
    web: TheWeb,
    principal: Writer,
    response: Response,
    run_id: RunId = None,
    idempotency_key: IdempotencyKey = None,
) -> UpdateState:
    """Send an update. An update id happens once: a repeated request gets the same answer.

    If the update does not reach `wait_for` in time, the response is 202 with the state `sent` or `accepted`. The update
    continues, and the same request with its id asks for it again.
    """
    handle = web.client.handle(workflow_id, run_id=run_id)
    seconds = wait(body.timeout_seconds)
    until = web.clock.monotonic() + seconds
    if body.update_id is not None and idempotency_key is not None:
        raise InvalidOptionError(
            "an idempotency key is the update's id: give only one of the two", field="update_id"
        )
    update_id = body.update_id or idempotency_key or web.client.runtime.environment.ids.next()
    found = UpdateState(update_id=update_id, state="sent")
    try:
        made = await handle.start_update(name, *body.args, id=update_id, timeout=seconds)
        found = UpdateState(update_id=update_id, state="accepted")
        if body.wait_for == "accepted":
            return found
        answer = await made.result(max(until - web.clock.monotonic(), 0.001))
    except RequestTimeoutError:
        response.status_code = 202
        return found
    shown = answer if principal.sees_payloads else HIDDEN
    return UpdateState(update_id=update_id, state="completed", answer=shown)


def wait(seconds: float) -> float:
    """Return how long a request waits, in seconds.

    Raises:
        InvalidOptionError: It is not positive, or longer than a request may wait.
    """
    if not 0 < seconds <= MAX_WAIT_S:
        raise InvalidOptionError(
            f"timeout must be positive, and at most {MAX_WAIT_S} seconds here: ask again for longer",
            field="timeout_seconds",
        )
    return seconds


@router.post("/workflows/{workflow_id}/cancel", status_code=202)
async def cancel(
    workflow_id: WorkflowId, body: ReasonBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Done:
    """Request cancellation of a workflow; its code decides what happens. A second request changes nothing."""
    await web.client.handle(workflow_id, run_id=run_id).cancel(body.reason)
    return Done(workflow_id=workflow_id)


@router.post("/workflows/{workflow_id}/terminate")
async def terminate(
    workflow_id: WorkflowId, body: ReasonBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Done:
    """End a workflow at once, without its code."""
    await web.client.handle(workflow_id, run_id=run_id).terminate(body.reason)
    return Done(workflow_id=workflow_id)


@router.post("/workflows/{workflow_id}/start-delay")
async def set_start_delay(
    workflow_id: WorkflowId, body: StartDelayBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Done:
    """Move the start of a workflow that has not begun. Exactly one of the two fields is needed."""
    handle = web.client.handle(workflow_id, run_id=run_id)
    await handle.set_start_delay(body.delay_seconds, until=body.until)
    return Done(workflow_id=workflow_id)


@router.post("/workflows/{workflow_id}/reset", status_code=201)
async def reset(
    workflow_id: WorkflowId, body: ResetBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Started:
    """Start a new run from a point of the history. An open run ends in the same transaction."""
    handle = await web.client.handle(workflow_id, run_id=run_id).reset(
        body.to,
        reason=body.reason,
        execution_timeout=body.execution_timeout_seconds,
        signals=body.signals,
    )
    assert handle.run_id is not None
    return Started(workflow_id=workflow_id, run_id=handle.run_id)


@router.post("/workflows/{workflow_id}/fork", status_code=201)
async def fork(
    workflow_id: WorkflowId, body: ForkBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Started:
    """Start another workflow with the history of this one up to a point. This one is not touched."""
    given = body.model_fields_set
    handle = await web.client.handle(workflow_id, run_id=run_id).fork(
        body.to,
        before=body.before,
        id=body.workflow_id,
        duplicate_policy=body.duplicate_policy,
        task_queue=body.task_queue,
        queue=body.queue if "queue" in given else KEEP,
        partition_key=body.partition_key if "partition_key" in given else KEEP,
        execution_timeout=body.execution_timeout_seconds,
        reason=body.reason,
        signals=body.signals,
    )
    assert handle.run_id is not None
    return Started(workflow_id=handle.workflow_id, run_id=handle.run_id)


@router.post("/workflows/{workflow_id}/resume", status_code=201)
async def resume(
    workflow_id: WorkflowId, body: ResumeBody, web: TheWeb, _: Writer, run_id: RunId = None
) -> Started:
    """Take up a workflow that was cancelled or terminated, that timed out or failed."""
    handle = await web.client.handle(workflow_id, run_id=run_id).resume(
        reason=body.reason,
        execution_timeout=body.execution_timeout_seconds,
        queue=body.queue if "queue" in body.model_fields_set else KEEP,
        signals=body.signals,
    )
    assert handle.run_id is not None
    return Started(workflow_id=workflow_id, run_id=handle.run_id)


@router.delete("/workflows/{workflow_id}")
async def delete(
    workflow_id: WorkflowId,
    web: TheWeb,
    _: Writer,
    terminate: Annotated[bool, Query(description="Terminate it first if it is open.")] = False,
    children: Annotated[
        bool, Query(description="Also delete what it has started as children, and theirs.")
    ] = False,
) -> Done:
    """Delete a closed workflow: all of its runs, histories and requests. Its id is free afterwards."""
    await web.client.delete(workflow_id, terminate=terminate, children=children)
    return Done(workflow_id=workflow_id)
