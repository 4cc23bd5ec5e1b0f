"""Committing a workflow task: what refuses it, what holds back an end, and what a success clears."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.watchdog.stage import Stage

from outlast_runs.run_change import RequestCancellation
from outlast_runs.signals import SendSignal
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import Applied, OwnResult, WorkflowTask
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import (
    ActivityCompleted,
    SignalReceived,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowTaskCompleted,
)
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.payloads import Payload

DONE = WorkflowCompleted(Payload.of("done"))


async def commit(stage: Stage, run_id: str, *, seen_seq: int | None = None, **task: Any) -> Applied:
    run = stage.run(run_id)
    record = WorkflowTaskCompleted(
        through=run.last_seq,
        own=len(task.get("own", ())),
        at=stage.clock.us,
        commands=len(task.get("commands", ())),
        history_events=run.last_seq,
        history_bytes=run.history_bytes,
        python=11,
    )
    decided: dict[str, Any] = {
        "worker_id": "worker-1",
        "fence": 1,
        "seen_seq": run.last_seq if seen_seq is None else seen_seq,
        "seen_inbox": run.inbox,
        "record": record,
        "commands": [],
        **task,
    }
    applied: Applied = await stage.apply(CommitWorkflowTask(run, WorkflowTask(**decided)))
    return applied


async def reason_for_refusal(stage: Stage, run_id: str, **task: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        await commit(stage, run_id, **task)
    return refused.value.reason


async def test_a_commit_under_an_old_fence_is_refused_even_past_the_deadline(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(StartOptions(run_timeout=60), owner_id="worker-1")
    assert await reason_for_refusal(memory_stage, run_id, fence=0) == "fenced"
    memory_stage.clock.advance(60)
    assert await reason_for_refusal(memory_stage, run_id, worker_id="worker-2") == "fenced"
    assert memory_stage.run(run_id).status == "pending", "who is fenced off ends no run"


async def test_a_passed_deadline_ends_the_run_instead_of_its_command(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(StartOptions(run_timeout=60), owner_id="worker-1")
    memory_stage.clock.advance(60)
    applied = await commit(memory_stage, run_id, commands=[DONE])
    assert applied.run.status == "timed_out"
    assert memory_stage.types(run_id) == ["WorkflowStarted", "WorkflowTimedOut"]


async def test_an_unseen_signal_or_cancel_request_holds_back_the_end(memory_stage: Stage) -> None:
    signal = SignalReceived("approve", Payload.of([]))
    for number, change in enumerate(("signal", "cancel"), 1):
        run_id = await memory_stage.start(owner_id="worker-1")
        if change == "signal":
            await memory_stage.apply(SendSignal(f"workflow-{number}", run_id, signal, DEFAULT_LIMITS))
        else:
            await memory_stage.apply(RequestCancellation(f"workflow-{number}", run_id, None))
        assert await reason_for_refusal(memory_stage, run_id, seen_seq=1, commands=[DONE]) == "unseen"
        applied = await commit(memory_stage, run_id, seen_seq=1)
        assert applied.run.wake_at is not None, "the news still waits for a workflow task"


async def test_a_second_workflow_task_from_the_same_point_is_refused(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    await commit(memory_stage, run_id)
    assert await reason_for_refusal(memory_stage, run_id, seen_seq=1) == "stale"


async def test_a_bundled_result_whose_deadline_has_passed_refuses_the_task(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    options = ActivityOptions(start_to_close_timeout=60)
    activity_id = await memory_stage.schedule(run_id, options, claimed_by="worker-1")
    result = OwnResult(activity_id, 1, ActivityCompleted(activity_id, Payload.of(1), 1))
    memory_stage.clock.advance(60)
    assert await reason_for_refusal(memory_stage, run_id, own=[result]) == "result"


async def test_a_success_clears_what_setbacks_left(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    await memory_stage.sql(
        "UPDATE workflow_runs SET task_failures = 3, owner_losses = 3, attention = 'task_keeps_failing', "
        "attention_since = 1, not_before = 1 WHERE run_id = ?",
        run_id,
    )
    run = (await commit(memory_stage, run_id)).run
    assert (run.task_failures, run.owner_losses, run.attention, run.not_before) == (0, 0, None, 0)
    assert (run.status, run.wake_at) == ("running", None)


@pytest.mark.parametrize("message", ["none", "handled", "kept", "unseen"])
async def test_a_message_that_a_run_has_not_seen_ends_the_start_delay_of_the_next(
    memory_stage: Stage, message: str
) -> None:
    """It would have ended it if it had come a moment later. One without a handler waits on."""
    signal = SignalReceived("approve", Payload.of([]))
    run_id = await memory_stage.start(StartOptions(run_timeout=100), owner_id="worker-1")
    if message != "none":
        await memory_stage.apply(SendSignal("workflow-1", run_id, signal, DEFAULT_LIMITS))
    applied = await commit(
        memory_stage,
        run_id,
        seen_seq=1 if message == "unseen" else None,
        commands=[WorkflowContinuedAsNew("W", Payload.of([]), start_delay_seconds=60)],
        buffered=[signal] if message == "kept" else [],
        next_run_id="next",
    )
    following = applied.following
    assert following is not None
    now = memory_stage.clock.us
    assert following.run_deadline_at == now + 160_000_000
    ended = message == "unseen"
    assert (following.start_delayed, following.not_before) == (
        (False, 0) if ended else (True, now + 60_000_000)
    )
    assert following.wake_at == (now if ended else now + 60_000_000)
    moved = memory_stage.types("next").count("SignalReceived")
    assert moved == (1 if message in ("kept", "unseen") else 0)


async def test_the_next_run_has_the_retry_policy_that_its_predecessor_gives_it(memory_stage: Stage) -> None:
    given = RetryPolicy(max_attempts=7)
    for number, said in enumerate((None, RetryPolicy(max_attempts=2).to_document())):
        run_id = await memory_stage.start(StartOptions(retry_policy=given), owner_id="worker-1")
        command = WorkflowContinuedAsNew("W", Payload.of([]), retry_policy=said)
        applied = await commit(memory_stage, run_id, commands=[command], next_run_id=f"next-{number}")
        assert applied.following is not None
        assert applied.following.retry_policy is not None
        kept = orjson.loads(applied.following.retry_policy)["max_attempts"]
        assert kept == (7 if said is None else 2)
