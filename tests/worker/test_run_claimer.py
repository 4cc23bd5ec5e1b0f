"""A worker claims as many runs as it has room for; the rest of a backlog is left to workers with room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conformance.changes import start

from outlast import Client, activity, workflow
from outlast.testing import TestEnvironment, VirtualLoop
from outlast.worker.runs.claimer import ANYWAY_AFTER_S, MOST_RUNS_CLAIMED
from outlast_runs.claims import ClaimRuns, RegisterWorker
from outlast_store.database.sql_text import fetch
from outlast_workflow.errors import OutcomeUnknownError

AWAY = "SELECT count(*) FROM workflow_runs WHERE owner_id IS NULL AND closed_at IS NULL"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@activity.defn(start_to_close_timeout=3600)
async def toil(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@workflow.defn
async def toiling(seconds: float) -> float:
    return await toil(seconds)


@workflow.defn
async def at_once(number: int) -> int:
    return number


async def unowned(client: Client) -> int:
    rows = await client.runtime.read(fetch, AWAY)
    return int(rows[0][0])


async def test_a_backlog_is_claimed_as_slots_become_free() -> None:
    async with TestEnvironment() as env:
        handles = [await env.client.start(toiling, 0.1, id=f"w{number}") for number in range(30)]
        async with env.new_worker(workflows=[toiling], activities=[toil], max_concurrent_activities=4):
            await env.sleep(0.05)
            assert await unowned(env.client) == 26
            await env.sleep(0.1)
            assert await unowned(env.client) == 22
            assert await asyncio.gather(*(handle.result() for handle in handles)) == [0.1] * 30
        rows = await env.client.runtime.read(
            fetch, "SELECT max(attempt), min(attempt) FROM activity_executions"
        )
        assert rows == [(1, 1)]


async def test_where_slots_are_taken_for_hours_runs_are_claimed_anyway() -> None:
    async with TestEnvironment() as env:
        for number in range(2):
            await env.client.start(toiling, 3000, id=f"long{number}")
        # Of what has waited equally long, any may be claimed first.
        await env.sleep(1)
        quick = MOST_RUNS_CLAIMED + 20
        for number in range(quick):
            await env.client.start(at_once, number, id=f"w{number}")
        async with env.new_worker(
            workflows=[toiling, at_once], activities=[toil], max_concurrent_activities=2
        ):
            left = []
            for wait in (ANYWAY_AFTER_S / 2, ANYWAY_AFTER_S, ANYWAY_AFTER_S):
                await env.sleep(wait)
                left.append(await unowned(env.client))
            assert left == [quick, quick - MOST_RUNS_CLAIMED, 0]


async def test_a_worker_without_slots_claims_all_runs() -> None:
    async with TestEnvironment() as env:
        number = 3 * MOST_RUNS_CLAIMED
        for place in range(number):
            await env.client.start(toiling, 0.1, id=f"w{place}")
        async with env.new_worker(workflows=[toiling], activities=[toil], max_concurrent_activities=0):
            await env.sleep(ANYWAY_AFTER_S / 2)
            assert await unowned(env.client) == 0


async def test_nothing_is_claimed_while_its_worker_is_not_registered() -> None:
    """A worker that lost its lease has a new id, not registered yet: its claims would look like a dead worker's."""
    async with TestEnvironment() as env, env.new_worker(workflows=[at_once]) as worker:
        runtime = env.client.runtime
        submit, told = runtime.journal.submit, []

        def noted(change: Any, callback: Any) -> None:
            if isinstance(change, ClaimRuns | RegisterWorker):
                told.append(type(change).__name__)
            submit(change, callback)

        runtime.journal.submit = noted  # type: ignore[method-assign]
        worker.local.lease.declared_dead()
        worker.local.owner.run_claimer.claim()
        await env.sleep(1)
        worker.local.owner.run_claimer.claim()
        assert told == ["RegisterWorker", "ClaimRuns"]


async def test_a_worker_that_can_not_know_whether_it_is_registered_tries_another_id() -> None:
    """The row may exist: the same id would be refused forever, while the lease of an idle worker is renewed."""
    async with TestEnvironment() as env, env.new_worker(workflows=[at_once]) as worker:
        runtime = env.client.runtime
        apply, tried = runtime.journal.apply, []

        async def unheard(change: Any) -> Any:
            done = await apply(change)
            if isinstance(change, RegisterWorker):
                tried.append(change.row.worker_id)
                if len(tried) == 1:
                    raise OutcomeUnknownError("nobody knows")
            return done

        runtime.journal.apply = unheard  # type: ignore[method-assign]
        worker.local.lease.declared_dead()
        handle = await env.client.start(at_once, 1, id="w")
        await asyncio.wait_for(handle.result(), 60)
        assert len(set(tried)) == 2


@workflow.defn(name="Tried")
async def tried(_: None) -> str:
    return "done"


async def test_a_run_that_comes_in_the_batch_of_a_claim_is_claimed_too() -> None:
    """The claim has read before; in memory nobody polls."""
    async with TestEnvironment() as env, env.new_worker(workflows=[tried]) as worker:
        await env.sleep(0.1)
        runtime = env.client.runtime
        worker.local.owner.run_claimer.claim()
        await runtime.journal.apply(start(runtime.environment, "w", input=[None]))
        assert await asyncio.wait_for(env.client.handle("w").result(), 60) == "done"
