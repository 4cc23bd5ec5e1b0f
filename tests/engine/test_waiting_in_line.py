"""What stands in line although no live worker can be given it, or in a queue that stays paused, needs attention."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import Client, StartOptions, Worker, workflow
from outlast_workflow.options.queues import QueueOptions
from outlast_workflow.primitives.enums import Attention

HOUR = 3600


@workflow.defn
async def mail(address: str) -> str:
    return address


@workflow.defn
class Answered:
    def __init__(self) -> None:
        self.said = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.said)

    @workflow.signal
    def answer(self) -> None:
        self.said = True


def queued(partition_key: str | None = None, priority: int = 5) -> StartOptions:
    return StartOptions(queue="mails", partition_key=partition_key, priority=priority)


async def needing(client: Client) -> list[str]:
    """The workflows that a search for attention finds; the number is the same."""
    found = [run.workflow_id async for run in client.list(attention=True)]
    assert await client.count(attention=True) == len(found)
    return sorted(found)


async def tellings(client: Client, workflow_id: str) -> list[str | None]:
    """What a run, its row in a list, its queue and the list of queues say of what holds it up."""
    place = (await client.describe(workflow_id)).run.queue
    assert place is not None
    (row,) = (await client.list(workflow_id=workflow_id).page()).runs
    (queue,) = await client.queues.list()
    described = await client.queues.describe(queue.name)
    return [place.held_up_by, row.held_up_by, queue.held_up_by, described.held_up_by]


async def reason_of(client: Client, workflow_id: str) -> tuple[Attention, str, str]:
    """Why a workflow needs attention; its row in a list says the same."""
    (reason,) = (await client.describe(workflow_id)).attention_reasons
    (row,) = (await client.list(workflow_id=workflow_id).page()).runs
    assert row.attention_reasons == (reason,)
    return reason.kind, reason.cause, reason.remedy


@pytest.mark.parametrize(
    ("type", "task_queue", "why"),
    [
        (
            "mail",
            "slow",
            "no live worker polls task queue 'slow' of workflow 'mail' (polled: default): start one",
        ),
        (
            "post",
            "default",
            "none of them knows workflow 'post' (known: mail): give workflow 'post' to a worker",
        ),
    ],
)
async def test_a_line_whose_head_nobody_can_run_says_so_and_what_to_do(
    engine: MakeEnvironment, type: str, task_queue: str, why: str
) -> None:
    async with engine(workflows=[mail], activities=[]) as env:
        await env.client.queues.define("mails", concurrency=1)
        assert (await env.client.queues.describe("mails")).held_up_by is None
        await env.client.start(type, "a", id="w", task_queue=task_queue, options=queued("t"))
        await env.sleep(1)
        for told in await tellings(env.client, "w"):
            assert told is not None
            assert why in told
        await env.client.queues.pause("mails", "the provider is down")
        assert set(await tellings(env.client, "w")) == {"its queue 'mails' is paused: the provider is down"}


@pytest.mark.parametrize(
    ("limits", "of"),
    [
        (QueueOptions(worker_concurrency=1), "queue 'mails' (worker_concurrency=1)"),
        (
            QueueOptions(partition_worker_concurrency=1),
            "partition 't' of queue 'mails' (partition_worker_concurrency=1)",
        ),
    ],
)
async def test_a_line_that_every_workers_own_limit_holds_up_says_so(
    in_memory: MakeEnvironment, limits: QueueOptions, of: str
) -> None:
    async with in_memory(workflows=[Answered], activities=[]) as env:
        await env.client.queues.define("mails", **limits)
        for number in range(3):
            await env.client.start(Answered.run, id=f"w-{number}", options=queued("t"))
        await env.sleep(1)
        one = f"the only worker that could run it holds its only slot of {of}"
        assert set(await tellings(env.client, "w-1")) == {one}
        async with env.new_worker(workflows=[Answered]):
            await env.sleep(5)
            both = f"each of the 2 workers that could run it holds its only slot of {of}"
            assert set(await tellings(env.client, "w-2")) == {both}
            assert (await env.client.describe("w-1")).run.status == "running"
            # One that admits from other queues could not run it.
            async with env.new_worker(workflows=[Answered], queues=["others"]):
                await env.sleep(5)
                assert set(await tellings(env.client, "w-2")) == {both}
            for number in range(3):
                await env.client.handle(f"w-{number}").signal("answer")
                await env.client.handle(f"w-{number}").result()
        assert (await env.client.queues.describe("mails")).held_up_by is None


@pytest.mark.parametrize(
    ("type", "task_queue", "kind", "cause"),
    [
        ("mail", "slow", Attention.NO_POLLER, "no live worker polls task queue 'slow' of workflow 'mail'"),
        ("post", "default", Attention.UNKNOWN_TYPE, "none of them knows workflow 'post' (known: mail)"),
    ],
)
async def test_the_head_of_a_line_that_no_live_worker_can_run_needs_attention_after_a_minute(
    engine: MakeEnvironment, type: str, task_queue: str, kind: Attention, cause: str
) -> None:
    async with engine(workflows=[mail], activities=[]) as env:
        client = env.client
        await client.queues.define("mails")
        for number in range(3):
            await client.start(type, "a", id=f"t-{number}", task_queue=task_queue, options=queued("t"))
        await client.start(type, "a", id="u-0", task_queue=task_queue, options=queued("u"))
        await env.sleep(59)
        assert await needing(client) == []
        await env.sleep(2)
        # Of each line the first is found; each of them says so where it is shown.
        assert await needing(client) == ["t-0", "u-0"]
        for id in ("t-0", "t-1"):
            found = await reason_of(client, id)
            assert found[0] is kind
            assert cause in found[1]
        await client.queues.pause("mails")
        assert await needing(client) == []


async def test_a_worker_that_admits_from_other_queues_only_is_no_help(engine: MakeEnvironment) -> None:
    async with engine(workflows=[], activities=[]) as env:
        client = env.client
        await client.queues.define("mails")
        await client.queues.define("others")
        async with Worker(client, workflows=[mail], queues=["others"]):
            handle: Any = await client.start(mail, "a", id="m", options=queued())
            await env.sleep(61)
            assert await needing(client) == ["m"]
            kind, cause, remedy = await reason_of(client, "m")
            assert kind is Attention.NO_POLLER
            assert cause == "no live worker that serves workflow 'mail' admits from queue 'mails'"
            assert "queues=" in remedy
            async with Worker(client, workflows=[mail], queues=["mails"]):
                assert await handle.result() == "a"
                assert await needing(client) == []


async def test_what_waits_for_a_slot_or_a_rate_needs_no_attention(engine: MakeEnvironment) -> None:
    async with engine(workflows=[mail, hold], activities=[]) as env:
        client = env.client
        await client.queues.define("mails", concurrency=1)
        holder = await client.start(hold, id="holder", options=queued())
        for number in range(2):
            await client.start(mail, "a", id=f"m-{number}", options=queued())
        await env.sleep(2 * HOUR)
        assert await needing(client) == []
        await holder.cancel()


@workflow.defn
async def hold() -> None:
    await workflow.wait_condition(lambda: False)


async def test_a_queue_that_stays_paused_over_its_line_needs_attention_after_an_hour(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[mail], activities=[]) as env:
        client = env.client
        await client.queues.define("mails")
        await client.queues.pause("mails", "maintenance")
        await client.start(mail, "a", id="second", options=queued("a"))
        await env.sleep(1)
        await client.start(mail, "a", id="third", options=queued("b", priority=0))
        await env.sleep(HOUR - 2)
        assert await needing(client) == []
        await env.sleep(3)
        # One tells of all.
        assert await needing(client) == ["second"]
        kind, _, remedy = await reason_of(client, "second")
        assert kind is Attention.QUEUE_PAUSED
        assert "outlast queue resume" in remedy
        assert (await reason_of(client, "third"))[0] is Attention.QUEUE_PAUSED
        await client.queues.resume("mails")
        assert await client.handle("third").result() == "a"
        assert await needing(client) == []
