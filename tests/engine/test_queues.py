"""Queues as their users meet them: what they show, workers that define them, definitions against starts, attention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import (
    Attention,
    Client,
    Queue,
    QueueInUseError,
    QueueNotFoundError,
    Rate,
    RunStatus,
    StartOptions,
    Worker,
    workflow,
)
from outlast.errors import InvalidOptionError
from outlast.testing import TestEnvironment
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads import attention


@workflow.defn
async def nap(seconds: float) -> str:
    await workflow.sleep(seconds)
    return workflow.info().workflow_id


def queued(name: str = "mails", **more: Any) -> StartOptions:
    return StartOptions(queue=name, **more)


async def test_a_queue_says_what_waits_what_is_delayed_and_what_runs(engine: MakeEnvironment) -> None:
    async with engine(workflows=[nap], activities=[]) as env:
        client = env.client
        await client.queues.define("mails", concurrency=1)
        first = await client.start(nap, 50.0, id="first", options=queued())
        await env.sleep(1)
        await client.start(nap, 1.0, id="late", options=queued(start_delay=500))
        for number, partition in enumerate(["a", "a", "b"]):
            await client.start(nap, 1.0, id=f"w-{number}", options=queued(partition_key=partition))
        await env.sleep(20)
        seen = await client.queues.describe("mails")
        assert (seen.running, seen.waiting, seen.delayed, seen.partitions_waiting) == (1, 3, 1, 2)
        assert seen.oldest_waiting_seconds == pytest.approx(20, abs=1)
        places = {
            name: (await client.describe(name)).run.queue for name in ("first", "late", "w-0", "w-1", "w-2")
        }
        assert {
            name: (one.partition_key, one.holds_slot, one.ahead) for name, one in places.items() if one
        } == {
            "first": (None, True, None),
            "late": (None, False, None),
            "w-0": ("a", False, 0),
            "w-1": ("a", False, 1),
            "w-2": ("b", False, 0),
        }
        late = (await client.describe("late")).run.queue
        assert late is not None
        assert late.queued_at is None
        assert late.start_at is not None
        assert not (await client.describe("late")).pending_timers
        waiting = [run.workflow_id async for run in client.list(queue="mails", status="queued")]
        assert sorted(waiting) == ["late", "w-0", "w-1", "w-2"]
        assert await client.count(queue="mails", partition_key="a") == 2
        with pytest.raises(QueueInUseError) as refusal:
            await client.queues.delete("mails")
        assert (refusal.value.waiting, refusal.value.running) == (4, 1)
        await first.result()
        await client.handle("late").result()
        await client.queues.delete("mails")
        with pytest.raises(QueueNotFoundError):
            await client.start(nap, 1.0, id="after", options=queued())


async def test_a_rate_says_when_the_next_is_admitted(engine: MakeEnvironment) -> None:
    async with engine(workflows=[nap], activities=[]) as env:
        await env.client.queues.define("mails", rate=Rate(1, per=100))
        for number in range(2):
            await env.client.start(nap, 1.0, id=f"w-{number}", options=queued())
        await env.sleep(10)
        seen = await env.client.queues.describe("mails")
        assert seen.waiting == 1
        assert seen.next_admission_at is not None
        # A rate of one counts a hundredth of the window more, so that no window holds two.
        left = (seen.next_admission_at - env.now()).total_seconds()
        assert 89 <= left <= 92
        await env.client.handle("w-1").result()


async def test_a_raised_limit_and_a_resume_admit_at_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=[nap], activities=[]) as env:
        client = env.client
        await client.queues.define("mails", concurrency=1)
        handles = [await client.start(nap, 100.0, id=f"w-{number}", options=queued()) for number in range(3)]
        await env.sleep(2)
        await client.queues.update("mails", concurrency=2)
        await env.sleep(2)
        assert (await client.queues.describe("mails")).running == 2
        await client.queues.pause("mails")
        await env.sleep(150)
        paused = await client.queues.describe("mails")
        assert (paused.running, paused.waiting) == (0, 1)
        await client.queues.resume("mails")
        await env.sleep(2)
        assert (await client.queues.describe("mails")).running == 1
        await asyncio.gather(*(handle.result() for handle in handles))


async def test_a_worker_defines_its_queues_unless_they_are_there(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "outlast.client")
    async with TestEnvironment(workflows=[nap], activities=[], url=database_url) as env:
        await env.client.queues.define("mails", concurrency=7)
        chosen: list[str | Queue] = [Queue("mails", concurrency=1), Queue("gpu", concurrency=2), "imports"]
        async with Worker(env.client, workflows=[nap], queues=chosen, task_queue="other"):
            found = {queue.name: queue.concurrency for queue in await env.client.queues.list()}
        assert found == {"mails": 7, "gpu": 2}
    assert "queue mails is defined already and keeps its limits" in caplog.text
    assert "concurrency is 7, given 1; `outlast queue update mails --concurrency 1` changes" in caplog.text
    assert "queue gpu" not in caplog.text
    [_, warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "there is no queue 'imports': define it with" in warning.getMessage()


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("mails", "queues must be a list: give ['mails']"),
        (Queue("mails"), "queues must be a list"),
        ([""], "queue must not be empty"),
        ([5], "queue must be text"),
        ([Queue("a"), "a"], "queue 'a' is named twice"),
    ],
    ids=str,
)
async def test_queues_of_a_worker_that_cannot_be_are_refused(queues: Any, words: str) -> None:
    async with TestEnvironment(workflows=[nap], activities=[]) as env:
        with pytest.raises(InvalidOptionError, match=words.replace("[", r"\[").replace("]", r"\]")):
            Worker(env.client, workflows=[nap], queues=queues)


async def test_a_run_whose_queue_is_gone_needs_attention_until_somebody_defines_it(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[nap], activities=[]) as env:
        client = env.client
        await client.queues.define("mails")
        await client.queues.define("others")
        await client.queues.pause("mails")
        await client.queues.pause("others")
        handle = await client.start(nap, 1.0, id="w", options=queued())
        await client.start(nap, 1.0, id="x", options=queued("others"))
        assert await client.count(attention=True) == 0
        # A deletion that a start has overtaken: it had read the queue before.
        await _delete_anyway(client, "mails")
        assert [run.workflow_id async for run in client.list(attention=True)] == ["w"]
        (reason,) = (await handle.describe()).attention_reasons
        assert reason.kind is Attention.UNKNOWN_QUEUE
        assert "outlast queue define" in reason.remedy
        await env.sleep(100)
        assert (await handle.describe()).run.status is RunStatus.QUEUED
        await client.queues.define("mails")
        assert await client.count(attention=True) == 0
        assert await handle.result() == "w"
        await client.queues.resume("others")
        await client.handle("x").result()


async def test_of_the_runs_in_a_queue_that_is_gone_so_many_are_found(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MOST_LOOKED_AT", 4)
    async with engine(workflows=[nap], activities=[]) as env:
        for queue in ("mails", "texts"):
            await env.client.queues.define(queue)
            await env.client.queues.pause(queue)
            for number in range(6):
                await env.client.start(nap, 1.0, id=f"{queue}-{number}", options=queued(queue))
        for queue, found in (("mails", 4), ("texts", 4)):
            await _delete_anyway(env.client, queue)
            assert await env.client.count(attention=True) == found
        assert {run.workflow_id[:5] async for run in env.client.list(attention=True)} == {"mails", "texts"}
        reasons = (await env.client.describe("mails-5")).attention_reasons
        assert [reason.kind for reason in reasons] == [Attention.UNKNOWN_QUEUE]


async def _delete_anyway(client: Client, name: str) -> None:
    """Delete a queue's row as a deletion does that saw nothing in the queue."""

    class Delete(BaseChange):
        def apply(self, batch: Batch) -> None:
            row = batch.lock_queue(name)
            assert row is not None
            row.deleted_at = batch.now
            batch.execute("UPDATE queues SET deleted_at = ? WHERE queue = ?", (batch.now, name))
            batch.note_queue(row)

    await client.runtime.journal.apply(Delete())


