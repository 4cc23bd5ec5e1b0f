"""Parent-close policies: what becomes of the children of a chain that has ended, step by step, after any crash."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine import family, programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.rows import latest_row

from outlast.client.client import Client
from outlast.watchdog import TaskWatchdog
from outlast_store.reads.runs import find_run
from outlast_store.transitions.parents import NOT_YET
from outlast_workflow.errors import (
    WorkflowCancelledError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.options.options import StartOptions


async def status_of(client: Client, workflow_id: str) -> str:
    return (await latest_row(client.handle(workflow_id))).status


async def test_children_are_terminated_by_default(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(family.leaves_later, "terminate", 3, 5.0, id="parent") == "left"
        await env.sleep(1)
        for number in range(3):
            with pytest.raises(WorkflowTerminatedError, match="its parent parent has ended"):
                await env.client.handle(f"child-{number}").result()
            types = await types_of(env.client, f"child-{number}")
            assert types[-3:] == ["ParentClosePolicyApplied", "TimerCancelled", "WorkflowTerminated"]
        assert (await latest_row(env.client.handle("parent"))).cascade_at is None


async def test_children_that_begin_as_their_parent_ends_meet_its_policy(families: MakeEnvironment) -> None:
    async with families() as env:
        await env.client.execute(family.leaves, "terminate", 2, id="parent")
        await env.sleep(1)
        assert [await status_of(env.client, f"child-{n}") for n in range(2)] == ["terminated"] * 2


async def test_abandoned_children_live_on(families: MakeEnvironment) -> None:
    async with families() as env:
        await env.client.execute(family.leaves_later, "abandon", 2, 5.0, id="parent")
        await env.sleep(60)
        assert [await status_of(env.client, f"child-{n}") for n in range(2)] == ["running"] * 2
        assert "ParentClosePolicyApplied" not in await types_of(env.client, "child-0")
        assert (await latest_row(env.client.handle("parent"))).cascade_at is None


async def test_children_are_asked_to_cancel_and_may_clean_up(families: MakeEnvironment) -> None:
    async with families() as env:
        await env.client.execute(family.leaves_later, "request_cancel", 2, 5.0, id="parent")
        await env.sleep(1)
        assert await status_of(env.client, "child-0") == "running"
        for number in range(2):
            with pytest.raises(WorkflowCancelledError, match="its parent parent has ended"):
                await env.client.handle(f"child-{number}").result()
            assert programs.calls[f"c{number} cleaned up"] == 1
        types = await types_of(env.client, "child-0")
        applied = types.index("ParentClosePolicyApplied")
        assert types[applied + 1] == "WorkflowCancelRequested"
        assert types.count("ParentClosePolicyApplied") == 1


@pytest.mark.parametrize("end", ["terminate", "cancel", "timeout"])
async def test_policy_applies_however_the_parent_ends(families: MakeEnvironment, end: str) -> None:
    async with families() as env:
        options = StartOptions(run_timeout=20) if end == "timeout" else None
        handle = await env.client.start(
            family.leaves_later, "terminate", 2, 100.0, id="parent", options=options
        )
        await env.sleep(1)
        if end != "timeout":
            await getattr(handle, end)()
        with pytest.raises((WorkflowTerminatedError, WorkflowCancelledError, WorkflowTimeoutError)):
            await handle.result()
        await env.sleep(1)
        assert [await status_of(env.client, f"child-{n}") for n in range(2)] == ["terminated"] * 2


async def test_policy_waits_for_the_end_of_the_chain(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.goes_on, 3, "terminate", id="parent")
        await env.sleep(35)
        assert [await status_of(env.client, f"child-{n}") for n in range(4)] == ["running"] * 4
        assert (await latest_row(handle)).cascade_at == NOT_YET
        assert await handle.result() == "ended"
        await env.sleep(1)
        assert [await status_of(env.client, f"child-{n}") for n in range(4)] == ["terminated"] * 4
        assert (await latest_row(handle)).cascade_at is None


async def test_a_long_chain_is_walked_in_steps(
    families: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast_store.transitions.children.RUNS_IN_A_STEP", 2)
    async with families() as env:
        handle = await env.client.start(family.goes_on, 6, "terminate", id="parent")
        assert await handle.result() == "ended"
        await env.sleep(1)
        assert [await status_of(env.client, f"child-{n}") for n in range(7)] == ["terminated"] * 7


async def test_a_family_ends_down_to_the_grandchildren(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.grandparent, id="grandparent")
        await env.sleep(1)
        await handle.terminate()
        await env.sleep(1)
        assert [await status_of(env.client, name) for name in ("middle", "child-0", "child-1")] == [
            "terminated"
        ] * 3


async def test_a_child_past_its_own_deadline_is_timed_out_instead(
    families: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with families() as env:
        options = StartOptions(execution_timeout=60)
        handle = await env.client.start(
            family.leaves_later, "terminate", 3, 100_000.0, id="parent", options=options
        )
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
        await env.sleep(1)
        assert [await status_of(env.client, f"child-{n}") for n in range(3)] == ["timed_out"] * 3


@pytest.mark.usefixtures("one_worker")
async def test_many_children_end_in_bounded_steps_that_survive_a_crash(
    families: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast_store.transitions.children.CHILDREN_IN_A_STEP", 4)
    async with families() as env:
        await env.worker.stop()
        worker = env.new_worker(
            workflows=[*programs.WORKFLOWS, *family.WORKFLOWS], activities=programs.ACTIVITIES, watchdog=False
        )
        await worker.start()
        handle = await env.client.start(family.leaves_later, "terminate", 10, 100_000.0, id="parent")
        await env.sleep(1)
        await handle.terminate()
        await env.sleep(1)

        async def terminated() -> int:
            statuses = [await status_of(env.client, f"child-{number}") for number in range(10)]
            return statuses.count("terminated")

        assert await terminated() == 0
        dying = TaskWatchdog(env.client)
        steps = 0
        journal = env.client.runtime.journal
        submit = journal.submit

        def crash_after_two_steps(change: Any, callback: Any) -> None:
            nonlocal steps
            if type(change).__name__ == "ApplyClosePolicy":
                steps += 1
                if steps > 2:
                    raise KeyboardInterrupt
            submit(change, callback)

        with monkeypatch.context() as patch:
            patch.setattr(journal, "submit", crash_after_two_steps)
            with pytest.raises(KeyboardInterrupt):
                await dying.run_pass()
        assert await terminated() == 8
        report = await TaskWatchdog(env.client).run_pass()
        assert report.counts == {"child_terminated": 2}
        assert await terminated() == 10
        assert (await TaskWatchdog(env.client).run_pass()).counts == {}
        await worker.stop()
        row = await env.client.runtime.read(find_run, str(handle.run_id))
        assert row is not None
        assert row.cascade_at is None
