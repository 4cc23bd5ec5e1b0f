"""What follows an attempt: its row, a retry or the end, and the event that the run gets."""

from __future__ import annotations

import pytest
from tests.watchdog.conftest import memory_stage as memory_stage
from tests.watchdog.stage import FAILURE, POLICY, SECOND, Stage

from outlast_activities.attempts import (
    CANCELLED,
    FIRST_KEPT,
    HANDED_BACK,
    LAST_KEPT,
    RESCUED,
    AttemptEnd,
)
from outlast_activities.changes import EndAttempt
from outlast_runs.run_change import TerminateRun
from outlast_store.schema.rows import ActivityRow
from outlast_watchdog.passes import apply_all
from outlast_workflow.errors import RefusedError
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import AttemptOutcome

ONE_MINUTE = ActivityOptions(start_to_close_timeout=60, retry_policy=POLICY)


async def claimed(stage: Stage, options: ActivityOptions = ONE_MINUTE) -> ActivityRow:
    run_id = await stage.start()
    await stage.schedule(run_id, options)
    [row] = await stage.claim()
    return row


async def test_a_failure_is_retried_after_the_backoff_and_writes_no_event(memory_stage: Stage) -> None:
    row = await claimed(memory_stage)
    events = memory_stage.types(row.run_id)
    assert not await memory_stage.fail(row)
    found = memory_stage.activity(row.run_id, row.activity_id)
    assert (found.status, found.attempt, found.claimed_by) == ("pending", 1, None)
    assert found.available_at == memory_stage.clock.us + 10 * SECOND
    [attempt] = memory_stage.attempts(row.run_id, row.activity_id)
    assert (attempt.attempt, attempt.outcome) == (1, "failed")
    assert memory_stage.types(row.run_id) == events


@pytest.mark.parametrize(
    ("options", "facts", "state"),
    [
        (ONE_MINUTE, {"non_retryable": True}, "non_retryable_failure"),
        (
            ActivityOptions(start_to_close_timeout=60, retry_policy=RetryPolicy(max_attempts=1)),
            {},
            "maximum_attempts_reached",
        ),
        (
            ActivityOptions(start_to_close_timeout=10, schedule_to_close_timeout=10, retry_policy=POLICY),
            {},
            "timeout",
        ),
    ],
    ids=["non-retryable", "no-attempt-left", "no-time-left"],
)
async def test_a_failure_that_is_not_retried_ends_the_activity_and_wakes_the_run(
    memory_stage: Stage, options: ActivityOptions, facts: dict[str, object], state: str
) -> None:
    row = await claimed(memory_stage, options)
    assert await memory_stage.fail(row, **facts)
    event = memory_stage.last_event(row.run_id)
    assert (event.type, event.retry_state) == ("ActivityFailed", state)
    found = memory_stage.activity(row.run_id, row.activity_id)
    assert (found.status, found.next_deadline_at) == ("failed", None)
    assert memory_stage.run(row.run_id).wake_at == memory_stage.clock.us


async def test_a_released_attempt_is_not_counted_and_may_be_claimed_at_once(memory_stage: Stage) -> None:
    row = await claimed(memory_stage)
    assert not await memory_stage.apply(EndAttempt(row.run_id, row.activity_id, row.attempt, HANDED_BACK))
    [again] = await memory_stage.claim()
    assert (again.attempt, again.uncharged, again.charged_attempt) == (2, 1, 1)


async def test_a_result_closes_the_activity_and_leaves_no_attempt_row(memory_stage: Stage) -> None:
    row = await claimed(memory_stage)
    assert await memory_stage.complete(row)
    assert memory_stage.last_event(row.run_id).type == "ActivityCompleted"
    assert memory_stage.attempts(row.run_id, row.activity_id) == []
    with pytest.raises(RefusedError, match="no longer the current one"):
        await memory_stage.complete(row)


async def test_a_result_past_its_deadline_loses_to_the_timeout(memory_stage: Stage) -> None:
    row = await claimed(memory_stage)
    memory_stage.clock.advance(60)
    assert not await memory_stage.complete(row)
    [attempt] = memory_stage.attempts(row.run_id, row.activity_id)
    assert (attempt.outcome, attempt.timeout_kind) == ("timed_out", "start_to_close")


async def test_an_activity_that_is_cancelled_while_nobody_runs_it_closes_at_once(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, ONE_MINUTE)
    await stage.cancel(run_id, activity_id)
    event = stage.last_event(run_id)
    assert (event.type, event.by) == ("ActivityCancelled", "cancel_requested")
    assert stage.attempts(run_id, activity_id) == [], "no attempt had begun"


async def test_an_attempt_that_gives_way_to_a_cancel_request_closes_as_cancelled(memory_stage: Stage) -> None:
    row = await claimed(memory_stage)
    await memory_stage.cancel(row.run_id, row.activity_id)
    assert await memory_stage.apply(EndAttempt(row.run_id, row.activity_id, row.attempt, CANCELLED))
    assert memory_stage.activity(row.run_id, row.activity_id).status == "cancelled"
    [attempt] = memory_stage.attempts(row.run_id, row.activity_id)
    assert attempt.outcome == "cancelled"


WAITED_FOR = ONE_MINUTE.with_cancellation_type("wait")