async def test_a_deletion_and_starts_at_once_leave_no_run_without_its_queue(engine: MakeEnvironment) -> None:
    """One process: whatever the order in a batch, either the start is refused or the deletion is."""
    async with engine(workflows=[nap], activities=[]) as env:
        client = env.client
        for number in range(20):
            name = f"q-{number}"
            await client.queues.define(name)

            async def start(name: str = name) -> str:
                try:
                    await client.start(nap, 1.0, id=name, options=queued(name))
                except QueueNotFoundError:
                    return "refused"
                return "started"

            async def delete(name: str = name) -> str:
                try:
                    await client.queues.delete(name)
                except QueueInUseError:
                    return "refused"
                return "deleted"

            calls = [start(), delete()] if number % 2 else [delete(), start()]
            outcomes = set(await asyncio.gather(*calls))
            assert outcomes in ({"started", "refused"}, {"refused", "deleted"})
        assert await client.count(attention=True) == 0
        for queue in await client.queues.list():
            await client.handle(queue.name).result()


class Overwrite(BaseChange):
    """Write into the rows of queue ``mails`` what nobody can read, or what no check allows."""

    def __init__(self, **columns: Any) -> None:
        self.columns = columns

    def apply(self, batch: Batch) -> None:
        for column, value in self.columns.items():
            batch.execute(f"UPDATE queues SET {column} = ? WHERE queue = 'mails'", (value,))


