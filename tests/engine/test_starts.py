"""Starting: every duplicate policy on open and closed ids, eager starts and what becomes of those that fail."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import Sleeper, Sum

from outlast import ApplicationError, workflow
from outlast.client.client import Client
from outlast.testing import TestEnvironment
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import (
    InvalidOptionError,
    WorkflowAlreadyStartedError,
    WorkflowNotFoundError,
    WorkflowResultError,
    WorkflowTerminatedError,
)
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy

YEAR_S = 31_557_600


async def row_of(client: Client, run_id: str | None) -> RunRow:
    assert run_id is not None
    row = await client.runtime.read(find_run, run_id)
    assert row is not None
    return row


OPEN = {
    DuplicatePolicy.ALLOW_DUPLICATE: "error",
    DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY: "error",
    DuplicatePolicy.REJECT_DUPLICATE: "error",
    DuplicatePolicy.RETURN_EXISTING: "existing",
    DuplicatePolicy.TERMINATE_EXISTING: "replaced",
}
CLOSED = {
    DuplicatePolicy.ALLOW_DUPLICATE: "new",
    DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY: "error",
    DuplicatePolicy.REJECT_DUPLICATE: "error",
    DuplicatePolicy.RETURN_EXISTING: "new",
    DuplicatePolicy.TERMINATE_EXISTING: "new",
}


@pytest.mark.parametrize("worker", [True, False], ids=["eager", "no worker"])
@pytest.mark.parametrize("policy", list(DuplicatePolicy))
async def test_an_open_id(engine: MakeEnvironment, policy: DuplicatePolicy, worker: bool) -> None:
    nobody = {"workflows": (), "activities": ()}
    async with engine(**({} if worker else nobody)) as env:
        first = await env.client.start(Sleeper.run, 100, id="w")
        options = StartOptions(duplicate_policy=policy)
        if OPEN[policy] == "error":
            with pytest.raises(WorkflowAlreadyStartedError) as caught:
                await env.client.start(Sleeper.run, 1, id="w", options=options)
            assert caught.value.run_id == first.run_id
            assert caught.value.workflow_id == "w"
            assert (await row_of(env.client, first.run_id)).is_open
            return
        second = await env.client.start(Sleeper.run, 1, id="w", options=options)
        if OPEN[policy] == "existing":
            assert second.run_id == first.run_id
        else:
            assert second.run_id != first.run_id
            with pytest.raises(WorkflowTerminatedError):
                await first.result()
            assert (await row_of(env.client, second.run_id)).run_number == 1
        if worker:
            await second.result()


@pytest.mark.parametrize("speaks", [False, True], ids=["start", "signal with start"])
@pytest.mark.parametrize("policy", list(DuplicatePolicy))
async def test_an_id_whose_run_is_past_its_deadline(
    in_memory: MakeEnvironment, policy: DuplicatePolicy, speaks: bool
) -> None:
    """It has timed out, though nobody has looked yet: it is neither returned nor terminated, nor spoken to."""
    async with in_memory(workflows=(), activities=()) as env:
        first = await env.client.start("Sum", id="w", options=StartOptions(run_timeout=5))
        await env.sleep(10)
        options = StartOptions(duplicate_policy=policy)

        async def again() -> Any:
            if speaks:
                return await env.client.signal_with_start("Sum", id="w", signal="add", options=options)
            return await env.client.start("Sum", id="w", options=options)

        if policy is DuplicatePolicy.REJECT_DUPLICATE or (
            policy.startswith("allow_duplicate") and not speaks
        ):
            with pytest.raises(WorkflowAlreadyStartedError):
                await again()
            assert (await row_of(env.client, first.run_id)).is_open
        else:
            assert (await again()).run_id != first.run_id
            assert (await row_of(env.client, first.run_id)).status == "timed_out"


@pytest.mark.parametrize("policy", list(DuplicatePolicy))
async def test_a_closed_id(engine: MakeEnvironment, policy: DuplicatePolicy) -> None:
    async with engine() as env:
        first = await env.client.start(Sum.run, [1], id="w")
        await first.result()
        options = StartOptions(duplicate_policy=policy)
        if CLOSED[policy] == "error":
            with pytest.raises(WorkflowAlreadyStartedError):
                await env.client.start(Sum.run, [2], id="w", options=options)
            assert await env.client.handle("w").result() == 1
            return
        second = await env.client.start(Sum.run, [2], id="w", options=options)
        assert second.run_id != first.run_id
        assert await second.result() == 2
        assert await first.result() == 1, "a handle follows its own chain, never a later one of the same id"
        assert await env.client.handle("w").result() == 2


@pytest.mark.parametrize("end", ["failed", "cancelled", "terminated", "timed_out"])
async def test_an_id_that_did_not_complete_may_be_started_anew(engine: MakeEnvironment, end: str) -> None:
    """With ``allow_duplicate_failed_only``, and until it has completed."""

    @workflow.defn
    async def errand(how: str) -> str:
        if how == "failed":
            raise ApplicationError("no")
        if how != "completed":
            await workflow.sleep(1000)
        return "done"

    async with engine(workflows=[errand]) as env:
        options = StartOptions.allow_duplicate_failed_only().with_run_timeout(60)
        first = await env.client.start(errand, end, id="w", options=options)
        if end in ("cancelled", "terminated"):
            await (first.cancel() if end == "cancelled" else first.terminate())
        with pytest.raises(WorkflowResultError):
            await first.result()
        assert (await row_of(env.client, str(first.run_id))).status == end
        second = await env.client.start(errand, "completed", id="w", options=options)
        assert await second.result() == "done"
        with pytest.raises(WorkflowAlreadyStartedError) as refused:
            await env.client.start(errand, "completed", id="w", options=options)
        assert (refused.value.run_id, refused.value.status) == (second.run_id, "completed")


async def test_of_many_starts_of_one_id_in_one_batch_one_wins(engine: MakeEnvironment) -> None:
    async with engine() as env:
        outcomes = await asyncio.gather(
            *[env.client.start(Sleeper.run, 5, id="w") for _ in range(20)], return_exceptions=True
        )
        won = [one for one in outcomes if not isinstance(one, BaseException)]
        assert len(won) == 1
        assert sum(isinstance(one, WorkflowAlreadyStartedError) for one in outcomes) == 19
        await won[0].result()


async def test_of_many_starts_that_return_the_existing_all_get_one_run(engine: MakeEnvironment) -> None:
    async with engine() as env:
        options = StartOptions.return_existing()
        handles = await asyncio.gather(
            *[env.client.start(Sleeper.run, 5, id="w", options=options) for _ in range(20)]
        )
        assert len({handle.run_id for handle in handles}) == 1
        await handles[0].result()


async def test_terminate_existing_leaves_nothing_open(engine: MakeEnvironment) -> None:
    async with engine() as env:
        first = await env.client.start(programs.waiting, 1000, id="w")
        await env.settle()
        assert programs.calls["wait_long"] == 1
        second = await env.client.start(Sum.run, [1], id="w", options=StartOptions.terminate_existing())
        assert await second.result() == 1
        await env.settle()
        assert programs.calls["wait_long cancelled"] == 1
        assert (await row_of(env.client, first.run_id)).status == "terminated"


async def test_a_start_whose_first_workflow_task_fails_is_started_alone(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start("strict", "not a number", "nor a date", id="w")
        row = await row_of(env.client, handle.run_id)
        assert row.is_open
        await env.settle()
        row = await row_of(env.client, handle.run_id)
        assert row.task_failures == 1
        await handle.terminate("enough")


async def test_without_a_worker_the_run_waits(engine: MakeEnvironment) -> None:
    async with engine(workflows=(), activities=()) as env:
        handle = await env.client.start(Sum.run, [1, 2], id="w")
        row = await row_of(env.client, handle.run_id)
        assert (row.status, row.owner_id) == ("pending", None)
        async with env.new_worker(workflows=[Sum], activities=programs.ACTIVITIES):
            assert await handle.result() == 3


async def test_another_queue_is_not_served(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Sum.run, [1, 2], id="w", task_queue="elsewhere")
        await env.sleep(5)
        assert (await row_of(env.client, handle.run_id)).status == "pending"
        async with env.new_worker(
            workflows=[Sum], activities=programs.ACTIVITIES, task_queue=["elsewhere", "default"]
        ):
            assert await handle.result() == 3


async def test_a_workflow_that_nobody_knows_waits(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start("Nobody", id="w")
        await env.sleep(5)
        assert (await row_of(env.client, handle.run_id)).status == "pending"
        await handle.terminate()


@pytest.mark.parametrize("bad", ["", "x" * 1001, "a\x00b"])
async def test_an_id_that_cant_be_used_is_refused(in_memory: MakeEnvironment, bad: str) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="workflow id"):
            await env.client.start(programs.nothing, id=bad)


async def test_arguments_are_checked_before_anything_is_written(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        bad: list[tuple[Any, ...]] = [(), ([1], 2), (object(),)]
        start: Any = env.client.start
        for args in bad:
            with pytest.raises(Exception, match=r"Sum|numbers") as caught:
                await start(Sum.run, *args, id="w")
            assert type(caught.value).__module__.startswith("outlast")
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("w").result()


async def test_a_handle_to_nothing_says_so(engine: MakeEnvironment) -> None:
    async with engine() as env:
        for ask in (
            env.client.handle("none").result,
            env.client.handle("none").cancel,
            env.client.handle("none").terminate,
            env.client.handle("none").describe,
            env.client.handle("none", run_id="no-run").result,
        ):
            with pytest.raises(WorkflowNotFoundError):
                await ask()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (StartOptions(execution_timeout=50 * YEAR_S), "execution_timeout"),
        (StartOptions(run_timeout=50 * YEAR_S), "run_timeout"),
        (StartOptions(start_delay=50 * YEAR_S), "start_delay"),
        (StartOptions(start_delay=5 * YEAR_S, run_timeout=6 * YEAR_S), "run_timeout"),
    ],
)
async def test_a_start_that_reaches_beyond_the_year_9999_is_refused_before_anything_is_written(
    options: StartOptions, field: str
) -> None:
    async with TestEnvironment(
        workflows=[programs.Sleeper], start_at=datetime(9990, 1, 1, tzinfo=UTC)
    ) as env:
        with pytest.raises(InvalidOptionError, match="ends after the year 9999") as caught:
            await env.client.start(programs.Sleeper.run, 1.0, id="w", options=options)
        assert caught.value.field == field
        with pytest.raises(InvalidOptionError, match="ends after the year 9999"):
            await env.client.signal_with_start(
                programs.Sleeper.run, 1.0, id="w", options=options, signal="hello"
            )
        assert [run async for run in env.client.list()] == []
        within = StartOptions(execution_timeout=5 * YEAR_S)
        assert await env.client.start(programs.Sleeper.run, 1.0, id="w", options=within)
