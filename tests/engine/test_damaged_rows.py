"""Rows that something else damages before a worker reads them: it names the run, and whatever is whole goes on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.engine import answerers
from tests.engine.answerers import Cart, Line
from tests.engine.programs import add

from outlast import workflow
from outlast.errors import DamagedHistoryError, QueryFailedError, UpdateRejectedError, WorkflowFailedError
from outlast.testing import TestEnvironment
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.primitives.payloads import Payload

WHENEVER = """
CREATE TRIGGER damage AFTER {verb} ON {table} WHEN {when} BEGIN
  UPDATE {table} SET {column} = '{nonsense}' WHERE {key};
END"""
KEYS = {
    "history_events": "run_id = NEW.run_id AND seq = NEW.seq",
    "workflow_requests": "kind = NEW.kind AND request_id = NEW.request_id",
}
NONSENSE = ("{", "", "[1]", "7", '{"x": 1}')


def of_this_test() -> Any:
    """A workflow that is not replayed elsewhere at the end of the session: some of its histories stay damaged."""

    @workflow.defn
    async def adding(number: int) -> int:
        return await add(number, 1)

    return adding


adding = of_this_test()


class Damage:
    """Something that writes nonsense into a SQLite file."""

    def __init__(self, url: str) -> None:
        self._path = Path(url.removeprefix("sqlite:///"))

    def begin(self, table: str, when: str, column: str, nonsense: str, verb: str = "INSERT") -> None:
        """Damage each row that is written from now on."""
        names = {"table": table, "when": when, "column": column, "nonsense": nonsense, "verb": verb}
        self.do(WHENEVER.format(key=KEYS[table], **names))

    def do(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(statement).fetchall()

    def failed_tasks(self) -> set[str]:
        """Why tasks have failed: the history itself cannot be read."""
        found = self.do("SELECT payload FROM history_events WHERE type = 'WorkflowTaskFailed'")
        return {
            f"{failure['type']}: {failure['message']}"
            for (text,) in found
            if (failure := json.loads(text)["failure"])
        }


@pytest.fixture
def damage(sqlite_url: str, invariants: list[str]) -> Iterator[Damage]:
    yield Damage(sqlite_url)
    invariants.clear()


@pytest.fixture
def here(sqlite_url: str) -> TestEnvironment:
    """With the worker that owns the runs."""
    workflows = [*answerers.WORKFLOWS, adding]
    return TestEnvironment(url=sqlite_url, workflows=workflows, activities=[add], max_task_failures=0)


@pytest.fixture
def elsewhere(sqlite_url: str) -> TestEnvironment:
    """Another process, without a worker."""
    return TestEnvironment(url=sqlite_url, seed=1, workflows=[], activities=[])


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_an_event_that_cannot_be_read_fails_the_task_and_is_named(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment, nonsense: str
) -> None:
    async with here, elsewhere:
        handle = await here.client.start(Cart.run, "ada", id="c")
        other = await here.client.start(Cart.run, "bob", id="other")
        assert await handle.query(Cart.count) == await other.query(Cart.count) == 0
        damage.begin("history_events", "NEW.type = 'SignalReceived'", "payload", nonsense)
        await elsewhere.client.handle("c").signal("anything")
        damage.do("DROP TRIGGER damage")
        await here.sleep(60)
        ((seq,),) = damage.do("SELECT seq FROM history_events WHERE type = 'SignalReceived'")
        (why,) = damage.failed_tasks()
        assert why.startswith(f"DamagedHistoryError: event {seq} of run {handle.run_id} is damaged")
        listed = {run.workflow_id: run async for run in here.client.list()}
        assert listed["c"].attention_reasons
        assert await other.execute_update(Cart.put, Line(name="tea")) == 1, "the others go on"
        whole = SignalReceived("anything", Payload.of([]), None).to_json().decode()
        damage.do(f"UPDATE history_events SET payload = '{whole}' WHERE type = 'SignalReceived'")
        await here.sleep(600)
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1, "and so does it, once mended"


async def test_an_update_that_cannot_be_read_fails_the_task_and_is_named(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment
) -> None:
    async with here, elsewhere:
        handle = await here.client.start(Cart.run, "ada", id="c")
        assert await handle.query(Cart.count) == 0
        damage.begin("workflow_requests", "NEW.kind = 'update'", "input", "{")
        cart = elsewhere.client.handle("c")
        waiting = asyncio.create_task(cart.execute_update(Cart.put, Line(name="tea"), id="u-1", timeout=6000))
        await here.sleep(60)
        damage.do("DROP TRIGGER damage")
        (why,) = damage.failed_tasks()
        assert why.startswith(f"DamagedHistoryError: run {handle.run_id} is damaged: its update u-1 cannot")
        damage.do("""UPDATE workflow_requests SET input = '[{"name": "tea", "count": 1}]'""")
        assert await waiting == 1, "once it is mended"


async def test_a_query_that_cannot_be_read_is_answered_with_that(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment
) -> None:
    async with here, elsewhere:
        await here.client.start(Cart.run, "ada", id="c")
        cart = elsewhere.client.handle("c")
        assert await cart.query(Cart.count) == 0
        damage.begin("workflow_requests", "NEW.kind = 'query'", "input", "{")
        with pytest.raises(QueryFailedError) as caught:
            await cart.query(Cart.count)
        assert isinstance(caught.value.__cause__, DamagedHistoryError)
        damage.do("DROP TRIGGER damage")
        assert await cart.query(Cart.count) == 0


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_an_answer_that_cannot_be_read_concerns_only_those_who_wait_for_it(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment, nonsense: str
) -> None:
    async with here, elsewhere:
        handle = await here.client.start(Cart.run, "ada", id="c")
        cart = elsewhere.client.handle("c")
        whole = await cart.start_update(Cart.wait_for, 1, id="whole")
        when = "NEW.state = 'rejected' AND OLD.state = 'open'"
        damage.begin("workflow_requests", when, "answer", nonsense, "UPDATE")
        end = asyncio.create_task(whole.result(timeout=600))
        if nonsense == '{"x": 1}':
            expected: type[Exception] = UpdateRejectedError
        else:
            expected = DamagedHistoryError
        with pytest.raises(expected):
            await cart.execute_update(Cart.put, Line(name="nothing", count=0), timeout=60)
        await handle.execute_update(Cart.put, Line(name="tea"))
        assert await end == 1


async def test_the_answer_to_a_query_that_cannot_be_read_is_named(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment
) -> None:
    async with here, elsewhere:
        await here.client.start(Cart.run, "ada", id="c")
        cart = elsewhere.client.handle("c")
        when = "NEW.state = 'answered' AND OLD.state = 'open'"
        damage.begin("workflow_requests", when, "answer", "[", "UPDATE")
        with pytest.raises(DamagedHistoryError, match="answer to a query"):
            await cart.query(Cart.count)


@pytest.mark.parametrize("what", ["damaged", "gone"])
async def test_an_activity_whose_input_cannot_be_read_fails_alone(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment, what: str
) -> None:
    """The others of the same claim start, and its slot is free again."""
    async with elsewhere, elsewhere.new_worker(workflows=[adding], activities=[]):
        handles = [await elsewhere.client.start(adding, number, id=f"a-{number}") for number in range(5)]
        await elsewhere.sleep(5)
        which = f"type = 'ActivityScheduled' AND run_id = '{handles[2].run_id}'"
        change = f"UPDATE history_events SET payload = '[' WHERE {which}"
        damage.do(change if what == "damaged" else f"DELETE FROM history_events WHERE {which}")
        async with here:
            for number in (0, 1, 3, 4):
                assert await here.client.handle(f"a-{number}").result() == number + 1
            await here.sleep(5)
            ((status, failure),) = damage.do(
                f"SELECT status, last_failure FROM activity_executions WHERE run_id = '{handles[2].run_id}'"
            )
            assert (status, json.loads(failure)["type"]) == ("failed", "DamagedHistoryError")
            assert (
                here.worker.local.dispatcher.runner.free == here.worker.local.dispatcher.runner.max_concurrent
            )


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_an_activity_whose_options_cannot_be_read_fails_alone(
    damage: Damage, here: TestEnvironment, elsewhere: TestEnvironment, nonsense: str
) -> None:
    """The others of the same claim start, and its workflow hears why it failed."""
    async with elsewhere, elsewhere.new_worker(workflows=[adding], activities=[]):
        handles = [await elsewhere.client.start(adding, number, id=f"a-{number}") for number in range(5)]
        await elsewhere.sleep(5)
        damage.do(
            f"UPDATE activity_executions SET options = '{nonsense}' WHERE run_id = '{handles[2].run_id}'"
        )
        assert (await elsewhere.client.describe("a-2")).pending_activities[0].status == "pending"
        async with here:
            for number in (0, 1, 3, 4):
                assert await here.client.handle(f"a-{number}").result() == number + 1
            if nonsense == '{"x": 1}':
                assert await here.client.handle("a-2").result() == 3, "unknown options are none"
                return
            with pytest.raises(WorkflowFailedError, match="options of activity 1 cannot be read"):
                await here.client.handle("a-2").result()
            assert (
                here.worker.local.dispatcher.runner.free == here.worker.local.dispatcher.runner.max_concurrent
            )


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_a_run_with_a_signal_that_cannot_be_read_is_described_all_the_same(
    damage: Damage, elsewhere: TestEnvironment, nonsense: str
) -> None:
    async with elsewhere:
        handle = await elsewhere.client.start(Cart.run, "ada", id="c")
        await handle.signal("whole")
        damage.begin("history_events", "NEW.type = 'SignalReceived'", "payload", nonsense)
        await handle.signal("damaged")
        damage.do("DROP TRIGGER damage")
        named = {one.name: one.count for one in (await handle.describe()).pending_signals}
        assert named["whole"] == 1
        assert len(named) == 2, named