async def test_a_damaged_log_of_a_rate_costs_one_period(engine: MakeEnvironment) -> None:
    async with engine(workflows=[nap], activities=[]) as env:
        client = env.client
        await client.queues.define("mails", rate=Rate(2, per=60))
        await client.runtime.journal.apply(Overwrite(rate_log='{"x'))
        handle = await client.start(nap, 0.0, id="first", options=queued())
        await env.sleep(50)
        [seen] = await client.queues.list()
        assert (seen.waiting, seen.running) == (1, 0)
        assert seen.next_admission_at is not None
        await env.sleep(12)
        assert await handle.result() == "first"


async def test_a_queue_that_nothing_can_be_admitted_from_says_why_once(
    in_memory: MakeEnvironment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory(workflows=[nap], activities=[]) as env:
        client = env.client
        await client.queues.define("mails", rate=Rate(2, per=60))
        with monkeypatch.context() as broken:
            broken.setattr("outlast_runs.admission.read_rates", None)
            handle = await client.start(nap, 0.0, id="first", options=queued())
            await env.sleep(5)
        assert caplog.text.count("nothing can be admitted from queue mails") == 1
        assert await handle.result() == "first"


class DefineMany(BaseChange):
    """Define queues ``q-000`` and so on."""

    def __init__(self, number: int) -> None:
        self.number = number

    def apply(self, batch: Batch) -> None:
        text = "INSERT INTO queues (queue, created_at, updated_at) VALUES (?, ?, ?)"
        for number in range(self.number):
            batch.execute(text, (f"q-{number:03}", batch.now, batch.now))


async def test_queues_are_listed_in_pages(database_url: str) -> None:
    async with TestEnvironment(workflows=[nap], activities=[], url=database_url) as env:
        await env.client.runtime.journal.apply(DefineMany(450))
        names = [f"q-{number:03}" for number in range(450)]
        for after, limit, wanted in (
            ("", None, names),
            ("", 0, []),
            ("", 200, names[:200]),
            ("", 201, names[:201]),
            ("q-010", 3, names[11:14]),
            ("q-399", None, names[400:]),
        ):
            found = await env.client.queues.list(after=after, limit=limit)
            assert [queue.name for queue in found] == wanted
        with pytest.raises(InvalidOptionError, match="limit"):
            await env.client.queues.list(limit=-1)
