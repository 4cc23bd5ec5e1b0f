"""Starts that are moved before they come: with a queue and without, delayed and in line, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import StartOptions, WorkflowHandle, workflow
from outlast.errors import InvalidOptionError, WorkflowAlreadyBegunError, WorkflowNotFoundError
from outlast.testing import Replayer, TestEnvironment
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow


@workflow.defn
class Begun:
    """Returns when it began, and the rest of its run timeout then."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def hear(self, word: str) -> None:
        self.heard.append(word)

    @workflow.run
    async def run(self, seconds: float = 0) -> list[Any]:
        began, left = workflow.now(), workflow.time_remaining()
        await workflow.sleep(seconds)
        return [began.isoformat(), None if left is None else round(left.total_seconds()), self.heard]


@workflow.defn
class Hourly:
    @workflow.run
    async def run(self, left: int) -> str:
        if left:
            workflow.continue_as_new(left - 1, start_delay=3600)
        return workflow.now().isoformat()


WORKFLOWS = [Begun, Hourly]

WEST = timezone(timedelta(hours=-1))

QUEUES = pytest.mark.parametrize("queue", [None, "q"])


async def begin(env: TestEnvironment, id: str, seconds: float = 0, **options: Any) -> WorkflowHandle[Any]:
    return await env.client.start(Begun.run, seconds, id=id, options=StartOptions(**options))


async def row_of(handle: WorkflowHandle[Any], env: TestEnvironment) -> RunRow:
    assert handle.run_id is not None
    row = await env.client.runtime.read(find_run, handle.run_id)
    assert row is not None
    return row


async def kinds(handle: WorkflowHandle[Any]) -> list[str]:
    return [event.type async for event in handle.history()]


async def began_after(handle: WorkflowHandle[Any], since: datetime) -> float:
    return (datetime.fromisoformat((await handle.result())[0]) - since).total_seconds()


