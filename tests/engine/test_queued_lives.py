"""What becomes of runs of queues beside admission: deletion, retention, export, import and reset.

Each run is in one of three places: in line, delayed, or holding a slot. What it leaves there is gone with it.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import Client, RetentionPolicy, StartOptions, activity, workflow
from outlast.errors import (
    DeleteRefusedError,
    InvalidHistoryError,
    QueueNotFoundError,
    WorkflowTerminatedError,
)
from outlast.histories.retention import Retention, RetentionReport
from outlast.testing import TestEnvironment
from outlast_store.database.sql_text import fetch

DAY = 24 * 3600.0
PLACES = ("in line", "delayed", "holding a slot")


@workflow.defn
class Turn:
    """Takes so many turns, each a run of its chain."""

    @workflow.run
    async def run(self, turns: int) -> str:
        await workflow.sleep(100)
        if turns > 1:
            workflow.continue_as_new(turns - 1)
        return workflow.info().queue or "none"


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=[Turn], activities=[], **options)


def queued(partition_key: str | None = "t", **more: Any) -> StartOptions:
    return StartOptions(queue="q", partition_key=partition_key, **more)


async def put(env: TestEnvironment, place: str) -> Any:
    """Start the workflow ``w`` so that it is in this place of a queue of one slot."""
    client = env.client
    await client.queues.define("q", concurrency=1)
    if place == "in line":
        await client.start(Turn.run, 1, id="before", options=queued(None))
        await env.sleep(1)
    delay = 3600 if place == "delayed" else None
    handle = await client.start(Turn.run, 2, id="w", options=queued(start_delay=delay))
    await env.sleep(1)
    run = (await handle.describe()).run
    assert run.queue is not None
    assert (
        "in line" if run.queue.queued_at else "delayed" if run.queue.start_at else "holding a slot"
    ) == place
    return handle


async def load(client: Client) -> tuple[int, int, int]:
    """How many of the queue wait, are delayed, and hold a slot."""
    found = await client.queues.describe("q")
    return found.waiting, found.delayed, found.running


@pytest.mark.parametrize("place", PLACES)
async def test_a_deleted_workflow_leaves_its_place_free(made: MakeEnvironment, place: str) -> None:
    async with made() as env:
        client = env.client
        await put(env, place)
        next_one = await client.start(Turn.run, 1, id="next", options=queued())
        with pytest.raises(DeleteRefusedError):
            await client.delete("w")
        gone = [run.run_id async for run in client.list(workflow_id="w")]
        assert await client.delete("w", terminate=True) == 1
        for table in ("workflow_runs", "timers", "history_events"):
            assert not await client.runtime.read(fetch, f"SELECT 1 FROM {table} WHERE run_id = ?", (gone[0],))
        assert await next_one.result() == "q"
        await env.sleep(200)
        assert await load(client) == (0, 0, 0)
        await client.queues.delete("q")


@pytest.mark.parametrize("place", PLACES)
async def test_retention_keeps_what_has_a_place_and_deletes_what_had_one(
    made: MakeEnvironment, place: str
) -> None:
    async with made() as env:
        client = env.client
        handle = await put(env, place)
        await client.queues.pause("q")
        before = await load(client)
        await env.sleep(10)
        retention = Retention(client, RetentionPolicy(days=timedelta(seconds=1)))
        assert await retention.run_pass() == RetentionReport()
        assert await load(client) == before
        await handle.terminate("enough")
        await env.sleep(10)
        assert (await retention.run_pass()).runs >= 1
        assert await client.count(workflow_id="w") == 0
        await client.queues.resume("q")
        await env.sleep(300)
        assert await load(client) == (0, 0, 0)


@pytest.mark.parametrize("place", PLACES)
async def test_a_run_is_exported_with_its_queue_and_comes_in_where_there_is_none(
    made: MakeEnvironment, in_memory: MakeEnvironment, place: str
) -> None:
    async with made() as env:
        handle = await put(env, place)
        (still_open,) = [one async for one in env.client.export_histories(workflow_id="w")]
        assert (still_open["run"]["queue"], still_open["run"]["partition_key"]) == ("q", "t")
        await handle.terminate("enough")
        (document,) = [one async for one in env.client.export_histories(workflow_id="w")]
    async with in_memory(workflows=[Turn], activities=[], seed=1) as other:
        with pytest.raises(InvalidHistoryError, match="only closed runs are imported"):
            await other.client.import_histories([still_open])
        for column, value in (
            ("queue", "another"),
            ("queue", None),
            ("partition_key", "u"),
            ("partition_key", None),
        ):
            spoilt = {**document, "run": {**document["run"], column: value}}
            with pytest.raises(InvalidHistoryError, match=rf"run\.{column} is not what its history says"):
                await other.client.import_histories([spoilt])
        await other.client.import_histories([document])
        (run,) = [run async for run in other.client.list(queue="q", partition_key="t")]
        assert run.status == "terminated"
        with pytest.raises(WorkflowTerminatedError):
            await other.client.handle("w").result()
        assert await other.client.count(attention=True) == 0
        if place == "holding a slot":
            # It goes on in the line of its queue, so that must be there.
            with pytest.raises(QueueNotFoundError):
                await other.client.handle("w").reset("first-workflow-task")
            await other.client.queues.define("q")
            again = await other.client.handle("w").reset("first-workflow-task")
            assert await again.result() == "q"
        assert await other.client.delete("w") >= 1


@pytest.mark.parametrize("place", ["in line", "delayed"])
async def test_a_reset_of_what_has_not_begun_has_its_place(made: MakeEnvironment, place: str) -> None:
    async with made() as env:
        client = env.client
        handle = await put(env, place)
        before, place_before = await load(client), (await handle.describe()).run.queue
        again = await handle.reset()
        assert again.run_id != handle.run_id
        assert await load(client) == before
        assert (await again.describe()).run.queue == place_before
        # One that has ended lost its place, and its delay: it joins the end of the line.
        await again.terminate()
        last = await client.start(Turn.run, 1, id="last", options=queued())
        third = await again.reset()
        found = (await third.describe()).run.queue
        assert found is not None
        assert (found.queued_at is not None, found.ahead) == (True, 1 if place == "in line" else 0)
        assert await third.result() == await last.result() == "q"


async def test_a_chain_that_continued_in_its_slot_is_exported_imported_and_reset(
    made: MakeEnvironment, in_memory: MakeEnvironment
) -> None:
    async with made() as env:
        handle = await put(env, "holding a slot")
        assert await handle.result() == "q"
        documents = [one async for one in env.client.export_histories(workflow_id="w")]
        assert [one["run"]["queue"] for one in documents] == ["q", "q"]
        assert await load(env.client) == (0, 0, 0)
        # Of a chain that has ended, only a new admission gives a slot.
        await env.client.queues.pause("q")
        again = await handle.reset("first-workflow-task")
        assert await load(env.client) == (1, 0, 0)
        await env.client.queues.resume("q")
        assert await again.result() == "q"
        assert await env.client.delete("w") == 3
        assert await load(env.client) == (0, 0, 0)
    async with in_memory(workflows=[Turn], activities=[], seed=1) as other:
        imported = await other.client.import_histories(documents)
        assert (imported.workflows, imported.runs) == (1, 2)
        assert await other.client.handle("w").result() == "q"
        assert await other.client.count(queue="q") == 2


@activity.defn(start_to_close_timeout=10)
async def nothing() -> None: ...


@workflow.defn
async def one_call() -> None:
    await nothing.with_options(priority=3)()


async def test_an_import_refuses_what_no_line_can_hold(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[one_call], activities=[nothing], seed=0) as env:
        await env.client.queues.define("q")
        await (await env.client.start(one_call, id="w", options=queued())).result()
        (document,) = [one async for one in env.client.export_histories(workflow_id="w")]
    wrong = {
        "priority": (-1, 10, 42),
        "queue": ("", "a\nb", "outlast_x", "x" * 201),
        "partition_key": ("a\x1fb", "x" * 201),
    }
    scheduled = next(
        place for place, one in enumerate(document["events"]) if one["type"] == "ActivityScheduled"
    )
    async with in_memory(workflows=[one_call], activities=[nothing], seed=1) as other:
        for column, values in wrong.items():
            for value in values:
                for place in (0, scheduled):
                    spoilt = copy.deepcopy(document)
                    spoilt["events"][place]["payload"][column] = value
                    if place == 0:
                        spoilt["run"][column] = value
                    with pytest.raises(InvalidHistoryError, match=rf"\.{column}: "):
                        await other.client.import_histories([spoilt])
        await other.client.import_histories([document])
