"""Execution and run deadlines: with no worker alive, in one transaction, at the microsecond."""

from __future__ import annotations

import pytest
from tests.watchdog.stage import SECOND, Stage

from outlast_runs.deadlines import EnforceRunDeadline
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.times import iso

RETRY = RetryPolicy(initial_interval=10, backoff_coefficient=1, max_interval=10, max_attempts=3)


@pytest.mark.parametrize(
    ("options", "kind", "after"),
    [
        (StartOptions(execution_timeout=60), "execution_timeout", 60),
        (StartOptions(run_timeout=60), "run_timeout", 60),
        (StartOptions(execution_timeout=90, run_timeout=60), "run_timeout", 60),
        (StartOptions(execution_timeout=60, run_timeout=90), "execution_timeout", 60),
        (StartOptions(execution_timeout=60, run_timeout=60), "execution_timeout", 60),
        (StartOptions(execution_timeout=60, start_delay=59), "execution_timeout", 60),
        (StartOptions(run_timeout=60, start_delay=30), "run_timeout", 90),
        (StartOptions(execution_timeout=80, run_timeout=60, start_delay=30), "execution_timeout", 80),
    ],
    ids=[
        "execution",
        "run",
        "run-first",
        "execution-first",
        "both-at-once",
        "in-delay",
        "after-delay",
        "cut-by-delay",
    ],
)
async def test_a_run_ends_at_its_deadline_and_not_a_microsecond_before(
    stage: Stage, options: StartOptions, kind: str, after: int
) -> None:
    run_id = await stage.start(options)
    stage.clock.advance_us(after * SECOND - 1)
    assert (await stage.watchdog.run_pass()).done == 0
    assert await stage.apply(EnforceRunDeadline(run_id, "workflow-1")) is None
    stage.clock.advance_us(1)
    report = await stage.watchdog.run_pass()
    assert report.counts == {kind: 1}
    assert report.worst_lateness_s == 0
    run = stage.run(run_id)
    assert (run.status, run.closed_at) == ("timed_out", stage.clock.us)
    event = stage.last_event(run_id)
    deadline = stage.clock.us
    assert (event.type, event.timeout_kind, event.deadline_at) == ("WorkflowTimedOut", kind, iso(deadline))
    [failure] = stage.failures(run_id)
    assert (failure.failure_category, failure.exception_class) == ("timeout", "WorkflowTimeoutError")
    assert (failure.timeout_kind, failure.deadline_at, failure.event_seq) == (kind, deadline, run.last_seq)


async def test_when_both_have_passed_execution_beats_run(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(execution_timeout=60, run_timeout=30))
    stage.clock.advance(61)
    report = await stage.watchdog.run_pass()
    assert report.counts == {"execution_timeout": 1}
    assert report.worst_lateness_s == 31, "it is as late as the first deadline that had passed"
    assert stage.last_event(run_id).timeout_kind == "execution_timeout"


async def test_whatever_is_open_is_closed_with_the_run_and_nothing_follows_its_end(stage: Stage) -> None:
    run_id = await stage.start(StartOptions(execution_timeout=60))
    options = ActivityOptions(start_to_close_timeout=60, schedule_to_close_timeout=60)
    await stage.schedule(run_id, options, number=2)
    await stage.claim(limit=1)
    await stage.set_timer(run_id, 60)
    stage.clock.advance(60)
    report = await stage.watchdog.run_pass()
    assert report.counts == {"execution_timeout": 1}, (
        "not its activities, nor its timer, though they are due too"
    )
    assert stage.types(run_id)[-4:] == [
        "ActivityCancelled",
        "ActivityCancelled",
        "TimerCancelled",
        "WorkflowTimedOut",
    ]
    assert all(getattr(event, "by", None) == "execution_timeout" for event in stage.history(run_id)[-4:-1])
    [attempt] = stage.attempts(run_id, 1)
    assert attempt.outcome == "cancelled"
    assert (await stage.watchdog.run_pass()).done == 0