@QUEUES
async def test_a_delayed_start_is_moved(engine: MakeEnvironment, queue: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        for how, seconds in (("delay", 5), ("delay", 300), ("until", 20), ("until", -5)):
            now = env.now()
            handle = await begin(env, f"{how} {seconds}", start_delay=100, queue=queue, run_timeout=50)
            if how == "until":
                await handle.set_start_delay(until=now + timedelta(seconds=seconds))
            else:
                await handle.set_start_delay(timedelta(seconds=seconds))
            waited = max(seconds, 0)
            assert waited <= await began_after(handle, now) <= waited + 2, (how, seconds)
            assert (await handle.result())[1] == 50
            assert (await kinds(handle))[1] == "WorkflowStartChanged"
            report = Replayer(WORKFLOWS).replay(await handle.export_history())
            assert report.runs == 1


async def test_who_leaves_the_line_joins_it_anew_by_its_priority(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        await begin(env, "first", 30, queue="q")
        await env.sleep(1)
        handles = {
            id: await begin(env, id, 1, queue="q", priority=priority, schedule_to_start_timeout=500)
            for id, priority in (("a", 5), ("b", 5), ("urgent", 1), ("c", 5))
        }
        for id in ("a", "urgent"):
            await handles[id].set_start_delay(20)
            row = await row_of(handles[id], env)
            assert (row.status, row.queued_at, row.start_delayed) == ("queued", None, True)
            assert row.start_deadline_at == row.not_before + 500_000_000
        assert (await env.client.queues.describe("q")).delayed == 2
        begins = {id: (await handle.result())[0] for id, handle in handles.items()}
        # The urgent one is back in line before the slot is free; the other stands behind those of its priority.
        assert sorted(begins, key=lambda id: begins[id]) == ["urgent", "b", "c", "a"]


async def test_at_once_changes_nothing_for_who_is_in_line(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        await begin(env, "first", 10, queue="q")
        await env.sleep(1)
        second = await begin(env, "second", queue="q")
        third = await begin(env, "third", queue="q")
        before = await row_of(second, env)
        await second.set_start_delay(0)
        assert vars(await row_of(second, env)) == vars(before)
        await third.set_start_delay(until=(until := env.now() + timedelta(seconds=60)))
        await third.set_start_delay(until=until)
        assert (await kinds(third)).count("WorkflowStartChanged") == 1
        # And back: it joins the line at once.
        await third.set_start_delay(0)
        assert (await row_of(third, env)).queued_at is not None
        assert await began_after(third, env.now()) < 20


@QUEUES
async def test_a_signal_ends_a_delay_that_was_moved(engine: MakeEnvironment, queue: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        handle = await begin(env, "w", start_delay=10, queue=queue)
        await handle.set_start_delay(3600)
        now = env.now()
        await handle.signal(Begun.hear, "now")
        assert await began_after(handle, now) < 2
        assert (await handle.result())[2] == ["now"]


@QUEUES
async def test_a_run_that_nobody_has_begun_is_delayed(engine: MakeEnvironment, queue: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        handle = await env.client.start(
            "Unknown", id="w", task_queue="nobody", options=StartOptions(queue=queue, run_timeout=10)
        )
        await handle.set_start_delay(100)
        row = await row_of(handle, env)
        assert row.run_deadline_at == (None if queue else row.not_before + 10_000_000)
        await env.sleep(50)
        assert (await handle.describe()).run.begins_at is not None
        await handle.terminate()


@QUEUES
async def test_what_has_begun_or_ended_is_refused(engine: MakeEnvironment, queue: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        handle = await begin(env, "w", 10, queue=queue)
        await env.sleep(1)
        for status in ("running", "completed"):
            written = await kinds(handle)
            with pytest.raises(WorkflowAlreadyBegunError) as caught:
                await handle.set_start_delay(10)
            facts = caught.value.workflow_id, caught.value.run_id, caught.value.status
            assert facts == ("w", handle.run_id, status)
            assert await kinds(handle) == written
            await handle.result()
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("nobody").set_start_delay(10)


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"delay": 1000}, "delay"),
    ({"until": datetime.max.replace(tzinfo=UTC)}, "until"),
    ({"delay": 10, "until": datetime(2040, 1, 1, tzinfo=UTC)}, "delay"),
    ({}, "delay"),
    ({"delay": -1}, "delay"),
    ({"delay": "10m"}, "delay"),
    ({"until": datetime(2040, 1, 1)}, "until"),
    ({"until": 10}, "until"),
)


@QUEUES
async def test_what_cannot_be_is_refused_before_anything_is_written(
    engine: MakeEnvironment, queue: str | None
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        handle = await begin(env, "w", start_delay=100, execution_timeout=1000, queue=queue)
        before = await row_of(handle, env)
        for given, field in REFUSED:
            with pytest.raises(InvalidOptionError) as caught:
                await handle.set_start_delay(**given)
            assert caught.value.field == field, given
            assert vars(await row_of(handle, env)) == vars(before), given
        await handle.terminate()


async def test_no_start_comes_after_the_year_9999(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await begin(env, "w", start_delay=100, run_timeout=3600)
        last = datetime.max.replace(tzinfo=UTC)
        with pytest.raises(InvalidOptionError, match="run timeout ends after the year 9999"):
            await handle.set_start_delay(until=last)
        with pytest.raises(InvalidOptionError, match="until lies after the year 9999"):
            await handle.set_start_delay(until=last.replace(tzinfo=WEST))
        assert await kinds(handle) == ["WorkflowStarted"]
        await handle.terminate()


@QUEUES
async def test_the_next_run_of_a_chain_is_moved_while_it_waits(
    engine: MakeEnvironment, queue: str | None
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, concurrency=1)
        begun = env.now()
        handle = await env.client.start(Hourly.run, 1, id="h", options=StartOptions(queue=queue))
        await env.sleep(10)
        await handle.set_start_delay(7200)
        ended = datetime.fromisoformat(await handle.result())
        assert timedelta(seconds=7209) <= ended - begun < timedelta(seconds=7215)


async def test_a_cancel_request_is_not_put_off(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.start(
            "Unknown", id="w", task_queue="nobody", options=StartOptions(start_delay=100)
        )
        await handle.cancel()
        with pytest.raises(WorkflowAlreadyBegunError):
            await handle.set_start_delay(10)
        await handle.terminate()


@QUEUES
async def test_a_reset_has_the_new_runs_deadline(engine: MakeEnvironment, queue: str | None) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal)
        handle = await begin(env, "w", 20, start_delay=100, run_timeout=50, queue=queue)
        await handle.set_start_delay(10)
        await env.sleep(15)
        now = env.now()
        # The timer that its code has started is kept.
        again = await handle.reset((await kinds(handle)).index("TimerScheduled") + 1)
        deadline = (await again.describe()).run.run_deadline_at
        assert deadline is not None
        assert timedelta(seconds=50) <= deadline - now < timedelta(seconds=51)
        await again.result()
        # The environment checks at its end that the history says the same; replay sees it, too.
        assert Replayer(WORKFLOWS).replay(await again.export_history()).runs == 1