@pytest.mark.parametrize("end", [CANCELLED, HANDED_BACK, RESCUED], ids=lambda end: str(end.outcome))
@pytest.mark.parametrize("options", [ONE_MINUTE, WAITED_FOR], ids=["try", "wait"])
async def test_an_attempt_that_does_not_fail_ends_as_cancelled_after_a_cancel_request(
    memory_stage: Stage, options: ActivityOptions, end: AttemptEnd
) -> None:
    row = await claimed(memory_stage, options)
    await memory_stage.cancel(row.run_id, row.activity_id)
    assert await memory_stage.apply(EndAttempt(row.run_id, row.activity_id, row.attempt, end))
    assert memory_stage.last_event(row.run_id).type == "ActivityCancelled"
    [attempt] = memory_stage.attempts(row.run_id, row.activity_id)
    assert attempt.outcome == "cancelled"
    assert memory_stage.failures(row.run_id) == []


async def test_a_failure_after_a_cancel_request_that_the_code_waits_for_ends_the_activity_as_failed(
    memory_stage: Stage,
) -> None:
    row = await claimed(memory_stage, WAITED_FOR)
    await memory_stage.cancel(row.run_id, row.activity_id)
    assert await memory_stage.fail(row, message="not undone")
    event = memory_stage.last_event(row.run_id)
    assert (event.type, event.retry_state) == ("ActivityFailed", "cancel_requested")
    assert event.failure["message"] == "not undone"
    assert memory_stage.activity(row.run_id, row.activity_id).status == "failed"
    [failure] = memory_stage.failures(row.run_id)
    assert (failure.message, failure.event_seq) == ("not undone", memory_stage.run(row.run_id).last_seq)
    assert memory_stage.run(row.run_id).wake_at == memory_stage.clock.us


async def test_a_failure_after_a_cancel_request_that_the_code_left_behind_is_recorded_without_an_event(
    memory_stage: Stage,
) -> None:
    row = await claimed(memory_stage)
    await memory_stage.cancel(row.run_id, row.activity_id)
    assert await memory_stage.fail(row, message="not undone")
    assert memory_stage.last_event(row.run_id).type == "ActivityCancelled"
    assert memory_stage.activity(row.run_id, row.activity_id).status == "cancelled"
    [attempt] = memory_stage.attempts(row.run_id, row.activity_id)
    assert (attempt.outcome, "not undone" in str(attempt.failure)) == ("failed", True)
    [failure] = memory_stage.failures(row.run_id)
    assert (failure.message, failure.event_seq) == ("not undone", None)


@pytest.mark.parametrize("together", [False, True], ids=["later", "in one batch"])
async def test_a_failure_after_the_run_has_ended_is_recorded_once(
    memory_stage: Stage, together: bool
) -> None:
    row = await claimed(memory_stage)
    run_id = row.run_id
    ends = TerminateRun(memory_stage.run(run_id).workflow_id, run_id, "enough")
    end = EndAttempt(run_id, row.activity_id, row.attempt, AttemptEnd(AttemptOutcome.FAILED, FAILURE))
    if together:
        assert (await apply_all(memory_stage.runtime.journal, [ends, end]))[1] is True
    else:
        await memory_stage.apply(ends)
        memory_stage.clock.advance(5)
        assert await memory_stage.apply(end)
    assert memory_stage.last_event(run_id).type == "WorkflowTerminated"
    [attempt] = memory_stage.attempts(run_id, row.activity_id)
    assert (attempt.outcome, attempt.ended_at) == ("failed", memory_stage.clock.us)
    assert [one.event_seq for one in memory_stage.failures(run_id) if one.source_kind != "workflow_run"] == [
        None
    ]
    with pytest.raises(RefusedError, match="no longer the current one"):
        await memory_stage.apply(end)


async def test_a_failure_that_finds_its_run_past_its_deadline_is_recorded_too(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(StartOptions(run_timeout=30))
    await memory_stage.schedule(run_id, ONE_MINUTE)
    [row] = await memory_stage.claim()
    memory_stage.clock.advance(30)
    assert await memory_stage.fail(row)
    assert memory_stage.last_event(run_id).type == "WorkflowTimedOut"
    [attempt] = memory_stage.attempts(run_id, row.activity_id)
    assert attempt.outcome == "failed"


async def test_a_failure_of_an_earlier_attempt_is_nobodys_though_the_activity_was_cancelled(
    memory_stage: Stage,
) -> None:
    row = await claimed(memory_stage)
    await memory_stage.fail(row)
    memory_stage.clock.advance(10)
    [again] = await memory_stage.claim()
    await memory_stage.cancel(row.run_id, row.activity_id)
    assert await memory_stage.apply(EndAttempt(row.run_id, row.activity_id, again.attempt, CANCELLED))
    with pytest.raises(RefusedError, match="no longer the current one"):
        await memory_stage.fail(row)


async def test_the_first_and_the_last_attempts_are_kept(memory_stage: Stage) -> None:
    endless = RetryPolicy(initial_interval=0.001, backoff_coefficient=1)
    row = await claimed(memory_stage, ActivityOptions(start_to_close_timeout=60, retry_policy=endless))
    run_id, last = row.run_id, FIRST_KEPT + LAST_KEPT + 5
    for _ in range(last):
        await memory_stage.fail(row)
        memory_stage.clock.advance(1)
        [row] = await memory_stage.claim()
    kept = [attempt.attempt for attempt in memory_stage.attempts(run_id, row.activity_id)]
    assert kept == [*range(1, FIRST_KEPT + 1), *range(last - LAST_KEPT + 1, last + 1)]
    assert len(memory_stage.failures(run_id)) == len(kept)
