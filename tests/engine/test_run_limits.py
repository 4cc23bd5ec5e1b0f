"""Timeouts that a workflow brings along: those of its definition, and the limit that its code sets itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import Every, RunStatus, Schedule, StartOptions, WorkflowHandle, starting, workflow
from outlast.errors import InvalidOptionError, WorkflowTimeoutError
from outlast.testing import check_database
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import DurableCallError
from outlast_workflow.options.ambient import start_options, unsaid

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@workflow.defn(run_timeout=100, execution_timeout=timedelta(seconds=500))
async def bounded(seconds: float = 0.0) -> list[float | None]:
    info = workflow.info()
    await workflow.sleep(seconds)
    return [info.run_timeout_seconds, info.execution_timeout_seconds]


@workflow.defn(run_timeout=100)
class Turning:
    @workflow.run
    async def run(self, turns: int) -> float | None:
        if turns:
            workflow.continue_as_new(turns - 1)
        return workflow.info().run_timeout_seconds


@workflow.defn
async def parent() -> list[Any]:
    calls: list[dict[str, Any]] = [
        {},
        {"run_timeout": 7},
        {"run_timeout": None},
        {"execution_timeout": None},
        {"execution_deadline": LATER},
    ]
    found = [await workflow.execute_child(bounded, 0.0, **call) for call in calls]
    with starting(run_timeout=8):
        found.append(await workflow.execute_child(bounded, 0.0))
    with starting(run_timeout=None):
        found.append(await workflow.execute_child(bounded, 0.0))
    found.append(await workflow.execute_child("bounded", 0.0))
    return found


async def timeouts(handle: WorkflowHandle[Any]) -> tuple[float | None, float | None]:
    seen = await handle.describe()
    return seen.run.run_timeout_seconds, seen.execution_timeout_seconds


async def test_a_start_by_definition_has_its_timeouts_and_what_is_said_wins(engine: MakeEnvironment) -> None:
    async with engine(workflows=[bounded]) as env:
        start = env.client.start

        async def of(options: StartOptions | None = None) -> tuple[float | None, float | None]:
            return await timeouts(await start(bounded, options=options))

        assert await of() == (100, 500)
        assert await of(StartOptions(run_timeout=7, priority=3)) == (7, 500)
        assert await of(StartOptions(run_timeout=None)) == (None, 500)
        assert await of(StartOptions(execution_timeout=None)) == (100, None)
        within = await of(StartOptions(execution_deadline=LATER))
        assert within[0] == 100
        assert within[1] is not None
        assert within[1] > 500
        assert await of(StartOptions(execution_deadline=None)) == (100, 500)
        with starting(run_timeout=8):
            assert await of() == (8, 500)
            assert await of(StartOptions(run_timeout=7)) == (7, 500)
            with starting(run_timeout=None):
                assert await of() == (None, 500)
        assert await timeouts(await start("bounded")) == (None, None)
        debounced = await env.client.debounce(bounded, key="k", period=1, timeout=60)
        assert await timeouts(debounced) == (100, 500)
        with pytest.raises(InvalidOptionError, match=r"start delay .* must be shorter"):
            await of(StartOptions(start_delay=501))


async def test_children_and_next_runs_have_them_likewise(engine: MakeEnvironment) -> None:
    async with engine(workflows=[bounded, parent, Turning]) as env:
        found = await env.client.execute(parent)
        by_default, run, no_run, no_execution, deadline, scope, cleared, by_name = found
        assert by_default == [100, 500]
        assert (run, no_run, no_execution) == ([7, 500], [None, 500], [100, None])
        assert deadline[0] == 100
        assert deadline[1] > 500
        assert (scope, cleared, by_name) == ([8, 500], [None, 500], [None, None])
        assert await env.client.execute(Turning.run, 2) == 100
        again = await env.client.start(Turning.run, 2, options=StartOptions(run_timeout=50))
        assert await again.result() == 50


async def test_schedules_of_a_definition_have_them_likewise(engine: MakeEnvironment) -> None:
    async with engine(workflows=[bounded]) as env:
        declared = [
            Schedule("plain", bounded, 0.0, spec=Every(60)),
            Schedule("said", bounded, 0.0, spec=Every(60), options=StartOptions(run_timeout=7)),
            Schedule("named", "bounded", 0.0, spec=Every(60)),
        ]
        found = {}
        for schedule in declared:
            await env.client.schedules.apply([schedule])
            handle = env.client.schedules.handle(schedule.schedule_id)
            found[schedule.schedule_id] = await timeouts(await handle.trigger())
        assert found == {"plain": (100, 500), "said": (7, 500), "named": (None, None)}


def test_timeouts_of_a_definition_are_checked_when_it_is_made() -> None:
    assert definition_of(bounded).timeouts == {"run_timeout": 100, "execution_timeout": 500}
    for timeout in (0, 0.5, -1, float("inf"), float("nan"), True, "60"):
        given: Any = timeout
        with pytest.raises(InvalidOptionError, match="run timeout"):
            workflow.defn(run_timeout=given)
        with pytest.raises(InvalidOptionError, match="execution timeout"):
            workflow.defn(execution_timeout=given)


SAID = st.fixed_dictionaries(
    {},
    optional={
        "run_timeout": st.sampled_from([None, 30]),
        "execution_timeout": st.sampled_from([None, 60]),
        "execution_deadline": st.sampled_from([None, LATER]),
    },
).filter(lambda said: not (said.get("execution_timeout") and said.get("execution_deadline")))


@given(SAID, st.lists(SAID, max_size=3))
def test_a_definition_is_the_outermost_scope(explicit: dict[str, Any], scopes: list[dict[str, Any]]) -> None:
    defined = {"run_timeout": 1000, "execution_timeout": 2000}

    def within(left: list[dict[str, Any]], innermost: Callable[[], StartOptions]) -> StartOptions:
        if not left:
            return innermost()
        with starting(**left[0]):
            return within(left[1:], innermost)

    def apart() -> StartOptions:
        options = start_options(StartOptions(**explicit))
        return options.replace(**unsaid(defined, options.given()))

    together = within([defined, *scopes], lambda: start_options(StartOptions(**explicit)))
    assert within(scopes, apart) == together


# --- workflow.limit ---------------------------------------------------------------------------------------------------


@workflow.defn
class Limited:
    """Sets itself limits, one after the other, with a pause before each."""

    def __init__(self) -> None:
        self.left: list[float | None] = []

    @workflow.run
    async def run(self, limits: Any, rest: float = 0.0) -> list[float | None]:
        for pause, timeout in limits:
            if pause:
                await workflow.sleep(pause)
            workflow.limit(timeout)
            remaining = workflow.time_remaining()
            self.left.append(remaining.total_seconds() if remaining else None)
        await workflow.sleep(rest)
        return self.left

    @workflow.query
    def cheat(self) -> None:
        workflow.limit(1)


@workflow.defn
async def misused(given: Any) -> None:
    limit: Any = "1h" if given == "text" else given
    workflow.limit(limit)


@workflow.defn
def limited_plainly() -> float:
    workflow.blocking.limit(timedelta(minutes=1))
    remaining = workflow.blocking.time_remaining()
    assert remaining is not None
    return remaining.total_seconds()


@workflow.defn
async def limited_in_turn(turn: int) -> list[float | None]:
    if turn == 0:
        workflow.limit(20)
        await workflow.sleep(15)
        workflow.continue_as_new(1)
    before = workflow.time_remaining()
    workflow.limit(30)
    after = workflow.time_remaining()
    return [one.total_seconds() if one else None for one in (before, after)]


async def lowered(handle: WorkflowHandle[Any]) -> list[dict[str, Any]]:
    return [event.payload async for event in handle.history() if event.type == "WorkflowDeadlineLowered"]


async def test_a_limit_ends_the_run_and_only_ever_comes_nearer(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Limited]) as env:
        handle = await env.client.start(Limited.run, [(0, 50), (10, 60), (0, 50), (5, 20)], 100.0)
        begun = (await handle.describe()).run.created_at
        await env.sleep(1)
        assert (await handle.describe()).run.run_deadline_at == begun + timedelta(seconds=50)
        await env.sleep(17)
        seen = (await handle.describe()).run
        assert seen.run_deadline_at == begun + timedelta(seconds=20)
        assert seen.run_timeout_seconds is None
        assert [one["timeout_seconds"] for one in await lowered(handle)] == [50, 20]
        with pytest.raises(WorkflowTimeoutError) as caught:
            await handle.result()
        assert caught.value.timeout_kind == "run_timeout"
        assert env.now() == begun + timedelta(seconds=20)
        again = await env.client.start(Limited.run, [(0, 50), (10, 60), (0, 50), (5, 20)])
        assert await again.result() == [50, 40, 40, 5]


async def test_the_timeouts_of_the_start_hold_beside_a_limit(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Limited]) as env:
        start = env.client.start
        options = StartOptions(run_timeout=30, execution_timeout=300)
        farther = await start(Limited.run, [(0, 30), (0, 31)], options=options)
        assert await farther.result() == [30, 30]
        assert await lowered(farther) == []
        nearer = await start(Limited.run, [(0, 29)], options=options)
        assert await nearer.result() == [29]
        over = await start(Limited.run, [(10, 5)], 60.0, options=options)
        with pytest.raises(WorkflowTimeoutError):
            await over.result()
        waited = await start(Limited.run, [(0, 25)], task_queue="later", options=options)
        await env.sleep(10)
        async with env.new_worker(task_queue="later", workflows=[Limited]):
            # The run timeout has counted from the start, and is the nearer one.
            assert await waited.result() == [20]
            assert [one["timeout_seconds"] for one in await lowered(waited)] == [25]


async def test_the_next_run_of_a_chain_has_no_limit_of_the_one_before(engine: MakeEnvironment) -> None:
    async with engine(workflows=[limited_in_turn]) as env:
        assert await env.client.execute(limited_in_turn, 0) == [None, 30]


async def test_a_reset_a_fork_and_a_resume_begin_the_limit_anew(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Limited]) as env:
        await write_queue(env.client.runtime.journal, "line", concurrency=1)
        handle = await env.client.start(Limited.run, [(0, 20)], 30.0, id="w")
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
        await env.sleep(100)

        async def left(continued: Callable[[], Awaitable[WorkflowHandle[Any]]]) -> float:
            before = env.now()
            run = (await (await continued()).describe()).run
            assert run.run_deadline_at is not None
            assert run.run_timeout_seconds is None
            return (run.run_deadline_at - before).total_seconds()

        assert await left(lambda: handle.resume()) == 20
        await env.sleep(7)
        assert await left(lambda: env.client.handle("w").reset("last-workflow-task")) > 13
        point = 4
        assert await left(lambda: env.client.handle("w").reset(point)) == 20
        forked = await env.client.fork("w", point, id="fork")
        assert (await forked.describe()).run.run_deadline_at == env.now() + timedelta(seconds=20)
        await env.sleep(8)
        before = env.now()
        in_line = await env.client.fork("w", point, id="queued", queue="line")
        await env.settle()
        seen = (await in_line.describe()).run
        assert seen.run_deadline_at == before + timedelta(seconds=20)
        with env.client.runtime.database.reader() as connection:
            assert check_database(connection) == []


async def test_a_limit_that_cannot_be_is_an_error_that_fails_the_task(engine: MakeEnvironment) -> None:
    async with engine(workflows=[misused, Limited, limited_plainly]) as env:
        for given in (0, -1, 0.5, "text", 1e15):
            handle = await env.client.start(misused, given)
            await env.sleep(1)
            seen = await handle.describe()
            assert seen.run.status is RunStatus.PENDING or seen.run.task_failures
            await handle.terminate()
        assert await env.client.execute(limited_plainly) == 60
        asked = await env.client.start(Limited.run, [(0, 50)], 50.0)
        with pytest.raises(Exception, match="tried to make a durable call"):
            await asked.query("cheat")
    with pytest.raises(DurableCallError):
        workflow.limit(1)


async def test_an_activity_is_bounded_by_a_limit(engine: MakeEnvironment) -> None:
    @workflow.defn
    async def calling() -> str:
        workflow.limit(10)
        try:
            return str(await workflow.execute_activity("nobody serves it"))
        finally:
            await asyncio.sleep(0)

    async with engine(workflows=[calling]) as env:
        with pytest.raises(WorkflowTimeoutError):
            await env.client.execute(calling)
