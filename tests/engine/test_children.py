"""Children: started with their parent's decision, told of once, typed errors; on every store and in both modes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine import family
from tests.engine.conftest import MakeEnvironment
from tests.engine.family import Parent
from tests.engine.histories import types_of
from tests.rows import latest_row

from outlast import workflow
from outlast_store.reads.runs import find_run
from outlast_workflow.errors import (
    ApplicationError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.child import ChildWorkflowError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import StartOptions


async def test_a_parent_gets_its_childs_result(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(Parent.run, 2, 3, id="parent") == 5
        assert await env.client.handle("child").result() == 5
        assert await types_of(env.client, "parent") == [
            "WorkflowStarted",
            "WorkflowTaskCompleted",
            "ChildWorkflowScheduled",
            "ChildWorkflowStarted",
            "ChildWorkflowCompleted",
            "WorkflowTaskCompleted",
            "WorkflowCompleted",
        ]


async def test_children_of_all_kinds(families: MakeEnvironment) -> None:
    async with families() as env:
        result = await env.client.execute(family.parent_of_all_kinds, id="parent")
        assert result == ["rested", "rested", 30, 2, len("napper"), 36]
        description = await env.client.describe("napper")
        assert description.run.memo == {"who": "napper"}


async def test_a_child_knows_its_parent_and_inherits_its_priority(families: MakeEnvironment) -> None:
    async with families() as env:
        options = StartOptions(priority=3)
        (parent_id, run_id, priority), childs = await env.client.execute(
            family.parent_of_kin, id="parent", options=options
        )
        assert childs[:3] == [parent_id, run_id, priority] == ["parent", run_id, 3]


async def test_many_children_at_once(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(family.fan_out, 40) == sum(range(1, 41)) + 2


@pytest.mark.parametrize(
    ("kind", "cause", "facts"),
    [
        ("failed", "ApplicationError", {"details": [42]}),
        ("timed_out", "WorkflowTimeoutError", {"timeout_kind": "run_timeout"}),
        ("taken", "WorkflowAlreadyStartedError", {"status": "running"}),
        ("retried", "ApplicationError", {"details": [42]}),
    ],
)
async def test_a_parent_sees_how_its_child_ended(
    families: MakeEnvironment, kind: str, cause: str, facts: dict[str, Any]
) -> None:
    async with families() as env:
        await env.client.start(family.napping, 1000.0, id="taken")
        await env.settle()
        found = await env.client.execute(family.told_how_it_ended, kind, id="parent")
        child = "taken" if kind == "taken" else "child"
        state = "maximum_attempts_reached" if kind == "retried" else None
        assert found == [cause, found[1], child, kind != "taken", state, facts]
        assert child in found[1]
        if kind != "taken":
            assert (await env.client.describe("parent")).failures[0].source_kind == "child_workflow"


async def test_a_parent_sees_that_its_child_was_terminated_or_cancelled(families: MakeEnvironment) -> None:
    async with families() as env:
        for kind, cause in (("terminate", "WorkflowTerminatedError"), ("cancel", "WorkflowCancelledError")):
            handle = await env.client.start(family.told_how_it_ended, "slow", id=f"parent-{kind}")
            await env.settle()
            await getattr(env.client.handle("child"), kind)("why not")
            found = await handle.result()
            assert found[0] == cause
            assert found[5] == {"reason": "why not"}


async def test_a_childs_failure_that_nobody_catches_fails_its_parent(families: MakeEnvironment) -> None:
    async with families() as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(family.lets_it_through, "no way", id="parent")
        error = caught.value.__cause__
        assert isinstance(error, ChildWorkflowError)
        assert (error.workflow_id, error.workflow_type) == ("child", "hopeless")
        assert isinstance(error.__cause__, ApplicationError)
        assert error.__cause__.details == (42,)
        failures = (await env.client.describe("parent")).failures
        assert [row.propagation_kind for row in failures] == ["terminal", "child"]
        assert {row.failure_category for row in failures} == {"child_workflow"}


async def test_a_parent_is_told_once_at_the_end_of_the_childs_chain(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start("relay", id="parent")
        assert await handle.result() == ["counted", 3]
        types = await types_of(env.client, "parent")
        assert types.count("ChildWorkflowCompleted") == 2
        assert (await env.client.describe("counted")).run_count == 4


async def test_a_child_with_a_closed_id_begins_a_new_chain(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(Parent.run, 1, 1, id="parent") == 2
        assert await env.client.execute(Parent.run, 2, 2, id="parent-2") == 4
        assert await env.client.handle("child").result() == 4


async def test_a_child_starts_even_if_its_parent_ends_in_the_same_workflow_task(
    families: MakeEnvironment,
) -> None:
    async with families() as env:
        assert await env.client.execute(family.leaves, "abandon", 1, id="parent") == "left"
        await env.settle()
        assert (await env.client.describe("child-0")).run.status == "running"
        await env.client.handle("child-0").terminate()


async def test_a_parent_that_ended_is_not_told(families: MakeEnvironment) -> None:
    async with families() as env:
        run_id = await env.client.execute(family.waits_for_the_start_only, id="parent")
        child = await env.client.describe("child")
        assert child.run.run_id == run_id
        assert child.run.status == "running"
        assert await env.client.handle("child").result() == "rested"
        assert (await types_of(env.client, "parent"))[-1] == "WorkflowCompleted"


async def test_a_child_that_is_terminated_with_its_parent_gets_the_parents_deadline(
    families: MakeEnvironment,
) -> None:
    async with families() as env:
        options = StartOptions(execution_timeout=60)
        handle = await env.client.start(family.told_how_it_ended, "slow", id="parent", options=options)
        await env.settle()
        row = await latest_row(env.client.handle("child"))
        parent = await env.client.runtime.read(find_run, str(handle.run_id))
        assert parent is not None
        assert row.execution_deadline_at == parent.execution_deadline_at
        assert row.execution_timeout is None
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
        with pytest.raises(WorkflowTimeoutError) as caught:
            await env.client.handle("child").result()
        assert caught.value.timeout_kind == "execution_timeout"


async def test_too_many_open_children_fail_the_run(families: MakeEnvironment) -> None:
    async with families(limits=StructuralLimits(open_children=3)) as env:
        with pytest.raises(WorkflowFailedError) as caught:
            await env.client.execute(family.fan_out, 4)
        assert isinstance(caught.value.__cause__, StructuralLimitError)
        assert caught.value.__cause__.kind == "open_children"


async def test_a_refused_start_of_a_parent_leaves_no_child(families: MakeEnvironment) -> None:
    async with families() as env:
        await env.client.start(family.napping, 1000.0, id="parent")
        with pytest.raises(Exception, match="already started"):
            await env.client.start(Parent.run, 1, 2, id="parent")
        with pytest.raises(WorkflowNotFoundError):
            await env.client.describe("child")


@workflow.defn
class Hears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.run
    async def run(self, words: int) -> list[str]:
        await workflow.wait_condition(lambda: len(self.heard) == words)
        return self.heard

    @workflow.signal
    def hear(self, word: str, times: int) -> None:
        self.heard += [word] * times


@workflow.defn
async def tells_its_child() -> list[object]:
    child = workflow.start_child(Hears.run, 3, id="hears")
    await child.signal(Hears.hear, "before it is known to have started", 1)
    await child.started()
    await child.signal("hear", "after", 2)
    said: list[object] = [await child]
    try:
        await child.signal(Hears.hear, "late", 1)
    except WorkflowClosedError as error:
        said.append(error.workflow_id)
    return said


@workflow.defn
def tells_its_child_plainly() -> list[str]:
    child = workflow.blocking.start_child(Hears.run, 2, id="hears")
    child.signal(Hears.hear, "plain", 2)
    return child.result()


async def test_a_handle_to_a_child_signals_it(families: MakeEnvironment) -> None:
    async with families(workflows=[Hears, tells_its_child, tells_its_child_plainly], activities=()) as env:
        assert await env.client.execute(tells_its_child, id="tells") == [
            ["before it is known to have started", "after", "after"],
            "hears",
        ]
        assert await env.client.execute(tells_its_child_plainly, id="plainly") == ["plain", "plain"]
