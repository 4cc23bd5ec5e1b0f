"""Queries look at runs, open and closed, and change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine import answerers, programs
from tests.engine.answerers import Anything, Broken, Cart, Leaver, Line, Relay
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast import workflow
from outlast.client.client import Client
from outlast.testing import TestEnvironment
from outlast.worker.runs.workflow_tasks import WorkflowTasks
from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_workflow.errors import (
    InvalidOptionError,
    NonDeterminismError,
    RunNotFoundError,
    WorkflowNotFoundError,
)
from outlast_workflow.errors.request import (
    NoWorkerError,
    QueryFailedError,
    RequestTimeoutError,
    UnknownHandlerError,
    UpdateRejectedError,
)
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.options.options import StartOptions


@pytest.fixture
def answering(engine: MakeEnvironment) -> MakeEnvironment:
    def make(**options: Any) -> TestEnvironment:
        return engine(**{"workflows": answerers.WORKFLOWS, **options})

    return make


async def last_seq(client: Client, workflow_id: str) -> int:
    return (await latest_row(client.handle(workflow_id))).last_seq


async def test_a_query_is_answered_and_changes_nothing(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.execute_update(Cart.put, Line(name="tea"))
        before = await last_seq(env.client, "c"), env.client.runtime.journal.committer.batches
        assert await handle.query(Cart.count) == 1
        assert await handle.query(Cart.line, 0) == Line(name="tea")
        assert await handle.query(Cart.line(0)) == Line(name="tea")
        assert await handle.query("line", 0, result_type=Line) == Line(name="tea")
        assert await handle.query("line", 0) == {"name": "tea", "count": 1}
        assert await env.client.handle("c").query(Cart.state_of_it) == {
            "owner": "ada",
            "begun": True,
            "closed": False,
        }
        await env.settle()
        assert (await last_seq(env.client, "c"), env.client.runtime.journal.committer.batches) == before


async def test_a_query_sees_what_was_sent_before(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        for number in range(10):
            await handle.start_update(Cart.put, Line(name=f"{number}"))
            assert await handle.query(Cart.count) == 1
            await handle.signal(Cart.drop, f"{number}")
            assert await handle.query(Cart.count) == 0


async def test_a_query_waits_for_the_workflow_task_that_is_due(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory(workflows=answerers.WORKFLOWS) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.execute_update(Cart.put, Line(name="tea"))
        held: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr(WorkflowTasks, "wake", lambda tasks, cached_run: held.append(cached_run))
            await handle.signal(Cart.drop, "tea")
            asked = asyncio.ensure_future(handle.query(Cart.count))
            await env.settle()
            assert not asked.done()
        env.worker.local.owner.tasks.wake(held[0])
        assert await asked == 0


async def test_queries_in_the_midst_of_work_are_answered(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        asked: list[Any] = []
        for number in range(30):
            asked.append(handle.execute_update(Cart.put, Line(name=f"{number}")))
            asked.append(handle.query(Cart.count))
            asked.append(handle.execute_update(Cart.pay_for_it, number))
        answers = await asyncio.gather(*asked)
        assert all(0 <= answer <= 30 for answer in answers[1::3])
        assert await handle.query(Cart.count) == 30


async def test_a_closed_run_still_answers(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.execute_update(Cart.put, Line(name="tea"))
        await handle.execute_update(Cart.close)
        await handle.result()
        assert await handle.query(Cart.line, 0) == Line(name="tea")
        stopped = await env.client.start(Cart.run, "bob", id="s")
        await stopped.execute_update(Cart.put, Line(name="milk"))
        await stopped.terminate()
        assert await stopped.query(Cart.count) == 1


async def test_a_query_follows_the_chain_unless_a_run_is_named(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Relay.run, 1, [], id="r")
        await handle.signal(Relay.go_on)
        assert await handle.query(Relay.where) == 2
        assert await env.client.handle("r").query(Relay.where) == 2
        assert await env.client.handle("r", run_id=handle.run_id).query(Relay.where) == 1
        with pytest.raises(RunNotFoundError):
            await env.client.handle("r", run_id="nowhere").query(Relay.where)
        await env.client.handle("r").terminate()


async def test_a_run_that_has_not_begun_answers_as_its_constructor_makes_it(
    answering: MakeEnvironment,
) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c", options=StartOptions(start_delay=3600))
        assert await handle.query(Cart.state_of_it) == {"owner": "ada", "begun": False, "closed": False}
        assert (await latest_row(handle)).status == "pending"


async def test_a_run_whose_task_fails_answers_from_its_last_good_workflow_task(
    answering: MakeEnvironment,
) -> None:
    async with answering() as env:
        handle = await env.client.start(Broken.run, id="b")
        await env.sleep(12)
        assert (await latest_row(handle)).task_failures > 0
        assert await handle.query(Broken.where) == 1
        await handle.terminate()


async def test_a_run_whose_code_cannot_replay_says_so(answering: MakeEnvironment) -> None:
    async with answering(task_queue="elsewhere") as env:
        handle = await env.client.start(Cart.run, "ada", id="c", task_queue="elsewhere")
        await handle.execute_update(Cart.pay_for_it, 1)
        await env.worker.stop()

        class Changed:
            @workflow.run
            async def run(self, owner: str) -> None:
                await workflow.sleep(5)

            @workflow.query
            def count(self) -> int:
                return 0

        changed = workflow.defn(name="Cart")(Changed)
        async with env.new_worker(workflows=[changed], activities=[]):
            with pytest.raises(QueryFailedError) as caught:
                await handle.query("count")
        assert isinstance(caught.value.__cause__, NonDeterminismError)
        await env.worker.start()
        await handle.terminate()


async def test_a_query_may_only_look(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        for query in (Cart.meddle, Cart.meddle_quietly):
            with pytest.raises(QueryFailedError) as caught:
                await handle.query(query)
            assert isinstance(caught.value.__cause__, ReadOnlyContextError)
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1
        assert programs.calls["note"] == 0


async def test_a_query_that_raises_says_what(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(QueryFailedError) as caught:
            await handle.query(Cart.line, 5)
        assert str(caught.value.__cause__) == "IndexError: list index out of range"
        assert str(caught.value).endswith("failed: IndexError: list index out of range")
        assert await handle.query(Cart.count) == 0


async def test_an_unknown_query_names_those_that_there_are(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle: Any = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(UnknownHandlerError) as caught:
            await handle.query("price")
        assert caught.value.known == ["count", "line", "meddle", "meddle_quietly", "state"]
        with pytest.raises(InvalidOptionError, match="is not a query"):
            await handle.query(Cart.put)
        with pytest.raises(InvalidOptionError, match="timeout"):
            await handle.query(Cart.count, timeout=0)
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("nobody").query("count")


@pytest.mark.parametrize("how", ["SystemExit", "CancelledError", "GeneratorExit"])
async def test_whoever_asks_ends_no_worker(answering: MakeEnvironment, how: str) -> None:
    async with answering() as env:
        handle = await env.client.start(Leaver.run, id="l")
        for _ in range(2):
            with pytest.raises(QueryFailedError):
                await handle.query(Leaver.ask, how)
            assert await handle.query(Leaver.ask, "fine") == "fine"
            with pytest.raises(UpdateRejectedError):
                await handle.execute_update(Leaver.tell, how)
            assert await handle.execute_update(Leaver.tell, "fine") == "fine"
        await handle.terminate()
        with pytest.raises(QueryFailedError):
            await handle.query(Leaver.ask, how)


async def test_a_dynamic_query(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Anything.run, 5, id="a")
        assert await handle.query("whatever", 1, 2) == ["whatever", [1, 2], 0]


async def test_where_the_code_waits_can_be_asked(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await handle.start_update(Cart.wait_for, 1)
        trace = await handle.query("__stack_trace")
        assert "in Cart.run" in trace
        assert "in Cart.wait_for" in trace


async def test_what_can_be_sent_can_be_asked(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        found = await handle.query("__handlers")
        assert [signal["name"] for signal in found["signals"]] == ["drop"]
        (line,) = next(update for update in found["updates"] if update["name"] == "put")["parameters"]
        assert line["schema"]["$defs"]["Line"]["properties"]["count"]["type"] == "integer"
        await handle.execute_update(Cart.close)
        assert await handle.query("__handlers") == found, "of a closed run, too"


# --- from elsewhere -------------------------------------------------------------------------------------------------


async def test_nobody_can_answer(answering: MakeEnvironment) -> None:
    async with answering(workflows=[], activities=[]) as env:
        handle = await env.client.start("Cart", "ada", id="c")
        began = env.now()
        with pytest.raises(NoWorkerError, match="outlast worker"):
            await handle.query("count")
        assert env.now() == began


async def test_a_worker_elsewhere_answers(
    on_disk: Database, database_url: str, answering: MakeEnvironment
) -> None:
    async with (
        answering() as working,
        Client.connect(database_url, environment=working.environment) as client,
    ):
        handle = await working.client.start(Cart.run, "ada", id="c")
        await handle.execute_update(Cart.put, Line(name="tea"))
        outside = client.handle("c")
        assert await outside.query(Cart.count) == 1
        assert await outside.query("line", 0, result_type=Line) == Line(name="tea")
        with pytest.raises(QueryFailedError, match="line"):
            await outside.query(Cart.line, 5)
        with pytest.raises(UnknownHandlerError):
            await outside.query("price")
        assert await outside.execute_update(Cart.put, Line(name="cups"), timeout=60) == 2
        assert await outside.execute_update(Cart.close, timeout=60) == "close begun=True"
        assert await outside.result() == ["tea", "cups"]
        assert await outside.query(Cart.count) == 2  # closed, and no code here
        await client.runtime.journal.settled()
        rows = client.runtime.read_now(
            fetch, "SELECT COUNT(*) FROM workflow_requests WHERE kind = ?", ("query",)
        )
        assert rows[0][0] == 0


async def test_nobody_answers_in_time(
    on_disk: Database, database_url: str, answering: MakeEnvironment
) -> None:
    async with (
        answering() as working,
        Client.connect(database_url, environment=working.environment) as client,
    ):
        await working.client.start(Cart.run, "ada", id="c")
        await working.settle()
        deaf = list(working.client.runtime.listeners)
        working.client.runtime.listeners.clear()  # deaf
        with pytest.raises(RequestTimeoutError):
            await client.handle("c").query(Cart.count, timeout=3)
        for listener in deaf:
            working.client.runtime.subscribe(listener)


async def test_two_workers_answer_for_each_other(
    on_disk: Database, database_url: str, answering: MakeEnvironment
) -> None:
    async with answering() as first, answering(seed=1) as second:
        carts = [await first.client.start(Cart.run, f"{n}", id=f"c{n}") for n in range(5)]
        for number, cart in enumerate(carts):
            other = second.client.handle(cart.workflow_id)
            assert await other.execute_update(Cart.put, Line(name="tea"), timeout=60) == 1
            assert (await other.query(Cart.state_of_it))["owner"] == f"{number}"
            assert await cart.query(Cart.count) == 1
