"""Each activity timeout × each attempt × each state, and where they meet failures, heartbeats and results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from tests.watchdog.stage import POLICY, SECOND, Stage

from outlast_activities.attempts import HANDED_BACK, RESCUED
from outlast_activities.changes import EndAttempt
from outlast_watchdog.enforcement import EnforceActivityDeadline
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import activity_error
from outlast_workflow.errors import ActivityTimeoutError, ApplicationError, RefusedError
from outlast_workflow.history.events import ActivityTimedOut
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.times import iso

BACKOFF = 10 * SECOND
ATTEMPTS = {"first": 1, "retry": 2, "last": 3}
STATES = {
    "schedule_to_start": ("pending", "cancelled"),
    "start_to_close": ("running", "heartbeating", "cancelled", "dead"),
    "heartbeat": ("running", "heartbeating", "cancelled", "dead"),
    "schedule_to_close": ("pending", "running", "heartbeating", "cancelled", "dead"),
}
OPTIONS = {
    "schedule_to_start": ActivityOptions(
        schedule_to_start_timeout=30,
        start_to_close_timeout=60,
        schedule_to_close_timeout=900,
        retry_policy=POLICY,
    ),
    "start_to_close": ActivityOptions(
        schedule_to_start_timeout=30,
        start_to_close_timeout=60,
        schedule_to_close_timeout=900,
        retry_policy=POLICY,
    ),
    "heartbeat": ActivityOptions(
        schedule_to_start_timeout=30, start_to_close_timeout=60, heartbeat_timeout=20, retry_policy=POLICY
    ),
    "schedule_to_close": ActivityOptions(schedule_to_close_timeout=300, retry_policy=POLICY),
}


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    kind: str
    attempt: str
    state: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.attempt}-{self.state}"


CASES = [Case(kind, attempt, state) for kind, attempt in product(STATES, ATTEMPTS) for state in STATES[kind]]


async def play(stage: Stage, case: Case, queue: str) -> None:
    """Bring an activity into the case's state, let its deadline come, and compare with what the table says."""
    options = OPTIONS[case.kind]
    number = ATTEMPTS[case.attempt]
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, options, queue=queue)
    scheduled_at = available_at = stage.clock.us
    for _ in range(number - 1):
        [row] = await stage.claim(queue=queue)
        assert not await stage.fail(row)
        stage.clock.advance_us(BACKOFF)
        available_at = stage.clock.us
    claimed_at = beaten_at = stage.clock.us
    if case.state not in ("pending",) and case.kind != "schedule_to_start":
        [row] = await stage.claim(queue=queue, worker_id="gone" if case.state == "dead" else "worker-1")
        if case.state == "heartbeating":
            stage.clock.advance(5)
            assert await stage.beat(run_id, activity_id, ["half"])
            beaten_at = stage.clock.us
        if case.state == "cancelled":
            await stage.cancel(run_id, activity_id)
    deadline = {
        "schedule_to_start": available_at + 30 * SECOND,
        "start_to_close": claimed_at + 60 * SECOND,
        "heartbeat": beaten_at + 20 * SECOND,
        "schedule_to_close": scheduled_at + 300 * SECOND,
    }[case.kind]
    if case.kind == "start_to_close" and case.state == "heartbeating":
        assert stage.activity(run_id, activity_id).heartbeat_deadline_at is None
    before = stage.activity(run_id, activity_id)
    assert before.next_deadline_at == deadline

    stage.clock.advance_to(deadline - 1)
    assert await stage.apply(EnforceActivityDeadline(run_id, activity_id)) is None
    assert vars(stage.activity(run_id, activity_id)) == vars(before), "nothing is early, not by a microsecond"
    stage.clock.advance_us(1)
    if case.state == "cancelled" and case.kind == "schedule_to_start":
        await stage.cancel(run_id, activity_id)  # before it the activity would simply have been cancelled
        assert stage.activity(run_id, activity_id).status == "pending", (
            "a pending cancel never hides a deadline"
        )
    events_before = len(stage.history(run_id))
    failures_before = {failure.failure_id for failure in stage.failures(run_id)}
    report = await stage.watchdog.run_pass()
    assert report.counts.get(case.kind, 0) >= 1

    row = stage.activity(run_id, activity_id)
    run = stage.run(run_id)
    state = expected_end(case)
    [failure] = [one for one in stage.failures(run_id) if one.failure_id not in failures_before]
    assert (failure.failure_category, failure.propagation_kind) == ("timeout", "timeout")
    assert (failure.timeout_kind, failure.deadline_at) == (case.kind, deadline)
    assert failure.exception_class == "ActivityTimeoutError"
    attempts = stage.attempts(run_id, activity_id)
    if case.kind == "schedule_to_close" and case.state == "pending":
        assert len(attempts) == number - 1, "no attempt was under way"
    else:
        assert [attempt.attempt for attempt in attempts] == list(range(1, number + 1))
        last = attempts[-1]
        assert (last.outcome, last.timeout_kind, last.ended_at) == ("timed_out", case.kind, stage.clock.us)
        assert last.started_at == (None if case.kind == "schedule_to_start" else claimed_at)
    assert row.attempt == (
        number - 1 if case.kind == "schedule_to_close" and case.state == "pending" else number
    )
    if state is None:
        assert row.status == "pending"
        assert row.available_at == deadline + BACKOFF
        assert row.claimed_by is None
        assert (row.start_to_close_deadline_at, row.heartbeat_deadline_at) == (None, None)
        assert row.schedule_to_start_deadline_at == deadline + BACKOFF + 30 * SECOND
        assert row.schedule_to_close_deadline_at == before.schedule_to_close_deadline_at, "it never moves"
        assert row.heartbeat_details == before.heartbeat_details, "the next attempt gets them"
        assert failure.event_seq is None
        assert len(stage.history(run_id)) == events_before, "retries write no event"
        return
    assert row.status == "timed_out"
    assert row.next_deadline_at is None
    assert run.wake_at is not None
    assert failure.event_seq == run.last_seq
    event = stage.last_event(run_id)
    assert isinstance(event, ActivityTimedOut)
    assert (event.timeout_kind, event.deadline_at, event.retry_state) == (case.kind, iso(deadline), state)
    error = activity_error(event, "charge", DataConverter())
    assert isinstance(error, ActivityTimeoutError)
    assert isinstance(error, TimeoutError)
    assert (error.timeout_kind, error.retry_state) == (case.kind, state)
    assert error.heartbeat_details == (("half",) if case.state == "heartbeating" else ())
    assert (type(error.__cause__) is ApplicationError) == (number > 1), "the previous attempt's failure"
    assert case.kind.replace("_", "-") in str(error)


