"""A workflow task that failed: counted, recorded once a streak, delayed, and flagged from the third on."""

from __future__ import annotations

import pytest
from tests.watchdog.stage import SECOND, Stage

from outlast_runs.task_failure import MOST_FAILURE_ROWS, FailWorkflowTask
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import WorkflowTaskFailed
from outlast_workflow.options.options import StartOptions

FAILURE = {"category": "task_failure", "type": "NonDeterminismError", "message": "another order"}


async def fail(stage: Stage, run_id: str, fence: int = 1) -> int | Ended:
    event = WorkflowTaskFailed(FAILURE, None)
    found: int | Ended = await stage.apply(FailWorkflowTask(stage.run(run_id), "worker-1", fence, event))
    return found


async def test_each_failure_doubles_the_wait_up_to_a_minute(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    now = memory_stage.clock.us
    tried_again_at = [await fail(memory_stage, run_id) for _ in range(8)]
    assert tried_again_at == [now + seconds * SECOND for seconds in (1, 2, 4, 8, 16, 32, 60, 60)]


async def test_a_streak_is_one_event_at_most_ten_rows_and_needs_attention_from_the_third_on(
    memory_stage: Stage,
) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    flags = []
    for _ in range(MOST_FAILURE_ROWS + 2):
        await fail(memory_stage, run_id)
        flags.append(memory_stage.run(run_id).attention)
    assert memory_stage.types(run_id) == ["WorkflowStarted", "WorkflowTaskFailed"]
    assert flags[:3] == [None, None, "task_keeps_failing"]
    assert {failure.source_kind for failure in memory_stage.failures(run_id)} == {"workflow_task"}
    assert len(memory_stage.failures(run_id)) == MOST_FAILURE_ROWS


async def test_an_owner_that_was_fenced_off_counts_nothing(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(owner_id="worker-1")
    with pytest.raises(RefusedError, match="owned by another worker"):
        await fail(memory_stage, run_id, fence=0)
    assert memory_stage.run(run_id).task_failures == 0


async def test_a_passed_deadline_ends_the_run_instead(memory_stage: Stage) -> None:
    run_id = await memory_stage.start(StartOptions(execution_timeout=60), owner_id="worker-1")
    memory_stage.clock.advance(60)
    ended = await fail(memory_stage, run_id)
    assert isinstance(ended, Ended)
    assert (ended.status, ended.passed and ended.passed.kind) == ("timed_out", "execution_timeout")
    assert memory_stage.types(run_id) == ["WorkflowStarted", "WorkflowTimedOut"]