async def test_a_result_that_comes_after_the_runs_deadline_ends_the_run(stage: Stage) -> None:
    run_id = await stage.start(StartOptions(run_timeout=60))
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=120))
    [row] = await stage.claim()
    stage.clock.advance(60)
    assert not await stage.complete(row)
    assert stage.types(run_id)[-2:] == ["ActivityCancelled", "WorkflowTimedOut"]


async def test_a_failure_that_comes_after_the_runs_deadline_ends_the_run(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(run_timeout=60))
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=120))
    [row] = await stage.claim()
    stage.clock.advance(60)
    assert await stage.fail(row)
    assert stage.last_event(run_id).type == "WorkflowTimedOut"


async def test_a_run_timeout_is_followed_by_the_next_run_within_the_same_execution_deadline(
    stage: Stage,
) -> None:
    options = StartOptions(execution_timeout=100, run_timeout=30, retry_policy=RETRY)
    first = await stage.start(options)
    execution_deadline = stage.clock.us + 100 * SECOND
    stage.clock.advance(30)
    await stage.watchdog.run_pass()
    second_id = stage.run(first).next_run_id
    assert second_id is not None
    assert stage.last_event(first).next_run_id == second_id
    second = stage.run(second_id)
    assert (second.attempt, second.status) == (2, "pending")
    assert second.execution_deadline_at == execution_deadline
    assert second.wake_at == second.not_before == stage.clock.us + 10 * SECOND
    assert second.run_deadline_at == stage.clock.us + 40 * SECOND, "the backoff does not eat the run's time"
    assert [row[0] for row in stage.rows("workflow_instances", "current_run_id = ?", second_id)] == [
        "workflow-1"
    ]
    stage.clock.advance(40)  # 70 s: the third run's backoff ends at 80 s
    await stage.watchdog.run_pass()
    third_id = stage.run(second_id).next_run_id
    assert third_id is not None
    assert stage.run(third_id).next_deadline_at == execution_deadline
    stage.clock.advance(30)
    assert (await stage.watchdog.run_pass()).counts == {"execution_timeout": 1}
    assert stage.run(third_id).next_run_id is None


async def test_a_backoff_that_would_end_at_the_execution_deadline_ends_the_chain(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(execution_timeout=40, run_timeout=30, retry_policy=RETRY))
    stage.clock.advance(30)
    await stage.watchdog.run_pass()
    assert stage.run(run_id).next_run_id is None


async def test_a_deadline_in_a_retry_backoff_ends_the_run_that_has_not_begun(stage: Stage) -> None:
    first = await stage.start(StartOptions(execution_timeout=45, run_timeout=30, retry_policy=RETRY))
    stage.clock.advance(34)
    await stage.watchdog.run_pass()
    second_id = stage.run(first).next_run_id
    assert second_id is not None
    stage.clock.advance(11)
    assert stage.run(second_id).not_before <= stage.clock.us
    assert (await stage.watchdog.run_pass()).counts == {"execution_timeout": 1}
    assert stage.types(second_id) == ["WorkflowStarted", "WorkflowTimedOut"]


async def test_attempts_run_out(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id: str | None = await stage.start(StartOptions(run_timeout=30, retry_policy=RETRY))
    chain = []
    while run_id is not None:
        chain.append(run_id)
        stage.clock.advance(40)
        await stage.watchdog.run_pass()
        run_id = stage.run(run_id).next_run_id
    assert len(chain) == 3


async def test_an_id_whose_run_timed_out_may_be_used_again(memory_stage: Stage) -> None:
    stage = memory_stage
    first = await stage.start(StartOptions(run_timeout=30), workflow_id="order")
    stage.clock.advance(30)
    await stage.watchdog.run_pass()
    options = StartOptions(run_timeout=30, duplicate_policy=DuplicatePolicy.RETURN_EXISTING)
    assert await stage.start(options, workflow_id="order") != first
