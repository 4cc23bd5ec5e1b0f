"""Releasing a run whose owner lost it: the backoff, the flag, and who is refused afterwards."""

from __future__ import annotations

import pytest
from tests.watchdog.stage import SECOND, START, Stage

from outlast_runs.claims import STEAL_AFTER_US, ClaimRuns, ReleaseAllRuns, StealRuns
from outlast_runs.owner_losses import backoff_us, release
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.new_runs import first_run
from outlast_workflow.options.options import StartOptions


def owned_run() -> RunRow:
    return first_run(
        run_id="run-1",
        workflow_id="workflow-1",
        workflow_type="Order",
        task_queue="default",
        options=StartOptions(),
        memo=None,
        now=START,
        owner_id="worker-1",
    )


def lose(run: RunRow, times: int) -> None:
    for _ in range(times):
        release(run, max(START, run.not_before))
        run.owner_id = "worker-1"


@pytest.mark.parametrize(
    ("losses", "backoff_s"), [(1, 0), (2, 1), (3, 2), (4, 4), (7, 32), (8, 60), (30, 60)]
)
def test_a_run_that_was_awake_waits_longer_with_each_loss_from_the_second_on(
    losses: int, backoff_s: int
) -> None:
    run = owned_run()
    lose(run, losses - 1)
    now = max(START, run.not_before)
    release(run, now)
    assert (run.owner_id, run.owner_losses) == (None, losses)
    if backoff_s:
        assert now + backoff_s * SECOND <= run.not_before < now + 1.5 * backoff_s * SECOND
    else:
        assert run.not_before == 0
    assert (run.attention == "owners_keep_dying") is (losses >= 3)


def test_runs_that_were_lost_together_are_not_all_back_at_the_same_instant() -> None:
    """One of them may have taken the others down with it, and would again."""
    waits = {backoff_us(f"run-{number}", 8) for number in range(40)}
    assert len(waits) > 30
    assert max(waits) - min(waits) > 20 * SECOND


def test_a_run_that_was_asleep_is_not_to_blame_and_its_fence_rises_all_the_same() -> None:
    run = owned_run()
    run.wake_at = None
    release(run, START)
    assert (run.owner_losses, run.fence, run.not_before) == (0, 2, 0)


async def test_a_claim_takes_no_run_that_has_an_owner(memory_stage: Stage) -> None:
    stage = memory_stage
    await stage.start(owner_id="worker-1")
    run_id = await stage.start()
    change = ClaimRuns("worker-2", ["default"], frozenset(["Order"]), 10)
    assert [run.run_id for run in await stage.apply(change)] == [run_id]
    assert not change.more
    assert [kind for _, kind, _ in change.histories[run_id]] == ["WorkflowStarted"]


async def test_a_run_is_stolen_only_after_it_has_waited_for_long(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start(owner_id="worker-1")
    stage.clock.advance_us(STEAL_AFTER_US - 1)
    assert await stage.apply(StealRuns("worker-2", [run_id])) == []
    stage.clock.advance_us(1)
    [stolen] = await stage.apply(StealRuns("worker-2", [run_id]))
    assert (stolen.owner_id, stolen.owner_losses) == ("worker-2", 1)


async def test_a_worker_releases_its_runs_some_at_a_time(memory_stage: Stage) -> None:
    stage = memory_stage
    for _ in range(3):
        await stage.start(owner_id="worker-1")
    released = [await stage.apply(ReleaseAllRuns("worker-1", 2)) for _ in range(3)]
    assert released == [2, 1, 0]
