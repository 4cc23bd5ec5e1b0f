"""Starting an id that exists already: by the duplicate policy, and by a deadline that has passed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runs.test_task_commit import DONE, commit
from tests.watchdog.stage import POLICY, Stage

from outlast_runs.run_change import TerminateRun
from outlast_workflow.errors import WorkflowAlreadyStartedError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy


async def start(stage: Stage, policy: str, **options: Any) -> str:
    made = StartOptions(duplicate_policy=DuplicatePolicy(policy), **options)
    return await stage.start(made, workflow_id="w")


@pytest.mark.parametrize(
    ("policy", "while_open", "when_completed", "when_closed"),
    [
        ("allow_duplicate", "refused", "new", "new"),
        ("allow_duplicate_failed_only", "refused", "refused", "new"),
        ("reject_duplicate", "refused", "refused", "refused"),
        ("return_existing", "existing", "new", "new"),
        ("terminate_existing", "new", "new", "new"),
    ],
)
async def test_a_start_of_an_id_that_exists(
    memory_stage: Stage, policy: str, while_open: str, when_completed: str, when_closed: str
) -> None:
    for closed, expected in (("", while_open), ("completed", when_completed), ("terminated", when_closed)):
        first = await memory_stage.start(workflow_id=f"w-{closed}", owner_id="worker-1")
        if closed == "completed":
            await commit(memory_stage, first, commands=[DONE])
        elif closed:
            await memory_stage.apply(TerminateRun(f"w-{closed}", first, None))
        options = StartOptions(duplicate_policy=DuplicatePolicy(policy))
        if expected == "refused":
            with pytest.raises(WorkflowAlreadyStartedError):
                await memory_stage.start(options, workflow_id=f"w-{closed}")
            continue
        found = await memory_stage.start(options, workflow_id=f"w-{closed}")
        assert (found == first) is (expected == "existing")


@pytest.mark.parametrize("policy", ["allow_duplicate", "allow_duplicate_failed_only", "reject_duplicate"])
async def test_a_start_that_is_refused_enforces_no_deadline(memory_stage: Stage, policy: str) -> None:
    first = await start(memory_stage, "allow_duplicate", run_timeout=60)
    memory_stage.clock.advance(60)
    with pytest.raises(WorkflowAlreadyStartedError):
        await start(memory_stage, policy)
    assert memory_stage.run(first).status == "pending"


async def test_a_start_that_finds_the_deadline_passed_ends_the_run_and_begins_anew(
    memory_stage: Stage,
) -> None:
    first = await start(memory_stage, "allow_duplicate", run_timeout=60)
    memory_stage.clock.advance(60)
    second = await start(memory_stage, "return_existing")
    assert second != first
    assert memory_stage.run(first).status == "timed_out"


async def test_a_start_reuses_the_run_that_a_retry_policy_started_in_its_place(memory_stage: Stage) -> None:
    first = await start(memory_stage, "allow_duplicate", run_timeout=60, retry_policy=POLICY)
    memory_stage.clock.advance(60)
    found = await start(memory_stage, "return_existing")
    assert found == memory_stage.run(first).next_run_id