def expected_end(case: Case) -> str | None:
    """The table: why the activity ends, or ``None`` where it is tried again."""
    if case.kind == "schedule_to_close":
        return "timeout"
    if case.state == "cancelled":
        return "cancel_requested"
    return "maximum_attempts_reached" if case.attempt == "last" else None


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_timeout_does_what_the_table_says(memory_stage: Stage, case: Case) -> None:
    await play(memory_stage, case, "default")


async def test_the_table_holds_on_every_backend(stage: Stage) -> None:
    for number, case in enumerate(CASES):
        await play(stage, case, f"queue-{number}")


# --- which deadline it was ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "late", "kind"),
    [
        ({"start_to_close_timeout": 20, "heartbeat_timeout": 20}, 0, "start_to_close"),
        ({"start_to_close_timeout": 20, "heartbeat_timeout": 19}, 5, "heartbeat"),
        ({"start_to_close_timeout": 20, "schedule_to_close_timeout": 20}, 0, "schedule_to_close"),
        ({"start_to_close_timeout": 20, "schedule_to_close_timeout": 30}, 0, "start_to_close"),
        ({"start_to_close_timeout": 20, "schedule_to_close_timeout": 30}, 10, "schedule_to_close"),
        ({"heartbeat_timeout": 20, "schedule_to_close_timeout": 20}, 0, "schedule_to_close"),
    ],
)
async def test_of_several_deadlines_the_right_one_wins(
    memory_stage: Stage, options: dict[str, Any], late: float, kind: str
) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(
        run_id, ActivityOptions(**options, retry_policy=RetryPolicy(max_attempts=1))
    )
    await stage.claim()
    stage.clock.advance(20 + late)
    await stage.watchdog.run_pass()
    assert stage.activity(run_id, activity_id).status == "timed_out"
    assert stage.last_event(run_id).timeout_kind == kind


