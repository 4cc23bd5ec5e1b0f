"""Activities that somebody outside ends: completed, failed, cancelled and heartbeaten by token or by ids."""

from __future__ import annotations

from fastapi import APIRouter

from outlast_dashboard.api.contract.models import (
    ActivityBody,
    CompleteActivityBody,
    FailActivityBody,
    HeartbeatActivityBody,
)
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.authorization import TheWeb, Writer

router = APIRouter(prefix="/activities", tags=["activities"], responses=problems(404, 409))


@router.post("/complete", status_code=204)
async def complete(body: CompleteActivityBody, web: TheWeb, _: Writer) -> None:
    """Complete an activity. Once this answers, the result is durable.

    A 409 of the type `attempt-not-running` says in `facts.outcome` how the attempt ended: `completed` if this request,
    or another one, has completed it already.
    """
    await web.client.complete_activity(body.named(), body.result)


@router.post("/fail", status_code=204)
async def fail(body: FailActivityBody, web: TheWeb, _: Writer) -> None:
    """Fail an attempt. The activity's retry policy decides whether a worker runs it again, with a new token."""
    await web.client.fail_activity(body.named(), body.error())


@router.post("/cancel", status_code=204)
async def cancel(body: ActivityBody, web: TheWeb, _: Writer) -> None:
    """Acknowledge that an activity's work was stopped, because its workflow asked for that."""
    await web.client.cancel_activity(body.named())


@router.post("/heartbeat", status_code=204)
async def heartbeat(body: HeartbeatActivityBody, web: TheWeb, _: Writer) -> None:
    """Report that an activity is alive. A 409 of the type `activity-cancel-requested` says that it is to be cancelled.

    That heartbeat was recorded all the same.
    """
    await web.client.heartbeat_activity(body.named(), *body.details)
