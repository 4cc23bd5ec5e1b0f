"""Deferred attempts and time: their deadlines hold without a worker, and without a watchdog."""

from __future__ import annotations

from typing import Any

import pytest
from tests.watchdog.stage import POLICY, SECOND, Stage

from outlast.client.activities import Activities
from outlast.client.context import ClientContext
from outlast.client.intercepted_calls import CompleteActivity, FailActivity, HeartbeatActivity
from outlast_activities.deferred_attempts import DeferAttempt
from outlast_activities.task_token import make_token
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import AttemptNotRunningError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.interceptor_chain import NO_INTERCEPTORS

BOUNDS: dict[str, dict[str, Any]] = {
    "start_to_close": {"start_to_close_timeout": 60},
    "schedule_to_close": {"schedule_to_close_timeout": 60},
    "heartbeat": {"heartbeat_timeout": 60},
}


async def deferred(stage: Stage, bound: str) -> tuple[str, int]:
    """The run and the id of an activity that was left to the outside by a worker which has died since."""
    run_id = await stage.start()
    options = ActivityOptions(retry_policy=POLICY, **BOUNDS[bound])
    await stage.register("worker-1")
    activity_id = await stage.schedule(run_id, options, claimed_by="worker-1")
    assert await stage.apply(DeferAttempt(run_id, activity_id, 1, None))
    await stage.sql("DELETE FROM workers WHERE worker_id = 'worker-1'")
    return run_id, activity_id


@pytest.mark.parametrize("bound", BOUNDS)
async def test_a_watchdog_leaves_it_alone_until_its_deadline(stage: Stage, bound: str) -> None:
    run_id, activity_id = await deferred(stage, bound)
    await stage.prove_connection()
    report = await stage.watchdog.run_pass()
    assert "activity_rescued" not in report.counts
    assert stage.activity(run_id, activity_id).is_deferred
    at = stage.activity(run_id, activity_id).started_at
    assert at is not None
    stage.clock.advance_to(at + 60 * SECOND)
    report = await stage.watchdog.run_pass()
    assert report.counts[bound] == 1
    assert stage.activity(run_id, activity_id).status == (
        "timed_out" if bound == "schedule_to_close" else "pending"
    )


@pytest.mark.parametrize("verb", ["complete", "fail", "heartbeat"])
async def test_a_client_enforces_a_deadline_that_no_watchdog_has_seen(stage: Stage, verb: str) -> None:
    run_id, activity_id = await deferred(stage, "start_to_close")
    stage.clock.advance(60)
    context = ClientContext(stage.runtime, DataConverter(), StructuralLimits(), NO_INTERCEPTORS)
    activities, token = Activities(context), make_token((run_id, activity_id, 1))
    calls = {
        "complete": lambda: activities.complete(CompleteActivity(token, "late")),
        "fail": lambda: activities.fail(FailActivity(token, "late")),
        "heartbeat": lambda: activities.heartbeat(HeartbeatActivity(token, ())),
    }
    with pytest.raises(AttemptNotRunningError) as caught:
        await calls[verb]()
    assert (caught.value.outcome, caught.value.status) == ("timed_out", "pending")
    (attempt,) = stage.attempts(run_id, activity_id)
    assert (attempt.outcome, attempt.timeout_kind, attempt.worker_id) == (
        "timed_out",
        "start_to_close",
        None,
    )