async def test_schedule_to_start_and_schedule_to_close_at_once_is_schedule_to_close(
    memory_stage: Stage,
) -> None:
    stage = memory_stage
    run_id = await stage.start()
    await stage.schedule(run_id, ActivityOptions(schedule_to_start_timeout=20, schedule_to_close_timeout=20))
    stage.clock.advance(20)
    await stage.watchdog.run_pass()
    assert stage.last_event(run_id).timeout_kind == "schedule_to_close"


# --- backoff across schedule-to-close -------------------------------------------------------------------------------


async def test_a_timed_out_attempt_with_no_time_for_another_ends_as_schedule_to_close(stage: Stage) -> None:
    run_id = await stage.start()
    options = ActivityOptions(start_to_close_timeout=20, schedule_to_close_timeout=30, retry_policy=POLICY)
    activity_id = await stage.schedule(run_id, options)
    scheduled_at = stage.clock.us
    await stage.claim()
    stage.clock.advance(20)  # + 10 s of backoff is exactly schedule-to-close: not scheduled
    await stage.watchdog.run_pass()
    event = stage.last_event(run_id)
    assert (event.timeout_kind, event.retry_state) == ("schedule_to_close", "timeout")
    assert event.deadline_at == iso(scheduled_at + 30 * SECOND), "which lies ahead"
    error = activity_error(event, "charge", DataConverter())
    assert isinstance(error.__cause__, ActivityTimeoutError)
    assert error.__cause__.timeout_kind is TimeoutKind.START_TO_CLOSE
    [attempt] = stage.attempts(run_id, activity_id)
    assert attempt.timeout_kind == "start_to_close"
    [failure] = stage.failures(run_id)
    assert failure.timeout_kind == "schedule_to_close"


async def test_a_failed_attempt_with_no_time_for_another_ends_as_that_failure(stage: Stage) -> None:
    run_id = await stage.start()
    options = ActivityOptions(schedule_to_close_timeout=30, retry_policy=POLICY)
    await stage.schedule(run_id, options)
    [row] = await stage.claim()
    stage.clock.advance(20)
    assert await stage.fail(row)
    event = stage.last_event(run_id)
    assert (event.type, event.retry_state, event.failure["type"]) == ("ActivityFailed", "timeout", "Flaky")


async def test_a_backoff_that_ends_a_microsecond_before_schedule_to_close_is_taken(
    memory_stage: Stage,
) -> None:
    stage = memory_stage
    run_id = await stage.start()
    options = ActivityOptions(schedule_to_close_timeout=30, retry_policy=POLICY)
    activity_id = await stage.schedule(run_id, options)
    [row] = await stage.claim()
    stage.clock.advance_us(20 * SECOND - 1)
    assert not await stage.fail(row)
    assert stage.activity(run_id, activity_id).status == "pending"


# --- nobody comes ---------------------------------------------------------------------------------------------------


async def test_schedule_to_start_repeats_until_exhausted_with_no_worker_at_all(stage: Stage) -> None:
    run_id = await stage.start()
    options = ActivityOptions(
        schedule_to_start_timeout=30, schedule_to_close_timeout=900, retry_policy=POLICY
    )
    activity_id = await stage.schedule(run_id, options)
    begins = stage.clock.us
    for expiry in (30, 70, 110):
        stage.clock.advance_to(begins + expiry * SECOND - 1)
        assert (await stage.watchdog.run_pass()).done == 0
        stage.clock.advance_us(1)
        assert (await stage.watchdog.run_pass()).counts == {"schedule_to_start": 1}
    row = stage.activity(run_id, activity_id)
    assert (row.status, row.attempt) == ("timed_out", 3)
    event = stage.last_event(run_id)
    assert (event.attempt, event.retry_state) == (3, "maximum_attempts_reached")
    assert stage.types(run_id).count("ActivityTimedOut") == 1


