"""The owner of runs: which it accepts, keeps, drops and reads again."""

from __future__ import annotations

from typing import Any

from tests.engine import programs
from tests.engine.answerers import WORKFLOWS, Cart
from tests.engine.conftest import MakeEnvironment

from outlast.testing import TestEnvironment
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.owner import RunOwner


def owner_of(env: TestEnvironment) -> RunOwner:
    return env.worker.local.owner


async def test_it_serves_its_types_on_its_queues_until_it_stops(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        owner = owner_of(env)
        (queue, *_) = owner.settings.task_queues
        assert owner.serves("Cart", queue)
        assert not owner.serves("Cart", "elsewhere")
        assert not owner.serves("Unknown", queue)
        owner.stop()
        assert not owner.serves("Cart", queue)


async def test_a_run_stays_cached_between_its_workflow_tasks_and_leaves_at_its_end(
    in_memory: MakeEnvironment,
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.query(Cart.count)
        (run_id,) = owner_of(env).cache.runs
        assert run_id == handle.run_id
        await handle.execute_update(Cart.close)
        await handle.result()
        assert not owner_of(env).cache.runs


async def test_a_dropped_run_comes_back_by_replay(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.query(Cart.count)
        owner_of(env).drop_all()
        assert not owner_of(env).cache.runs
        await handle.execute_update(Cart.close)
        await handle.result()


async def test_a_run_that_was_woken_elsewhere_is_read_before_its_next_workflow_task(
    in_memory: MakeEnvironment,
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.query(Cart.count)
        owner = owner_of(env)
        assert handle.run_id is not None
        cached_run = owner.cache.runs[handle.run_id]
        tasks = owner.tasks.count
        owner.refresh(handle.run_id)
        gaps = [cached_run.gap]
        await env.settle()
        gaps.append(cached_run.gap)
        assert gaps == [True, False]
        assert owner.tasks.count == tasks, "there was nothing new"


async def test_only_a_cached_run_is_read_again_when_it_may_have_closed(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        owner = owner_of(env)
        owner.refresh_cached("no-such-run")
        await env.settle()
        assert not owner.cache.runs


async def test_an_eager_start_whose_first_workflow_task_fails_is_started_without_it(
    in_memory: MakeEnvironment, monkeypatch: Any
) -> None:
    run_workflow_task = CachedRun.run_workflow_task

    def fails_once(cached_run: CachedRun, now: int) -> Any:
        monkeypatch.setattr(CachedRun, "run_workflow_task", run_workflow_task)
        raise RuntimeError("once")

    async with in_memory() as env:
        monkeypatch.setattr(CachedRun, "run_workflow_task", fails_once)
        handle = await env.client.start(programs.nothing, id="w")
        await handle.result()
        types = [event.type async for event in handle.history()]
        assert types == ["WorkflowStarted", "WorkflowTaskCompleted", "WorkflowCompleted"]
