"""Options that a scope gives to the starts in it, and deadlines that are instants."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import Every, StartOptions, activity, starting, workflow
from outlast.errors import (
    ChildWorkflowError,
    InvalidOptionError,
    WorkflowTimeoutError,
)
from outlast.testing import Replayer
from outlast_workflow.options.ambient import start_options

DAY = timedelta(days=1)


@workflow.defn
class Waits:
    """Says which timeouts it has, after so many seconds."""

    @workflow.run
    async def run(self, seconds: float = 0) -> list[float | None]:
        if seconds:
            await workflow.sleep(seconds)
        info = workflow.info()
        return [info.run_timeout_seconds, info.execution_timeout_seconds]


@workflow.defn
class Chain:
    """Continues as new for ever."""

    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(30)
        workflow.continue_as_new()


@workflow.defn
class Parent:
    """Starts children in nested scopes, across a wait."""

    @workflow.run
    async def run(self) -> list[Any]:
        found = [await workflow.execute_child(Waits.run)]
        with starting(run_timeout=60):
            found.append(await workflow.execute_child(Waits.run))
            with starting(run_timeout=30):
                await workflow.sleep(5)
                found.append(await workflow.execute_child(Waits.run))
            with starting(run_timeout=None):
                found.append(await workflow.execute_child(Waits.run))
            found.append(await workflow.execute_child(Waits.run, run_timeout=None))
            found.append(await workflow.execute_child(Waits.run, run_timeout=90))
        found.append(await workflow.execute_child(Waits.run))
        return [timeouts[0] for timeouts in found]


@workflow.defn
class Bounded:
    """Starts a child with a deadline that is an instant, and another that has none."""

    @workflow.run
    async def run(self, deadline: str, wait: float, policy: str) -> str:
        await workflow.sleep(wait)
        try:
            await workflow.execute_child(
                Waits.run, 50, execution_deadline=datetime.fromisoformat(deadline), parent_close_policy=policy
            )
        except ChildWorkflowError as error:
            return str(getattr(error.__cause__, "timeout_kind", None))
        return "completed"


@activity.defn(start_to_close_timeout=10)
async def starts_something() -> int:
    return start_options(None).priority


@workflow.defn
async def asks_an_activity() -> int:
    return await starts_something()


WORKFLOWS = [Waits, Chain, Parent, Bounded, asks_an_activity]


async def test_a_scope_gives_its_options_to_starts_and_nothing_to_the_code_they_start(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS, activities=[starts_something]) as env:
        with starting(run_timeout=60, execution_timeout=600, memo={"by": "scope"}, priority=1):
            handle = await env.client.start(Waits.run)
            assert await handle.result() == [60, 600]
            described = await handle.describe()
            assert described.run.memo == {"by": "scope"}
            given = StartOptions(run_timeout=30, execution_timeout=None)
            assert await env.client.execute(Waits.run, options=given) == [30, None]
            # The worker runs in this context, and its workflows and activities begin outside of the scope.
            assert await env.client.execute(Parent.run) == [None, 60, 30, None, None, 90, None]
            assert await env.client.execute(asks_an_activity) == 5
        assert await env.client.execute(Waits.run) == [None, None]


async def test_scopes_in_workflow_code_replay(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(Parent.run)
        await handle.result()
        assert Replayer(WORKFLOWS).replay(await handle.export_history()).runs == 1


async def test_the_timeout_of_a_scope_counts_from_the_admission_after_a_wait_in_line(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        with starting(queue="q", run_timeout=60):
            first = await env.client.start(Waits.run, 50)
            second = await env.client.start(Waits.run, 50)
            third = await env.client.start(Waits.run, 70)
        assert [await first.result(), await second.result()] == [[60, None], [60, None]]
        with pytest.raises(WorkflowTimeoutError) as caught:
            await third.result()
        assert caught.value.timeout_kind == "run_timeout"


@pytest.mark.parametrize(
    "options", [{"run_timeuot": 60}, {"run_timeout": -1}, {"retry_policy": 3}, {"priority": 11}], ids=str
)
def test_a_wrong_option_is_named_by_the_call_and_not_by_the_first_scope(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(options)).split("_")[0]):
        starting(**options)


# --- deadlines that are instants ------------------------------------------------------------------------------------


async def test_an_execution_deadline_is_met_to_the_instant_by_all_runs_of_a_chain(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        at = env.now() + timedelta(seconds=100, microseconds=7)
        handle = await env.client.start(Chain.run, options=StartOptions(execution_deadline=at))
        described = await handle.describe()
        assert described.run.execution_deadline_at == at
        with pytest.raises(WorkflowTimeoutError) as caught:
            await handle.result()
        assert (caught.value.timeout_kind, caught.value.deadline_at) == ("execution_timeout", at)
        assert "its execution deadline passed at" in str(caught.value)
        [failure] = (await handle.describe()).failures
        assert failure.message == f"the execution deadline of workflow {handle.workflow_id} passed"


async def test_a_deadline_that_has_passed_writes_nothing(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        for options in (
            StartOptions(execution_deadline=env.now()),
            StartOptions(execution_deadline=env.now() + timedelta(seconds=5), start_delay=5),
        ):
            with pytest.raises(InvalidOptionError, match="execution deadline"):
                await env.client.start(Waits.run, options=options)
        with pytest.raises(InvalidOptionError, match="schedule"):
            await env.client.schedules.create(
                "s", Waits.run, spec=Every(60), options=StartOptions(execution_deadline=env.now() + DAY)
            )
        assert [run async for run in env.client.list()] == []


@pytest.mark.parametrize("policy", ["terminate", "abandon"])
async def test_a_childs_deadline_is_capped_by_its_parents_unless_it_is_abandoned(
    engine: MakeEnvironment, policy: str
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        ends = (env.now() + timedelta(seconds=30)).isoformat()
        parent = await env.client.start(
            Bounded.run, ends, 1, policy, options=StartOptions(execution_timeout=20)
        )
        with pytest.raises(WorkflowTimeoutError):
            await parent.result()
        deadline = (await parent.describe()).run.execution_deadline_at
        [child] = [run async for run in env.client.list(workflow_type="Waits")]
        assert child.execution_deadline_at == (
            deadline if policy == "terminate" else datetime.fromisoformat(ends)
        )


async def test_a_child_whose_deadline_has_passed_times_out_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        ends = (env.now() + timedelta(seconds=10)).isoformat()
        handle = await env.client.start(Bounded.run, ends, 30, "terminate")
        assert await handle.result() == "execution_timeout"
        assert Replayer(WORKFLOWS).replay(await handle.export_history()).runs == 1