async def test_schedule_to_start_without_a_limit_on_attempts_ends_at_once(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    await stage.schedule(run_id, ActivityOptions(schedule_to_start_timeout=30, schedule_to_close_timeout=900))
    stage.clock.advance(30)
    await stage.watchdog.run_pass()
    event = stage.last_event(run_id)
    assert (event.type, event.attempt, event.retry_state) == ("ActivityTimedOut", 1, "non_retryable_failure")


async def test_a_policy_that_names_timeouts_is_not_followed_by_another_attempt(memory_stage: Stage) -> None:
    stage = memory_stage
    policy = RetryPolicy(non_retryable_error_types=["ActivityTimeoutError"])
    run_id = await stage.start()
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=30, retry_policy=policy))
    await stage.claim()
    stage.clock.advance(30)
    await stage.watchdog.run_pass()
    assert stage.last_event(run_id).retry_state == "non_retryable_failure"


# --- per-attempt deadlines, for each reason to try again --------------------------------------------------------------


@pytest.mark.parametrize("reason", ["failure", "timeout", "rescue", "hand_back"])
async def test_every_retry_gets_fresh_deadlines(memory_stage: Stage, reason: str) -> None:
    stage = memory_stage
    run_id = await stage.start()
    options = ActivityOptions(
        schedule_to_start_timeout=30, start_to_close_timeout=60, heartbeat_timeout=20, retry_policy=POLICY
    )
    activity_id = await stage.schedule(run_id, options)
    stage.clock.advance(25)
    [row] = await stage.claim(worker_id="gone")
    assert row.schedule_to_start_deadline_at is None
    stage.clock.advance(19)
    backoff = 10
    if reason == "failure":
        await stage.fail(row)
    elif reason == "timeout":
        stage.clock.advance(1)
        await stage.watchdog.run_pass()
    elif reason == "rescue":
        await stage.watchdog.run_pass()
        backoff = 0
    else:
        await stage.apply(EndAttempt(run_id, activity_id, 1, HANDED_BACK))
        backoff = 0
    ended_at = stage.clock.us
    row = stage.activity(run_id, activity_id)
    assert row.status == "pending"
    assert row.available_at == ended_at + backoff * SECOND
    assert row.schedule_to_start_deadline_at == row.next_deadline_at == row.available_at + 30 * SECOND
    stage.clock.advance_to(row.available_at + 29 * SECOND)
    assert (await stage.watchdog.run_pass()).done == 0, "the retry is not timed out by the old deadlines"
    [row] = await stage.claim()
    assert row.start_to_close_deadline_at == stage.clock.us + 60 * SECOND
    assert row.heartbeat_deadline_at == stage.clock.us + 20 * SECOND
    assert row.charged_attempt == (2 if backoff else 1)


# --- races ----------------------------------------------------------------------------------------------------------


async def test_a_heartbeat_that_came_first_wins(stage: Stage) -> None:
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, ActivityOptions(heartbeat_timeout=20, retry_policy=POLICY))
    await stage.claim()
    stage.clock.advance_us(20 * SECOND - 1)
    assert await stage.beat(run_id, activity_id)
    stage.clock.advance_us(1)
    assert await stage.apply(EnforceActivityDeadline(run_id, activity_id)) is None
    assert stage.activity(run_id, activity_id).status == "running"


async def test_a_heartbeat_at_the_deadline_loses(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, ActivityOptions(heartbeat_timeout=20, retry_policy=POLICY))
    await stage.claim()
    stage.clock.advance(20)
    assert not await stage.beat(run_id, activity_id)
    assert (await stage.watchdog.run_pass()).counts == {"heartbeat": 1}


