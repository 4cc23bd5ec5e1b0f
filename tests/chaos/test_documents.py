"""Documents under kills: each event comes once and in order, and a watchdog alone decides both levels of timeouts."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest
from tests.chaos.control import watch
from tests.chaos.documents import EVERY_SECOND, GATHER, LATE, document, process, route_and_work

from outlast import Client
from outlast.errors import FaultedError, FaultedTimeoutError
from outlast.testing import check_database
from outlast_serverless import DocumentRun, Runtime

PATIENCE_S = 120
SEED = 20_261
SLOT = re.compile(r"-(\d{4}-\d\d-\d\dT.*Z)$")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def living(target: Any, url: str, count: int) -> AsyncGenerator[list[ForkServerProcess]]:
    """Some processes; none is left behind."""
    alive = [process(target, url) for _ in range(count)]
    try:
        yield alive
    finally:
        for one in alive:
            one.kill()
            await asyncio.to_thread(one.join, PATIENCE_S)


async def replace_one(
    alive: list[ForkServerProcess], chance: random.Random, target: Callable[[str], None], url: str
) -> None:
    """Kill one of some processes, whichever it is, and start another in its place."""
    victim = chance.randrange(len(alive))
    alive[victim].kill()
    await asyncio.to_thread(alive[victim].join, PATIENCE_S)
    alive[victim] = process(target, url)


async def listening(runs: list[DocumentRun]) -> None:
    """Wait until all runs listen."""
    for run in runs:
        while not any(one.kind == "listen" for one in (await run.describe()).open):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def storm(url: str, *, rooms: int, events: int, kills: int) -> None:
    """Publish events for some rooms while those who bring them are killed, one after the other."""
    chance = random.Random(SEED)
    async with Client.connect(url) as client:
        runtime = Runtime(client)
        gather = document(GATHER, "gather")
        runs = [
            await runtime.start(gather, {"room": room, "count": events}, id=f"room-{room}")
            for room in range(rooms)
        ]
        async with living(route_and_work, url, 2) as alive:
            async with asyncio.timeout(PATIENCE_S):
                await listening(runs)
            killed = 0
            batch = max(1, events // (kills + 1))
            for begin in range(0, events, batch):
                for number in range(begin, min(begin + batch, events)):
                    await runtime.publish_all(
                        [
                            {
                                "id": f"{room}-{number}",
                                "source": "/rooms",
                                "type": "measured",
                                "data": {"room": room, "number": number},
                            }
                            for room in range(rooms)
                        ]
                    )
                if killed < kills:
                    # Whichever it is: what it was bringing is brought by another.
                    await replace_one(alive, chance, route_and_work, url)
                    killed += 1
            async with asyncio.timeout(PATIENCE_S * 10):
                results = await asyncio.gather(*(run.result() for run in runs))
        assert killed == kills
        assert results == [list(range(events))] * rooms
        assert await client.runtime.read(check_database) == []


async def test_each_event_reaches_its_run_once_and_in_order_whoever_is_killed(shared_url: str) -> None:
    await storm(shared_url, rooms=4, events=60, kills=3)


@pytest.mark.nightly
async def test_a_hundred_thousand_events_through_twenty_kills(shared_url: str) -> None:
    await storm(shared_url, rooms=200, events=500, kills=20)


async def instants(url: str, *, documents: int, seconds: int, kills: int) -> None:
    """Start documents once a second, while the watchdogs that do it are killed, one after the other."""
    chance = random.Random(SEED)
    second = timedelta(seconds=1)
    async with Client.connect(url) as client:
        runtime = Runtime(client)
        scheduled = [
            await runtime.schedule(document(EVERY_SECOND, f"every-{number}")) for number in range(documents)
        ]
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        schedules = [client.schedules.handle(one.id) for one in scheduled]
        for one in schedules:
            await one.update(end_at=end)
        # Another calendar counts from when it is given.
        begun = datetime.now(UTC)
        async with living(watch, url, 4) as alive:
            for _ in range(kills):
                await asyncio.sleep(seconds / (kills + 1))
                await replace_one(alive, chance, watch, url)
            async with asyncio.timeout(PATIENCE_S * 5):
                for one in schedules:
                    while (await one.describe(next=0)).next_look_at is not None:  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
        found: dict[str, list[datetime]] = {one.id: [] for one in scheduled}
        async for run in client.list(page_size=1000):
            slot = SLOT.search(run.workflow_id)
            assert slot is not None
            found[run.workflow_id[: slot.start()]].append(datetime.fromisoformat(slot[1]))
        for one in schedules:
            told, slots = await one.describe(next=0), sorted(found[one.schedule_id])
            assert (told.started, told.skipped, told.missed) == (len(slots), 0, 0)
            assert [later - earlier for earlier, later in pairwise(slots)] == [second] * (len(slots) - 1)
            assert slots[0] <= begun + second
            assert end - second < slots[-1] <= end
        assert sum(map(len, found.values())) >= documents * (seconds - 4)
        assert await client.runtime.read(check_database) == []


async def test_each_instant_starts_a_document_once_whoever_is_killed(shared_url: str) -> None:
    await instants(shared_url, documents=5, seconds=6, kills=2)


@pytest.mark.nightly
async def test_a_hundred_thousand_instants_through_twenty_kills(shared_url: str) -> None:
    await instants(shared_url, documents=253, seconds=400, kills=20)


async def verdict(run: DocumentRun) -> Any:
    """Return what became of a run: its output, or the place of its error."""
    try:
        return await run.result()
    except FaultedTimeoutError as error:
        return error.error["instance"]
    except FaultedError as error:
        return error.error


async def decided(run: DocumentRun) -> list[str]:
    """Return the events of a run that only a watchdog writes."""
    return [
        one.type
        async for one in run.handle.history()
        if one.type in ("TimerFired", "WorkflowTimedOut", "ActivityTimedOut")
    ]


@pytest.mark.parametrize("watched", [True, False])
async def test_deadlines_pass_with_no_worker_alive(shared_url: str, watched: bool) -> None:
    """With a watchdog they are decided meanwhile; with nobody at all, the verdicts afterwards are the same."""
    async with Client.connect(shared_url) as client:
        runtime = Runtime(client)
        late = document(LATE, "late")
        async with living(route_and_work, shared_url, 1), asyncio.timeout(PATIENCE_S):
            # A process takes seconds to begin.
            await (await runtime.start(document("do: [{a: {set: {x: 1}}}]", "warm"))).result()
            task = await runtime.start(late, {"workflow": "PT1H", "task": "PT4S"}, id="task")
            whole = await runtime.start(late, {"workflow": "PT5S", "task": "PT1H"}, id="whole")
            both = await runtime.start(late, {"workflow": "PT5S", "task": "PT4S"}, id="both")
            runs = [task, whole, both]
            for run in runs:
                while len((await run.describe()).open) < 2 and not await decided(run):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        if watched:
            async with living(watch, shared_url, 1), asyncio.timeout(PATIENCE_S):
                while [await decided(run) for run in runs] != [  # noqa: ASYNC110
                    ["TimerFired"],
                    ["WorkflowTimedOut"],
                    ["TimerFired", "WorkflowTimedOut"],
                ]:
                    await asyncio.sleep(0.05)
                # The workflow's is carried out; the task's waits for its code, and describe says for what.
                assert (await whole.describe()).phase == "faulted"
                assert (await task.describe()).phase != "faulted"
        else:
            # Both deadlines pass while nobody is there.
            await asyncio.sleep(6)
        async with living(route_and_work, shared_url, 1), asyncio.timeout(PATIENCE_S):
            assert await verdict(task) == {"caught": "/do/0/attempt/try/0/pause"}
            assert await verdict(whole) == "/"
            assert await verdict(both) == "/"
        assert await client.runtime.read(check_database) == []
