"""A run that takes its owners down: it ends with the loss that exceeds the limit, and what hangs on it is told."""

from __future__ import annotations

import logging

import pytest
from tests.queued import write_queue
from tests.watchdog.stage import SECOND, Stage

from outlast.histories.reset import reset, resume
from outlast_runs.admission import AdmitFromQueue, Taker
from outlast_runs.claims import STEAL_AFTER_US, ClaimRuns, StealRuns
from outlast_store.schema.rows import RunRow
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import OwnersDiedError
from outlast_workflow.history.events import WorkflowFailed
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions

LIMIT = 3


def limited(stage: Stage, limit: int = LIMIT) -> Stage:
    stage.limits = StructuralLimits(owner_losses=limit)
    stage.watchdog = TaskWatchdog(stage)
    return stage


async def die(stage: Stage, run_id: str, number: int, *, queue: str | None = None) -> dict[str, int]:
    """A worker that nobody knows any more has claimed the run; return what the watchdog then did."""
    stage.clock.advance(100)
    worker = f"gone-{number}"
    if queue is not None:
        taker = Taker(worker, ["default"], frozenset(["Order"]), runs=10)
        claimed: list[RunRow] = (await stage.apply(AdmitFromQueue(queue, taker))).runs
    else:
        claimed = await stage.apply(ClaimRuns(worker, ["default"], frozenset(["Order"]), 10))
    assert [run.run_id for run in claimed] == [run_id]
    return (await stage.watchdog.run_pass()).counts


async def test_the_loss_that_exceeds_the_limit_ends_the_run(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    limited(stage)
    run_id = await stage.start(StartOptions(retry_policy=RetryPolicy()))
    for number in range(LIMIT):
        assert await die(stage, run_id, number) == {"run_released": 1}
    assert stage.run(run_id).attention == "owners_keep_dying"
    with caplog.at_level(logging.WARNING, "outlast.failures"):
        assert await die(stage, run_id, LIMIT) == {"owners_died": 1}
    run = stage.run(run_id)
    assert (run.status, run.owner_losses, run.attention, run.next_run_id) == ("failed", LIMIT + 1, None, None)
    end = stage.last_event(run_id)
    assert isinstance(end, WorkflowFailed)
    assert (end.by, end.retry_state, end.failure["category"]) == (
        "owner_losses",
        "non_retryable_failure",
        "internal",
    )
    error = exception_of(end.failure, DataConverter())
    assert isinstance(error, OwnersDiedError)
    assert (error.owner_losses, error.limit) == (LIMIT + 1, LIMIT)
    [failure] = stage.failures(run_id)
    assert (failure.failure_category, failure.exception_class) == ("internal", "OwnersDiedError")
    assert "find out from their logs what kills" in caplog.text


async def test_a_limit_of_zero_ends_nothing(memory_stage: Stage) -> None:
    stage = limited(memory_stage, 0)
    run_id = await stage.start()
    for number in range(110):
        assert await die(stage, run_id, number) == {"run_released": 1}
    assert stage.run(run_id).owner_losses == 110


async def test_by_default_the_hundred_and_first_loss_ends_a_run(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    for number in range(100):
        assert await die(stage, run_id, number) == {"run_released": 1}
    assert await die(stage, run_id, 100) == {"owners_died": 1}


async def test_what_the_run_has_open_is_closed_and_its_slot_is_free(stage: Stage) -> None:
    limited(stage, 1)
    await write_queue(stage.runtime.journal, "narrow", concurrency=1)
    first = await stage.start(StartOptions(queue="narrow"))
    second = await stage.start(StartOptions(queue="narrow"))
    taker = Taker("owner", ["default"], frozenset(["Order"]), runs=10)
    assert [run.run_id for run in (await stage.apply(AdmitFromQueue("narrow", taker))).runs] == [first]
    activity_id = await stage.schedule(first, ActivityOptions(start_to_close_timeout=10_000))
    await stage.set_timer(first, 1)
    assert (await stage.watchdog.run_pass()).counts == {"run_released": 1}
    stage.clock.advance(1)
    assert (await stage.watchdog.run_pass()).counts == {"timer_fired": 1}
    assert await die(stage, first, 0, queue="narrow") == {"run_released": 1}
    assert await die(stage, first, 1, queue="narrow") == {"owners_died": 1}
    assert stage.activity(first, activity_id).status == "cancelled"
    assert stage.run(first).slot_queue is None
    stage.clock.advance(1)
    taker = Taker("other", ["default"], frozenset(["Order"]), runs=10)
    assert [run.run_id for run in (await stage.apply(AdmitFromQueue("narrow", taker))).runs] == [second]


async def test_a_thief_ends_a_run_that_its_owners_left_waiting_too_often(stage: Stage) -> None:
    run_id = await stage.start(owner_id="worker-0")
    for losses in range(2):
        run = stage.run(run_id)
        stage.clock.advance_us(
            max(run.not_before, run.wake_at or 0) - stage.clock.us + (STEAL_AFTER_US << losses)
        )
        stolen = await stage.apply(StealRuns(f"worker-{losses + 1}", [run_id], most_losses=2))
        assert [one.run_id for one in stolen] == [run_id]
    stage.clock.advance_us(200 * SECOND)
    assert await stage.apply(StealRuns("worker-3", [run_id], most_losses=2)) == []
    assert stage.run(run_id).status == "failed"


@pytest.mark.parametrize("how", ["reset", "resume"])
async def test_who_takes_it_up_begins_at_zero(memory_stage: Stage, how: str) -> None:
    stage = limited(memory_stage, 1)
    run_id = await stage.start(workflow_id="poison")
    for number in range(2):
        await die(stage, run_id, number)
    if how == "reset":
        following = await reset(stage.runtime, "poison", None, "first-workflow-task", None, None, True)
    else:
        following = await resume(stage.runtime, "poison", None, None, None)
    run = stage.run(following)
    assert (run.status, run.owner_losses, run.attention) == ("pending", 0, None)