async def test_a_result_that_came_first_wins_and_one_at_the_deadline_is_a_timeout_right_there(
    stage: Stage,
) -> None:
    options = ActivityOptions(start_to_close_timeout=20, retry_policy=RetryPolicy(max_attempts=1))
    in_time, late = await stage.start(), await stage.start()
    for run_id in (in_time, late):
        await stage.schedule(run_id, options)
    rows = {row.run_id: row for row in await stage.claim()}
    stage.clock.advance_us(20 * SECOND - 1)
    assert await stage.complete(rows[in_time])
    stage.clock.advance_us(1)
    assert not await stage.complete(rows[late])
    assert (await stage.watchdog.run_pass()).done == 0
    assert stage.last_event(in_time).type == "ActivityCompleted"
    assert stage.last_event(late).type == "ActivityTimedOut"
    with pytest.raises(RefusedError):
        await stage.complete(rows[late])


async def test_a_failure_after_the_deadline_is_the_timeout(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(
        run_id, ActivityOptions(start_to_close_timeout=20, retry_policy=POLICY)
    )
    [row] = await stage.claim()
    stage.clock.advance(21)
    await stage.fail(row)
    [attempt] = stage.attempts(run_id, activity_id)
    assert attempt.timeout_kind == "start_to_close"


async def test_a_rescue_never_masks_a_passed_deadline(stage: Stage) -> None:
    run_id = await stage.start()
    options = ActivityOptions(start_to_close_timeout=20, schedule_to_close_timeout=20, retry_policy=POLICY)
    activity_id = await stage.schedule(run_id, options)
    await stage.claim(worker_id="gone")
    stage.clock.advance(20)
    await stage.apply(EndAttempt(run_id, activity_id, 1, RESCUED))
    assert stage.last_event(run_id).timeout_kind == "schedule_to_close"
    [attempt] = stage.attempts(run_id, activity_id)
    assert attempt.outcome == "timed_out"


async def test_what_has_expired_is_not_claimed_and_does_not_stand_before_what_has_not(stage: Stage) -> None:
    old = await stage.start()
    await stage.schedule(
        old, ActivityOptions(schedule_to_start_timeout=20, schedule_to_close_timeout=60), number=5
    )
    stage.clock.advance(20)
    new = await stage.start()
    await stage.schedule(new, ActivityOptions(schedule_to_start_timeout=20, schedule_to_close_timeout=60))
    claimed = await stage.claim(limit=3)
    assert [row.run_id for row in claimed] == [new]


# --- bounded records ------------------------------------------------------------------------------------------------


async def test_of_many_attempts_the_first_10_and_the_last_90_are_kept_with_their_failures(
    stage: Stage,
) -> None:
    policy = RetryPolicy(initial_interval=1, backoff_coefficient=1, max_interval=1, max_attempts=105)
    run_id = await stage.start()
    activity_id = await stage.schedule(
        run_id, ActivityOptions(schedule_to_close_timeout=9000, retry_policy=policy)
    )
    for number in range(1, 106):
        [row] = await stage.claim()
        assert await stage.fail(row, message=f"attempt {number}") == (number == 105)
        stage.clock.advance(1)
    kept = [*range(1, 11), *range(16, 106)]
    assert [attempt.attempt for attempt in stage.attempts(run_id, activity_id)] == kept
    assert [failure.message for failure in stage.failures(run_id)] == [f"attempt {number}" for number in kept]


async def test_the_error_of_a_flaky_activity_does_not_grow_with_its_attempts(memory_stage: Stage) -> None:
    stage = memory_stage
    policy = RetryPolicy(initial_interval=1, backoff_coefficient=1, max_interval=1, max_attempts=20)
    run_id = await stage.start()
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=5, retry_policy=policy))
    sizes = []
    for _ in range(20):
        await stage.claim()
        stage.clock.advance(5)
        await stage.watchdog.run_pass()
        stage.clock.advance(1)
        sizes.append(len(stage.rows("activity_attempts")[-1][-1]))
    assert sizes[3] == sizes[8]
    error: BaseException | None = activity_error(stage.last_event(run_id), "charge", DataConverter())
    depth = 0
    while error is not None:
        error, depth = error.__cause__, depth + 1
    assert depth == 3
