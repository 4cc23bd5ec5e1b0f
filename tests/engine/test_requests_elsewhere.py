"""Updates and queries of several clients and workers that share a database, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.engine import answerers, programs
from tests.engine.answerers import Cart, Line, Relay
from tests.engine.conftest import MakeEnvironment

from outlast.client.client import Client
from outlast.testing import TestEnvironment
from outlast_runs.claims import ReleaseRuns
from outlast_runs.queries import QueryRequest, QueryResult
from outlast_store.database.database import Database
from outlast_workflow.errors import WorkflowClosedError, WorkflowTerminatedError
from outlast_workflow.errors.request import UpdateFailedError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.payloads import Payload


@pytest.fixture
def answering(engine: MakeEnvironment, on_disk: Database) -> MakeEnvironment:
    def make(**options: Any) -> TestEnvironment:
        return engine(**{"workflows": answerers.WORKFLOWS, **options})

    return make


async def test_one_id_from_many_clients_is_one_update(answering: MakeEnvironment, database_url: str) -> None:
    async with answering() as env, AsyncExitStack() as stack:
        clients = [env.client]
        for _ in range(3):
            client = Client.connect(database_url, environment=env.environment)
            clients.append(await stack.enter_async_context(client))
        handle = await env.client.start(Cart.run, "ada", id="c")

        async def ask(number: int) -> int:
            cart = clients[number % 4].handle("c")
            line = Line(name=f"tea {number}")
            return await cart.execute_update(Cart.put, line, id=f"key {number // 8}", timeout=600)

        answers = await asyncio.gather(*[ask(number) for number in range(40)])
        assert sorted(set(answers)) == [1, 2, 3, 4, 5]
        assert all(len(set(answers[start : start + 8])) == 1 for start in range(0, 40, 8))
        await handle.execute_update(Cart.close)
        assert len(await handle.result()) == 5


async def test_what_others_ask_costs_the_owner_no_refused_batch(answering: MakeEnvironment) -> None:
    """The remembered row is then old, and is read again instead of being tried."""
    async with answering() as first, answering(seed=1, workflows=[], activities=[]) as second:
        await first.client.start(Cart.run, "ada", id="c")
        cart = second.client.handle("c")
        await cart.execute_update(Cart.put, Line(name="tea"), timeout=600)
        statistics = first.client.runtime.journal.committer.statistics
        before = dict(statistics)
        for _ in range(5):
            await cart.execute_update(Cart.put, Line(name="tea"), timeout=600)
        await cart.execute_update(Cart.close, timeout=600)
        assert statistics["batches"] > before["batches"]
        assert statistics["stale"] == before["stale"]


async def test_another_worker_finishes_what_one_accepted(answering: MakeEnvironment) -> None:
    async with answering() as first, answering(seed=1, workflows=[], activities=[]) as second:
        handle = await first.client.start(Cart.run, "ada", id="c")
        made = await handle.start_update(Cart.wait_for, 1, id="one")
        await first.worker.stop()
        worker = second.new_worker(workflows=answerers.WORKFLOWS, activities=programs.ACTIVITIES)
        async with worker:
            cart = second.client.handle("c")
            assert await cart.execute_update(Cart.put, Line(name="tea"), timeout=600) == 1
            assert await made.result(timeout=600) == 1
            assert await cart.execute_update(Cart.wait_for, 5, id="one") == 1
            await cart.execute_update(Cart.close)
        await first.worker.start()


async def test_updates_of_two_processes_race_with_the_end(answering: MakeEnvironment) -> None:
    async with answering() as first, answering(seed=1) as second:
        for number, end in enumerate(["close", "terminate", "deadline"]):
            options = StartOptions(run_timeout=20) if end == "deadline" else None
            handle = await first.client.start(Cart.run, "ada", id=f"c{number}", options=options)
            answered: list[int] = []

            async def storm(client: Client, workflow_id: str, answered: list[int]) -> None:
                while True:
                    try:
                        line = Line(name="tea")
                        answered.append(await client.handle(workflow_id).execute_update(Cart.put, line))
                    except (WorkflowClosedError, UpdateFailedError):
                        return
                    await asyncio.sleep(1)

            storms = [
                asyncio.ensure_future(storm(env.client, f"c{number}", answered))
                for env in (first, second, second)
            ]
            await first.sleep(5)
            if end == "close":
                assert (
                    await second.client.handle(f"c{number}").execute_update(Cart.close) == "close begun=True"
                )
                await asyncio.gather(*storms)
                assert sorted(answered) == list(range(1, len(await handle.result()) + 1))
            elif end == "terminate":
                await handle.terminate()
                with pytest.raises(WorkflowTerminatedError):
                    await handle.result()
            await asyncio.gather(*storms)
            assert await second.client.handle(f"c{number}").query(Cart.count) == len(answered)


async def test_queries_while_a_run_closes_are_answered(answering: MakeEnvironment) -> None:
    async with answering() as first, answering(seed=1, workflows=[]) as second:
        handle = await first.client.start(Cart.run, "ada", id="c")
        other = second.client.handle("c")
        asked: list[Any] = []
        for number in range(10):
            asked.append(handle.query(Cart.count))
            asked.append(other.query(Cart.count, timeout=60))
            if number == 4:
                asked.append(handle.execute_update(Cart.close))
        answers = await asyncio.gather(*asked)
        assert [answer for answer in answers if answer != "close begun=True"] == [0] * 20
        assert await handle.result() == []


async def seq_of(client: Client, kind: str) -> int:
    (seq, *_) = [event.seq async for event in client.handle("r").history() if event.type == kind]
    return seq


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_who_has_lost_a_run_unawares_does_not_answer_from_memory(
    answering: MakeEnvironment, where: str
) -> None:
    """It may have been frozen while another owner continued, whose answers its client has already received."""
    async with answering() as first, answering(seed=1) as second:
        handle = await first.client.start(Cart.run, "ada", id="c")
        await handle.execute_update(Cart.put, Line(name="tea"))
        frozen: Any = first.worker.local
        frozen.owner.run_claimer.paused = True
        run_id = await handle.resolve()
        await second.client.runtime.journal.apply(ReleaseRuns(frozen.worker_id, [run_id]))
        cart = second.client.handle("c")
        assert await cart.execute_update(Cart.put, Line(name="milk"), timeout=600) == 2
        if where == "here":
            assert await handle.query(Cart.count) == 2
        else:
            reply = await frozen.owner.answer_query(run_id, QueryRequest("count", Payload.of([])))
            assert reply == QueryResult(Payload.of(2))
        frozen.owner.run_claimer.paused = False
        await cart.execute_update(Cart.close, timeout=600)


async def test_what_is_under_way_at_a_reset_is_answered_by_it(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Relay.run, 1, [], id="r")
        assert await handle.execute_update(Relay.tell, "a", id="a") == ["run 1", "a"]
        made = await handle.start_update(Relay.never)
        anew = await env.client.handle("r").reset(await seq_of(env.client, "UpdateCompleted"))
        with pytest.raises(UpdateFailedError):
            await made.result()
        assert await anew.execute_update(Relay.tell, "b") == ["run 1", "a", "b"]
        assert await anew.execute_update(Relay.tell, "a", id="a") == ["run 1", "a"]
        await anew.signal(Relay.end)
        assert await anew.result() == ["a", "b"]
