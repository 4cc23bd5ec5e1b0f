"""Real time, real processes: clients and workers in different processes, SIGKILL, and stopping in good order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engine import process
from tests.engine.process import WorkerProcess, until, until_so
from tests.rows import latest_row

from outlast import StructuralLimits
from outlast.client.client import Client
from outlast.errors import OwnersDiedError, WorkflowFailedError
from outlast.testing import check_database
from outlast.worker.worker import Worker
from outlast_store.database.sql_text import fetch
from outlast_store.reads.workers import list_workers
from outlast_workflow.errors.request import NoWorkerError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def told(diary: Path) -> Counter[str]:
    return Counter(diary.read_text().splitlines())


def worker_of(client: Client, **options: Any) -> Worker:
    given: dict[str, Any] = {
        "workflows": process.WORKFLOWS,
        "activities": process.ACTIVITIES,
        "watchdog_interval": 0.1,
    }
    return Worker(client, **{**given, **options})


async def test_client_here_worker_elsewhere(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client:
        waiting = await client.start(process.fan_out, 20, id="before")
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            assert await waiting.result() == 190
            assert await client.execute(process.fan_out, 10, id="after") == 45
            assert other.stop() == 0
        assert all(count == 1 for line, count in told(diary).items() if line == "stopped other")


async def test_an_update_survives_the_worker_that_accepted_it(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client, Client.connect(shared_url) as other:
        handle = await client.start(process.Answers.run, 1, id="a")
        with WorkerProcess("first", shared_url, diary, lease=1) as first:
            made = await handle.start_update(process.Answers.ask, 7, id="seven", timeout=30)
            await until(diary, "hold 7 first")
            assert await handle.query(process.Answers.count, timeout=30) == 0
            first.kill()
        again = asyncio.ensure_future(other.handle("a").execute_update(process.Answers.ask, 8, id="seven"))
        async with worker_of(client, lease_duration=1), asyncio.timeout(30):
            assert await made.result() == 7
            assert await again == 7
            assert await handle.result() == [7]
            assert await other.handle("a").query(process.Answers.count) == 1
        assert told(diary)["validate 7"] == 1, "replay runs no validator"


async def test_clients_and_workers_apart_update_and_query(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client:
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            handle = await client.start(process.Answers.run, 20, id="a")
            asked = [handle.execute_update(process.Answers.ask, number % 20) for number in range(20)]
            assert sorted(await asyncio.gather(*asked)) == list(range(20))
            assert sorted(await handle.result()) == list(range(20))
            counts = await asyncio.gather(
                *[handle.query(process.Answers.count, timeout=30) for _ in range(20)]
            )
            assert counts == [20] * 20
            assert other.stop() == 0
        with pytest.raises(NoWorkerError):
            await handle.query(process.Answers.count)


@pytest.mark.parametrize("max_cached", [1000, 0])
async def test_a_killed_worker_is_replaced_and_nothing_is_done_again(
    shared_url: str, diary: Path, max_cached: int
) -> None:
    async with Client.connect(shared_url) as client:
        handle = await client.start(process.steps, 5, id="w")
        with WorkerProcess("first", shared_url, diary, lease=1) as first:
            await until(diary, "hold 1000 first")
            first.kill()
            async with worker_of(client, lease_duration=1, max_cached_workflows=max_cached):
                async with asyncio.timeout(30):
                    assert await handle.result() == sum(range(10)) + 1000
        lines = told(diary)
        assert [lines[f"step {number}"] for number in range(10)] == [1] * 10
        assert lines["hold 1000 first"] == 1
        assert lines["hold 1000 parent"] == 1
        row = await latest_row(handle)
        assert row.owner_losses == 0, "a commit forgets the losses before it"
        with client.runtime.database.reader() as connection:
            attempts = fetch(connection, "SELECT outcome FROM activity_attempts")
        assert attempts == [("rescued",)]


@pytest.mark.parametrize("max_cached", [1000, 0])
async def test_a_worker_killed_in_a_local_activity_is_replaced_by_the_next_owner(
    shared_url: str, diary: Path, max_cached: int
) -> None:
    """Only the local activity wakes the run: the worker that claims it owns the run, and runs it again."""
    async with Client.connect(shared_url) as client:
        handle = await client.start(process.holds_locally, 5, id="w")
        with WorkerProcess("first", shared_url, diary, lease=1) as first:
            await until(diary, "hold 1000 first")
            first.kill()
            async with worker_of(client, lease_duration=1, max_cached_workflows=max_cached):
                async with asyncio.timeout(30):
                    assert await handle.result() == 5 + 1000 + 1
        lines = told(diary)
        assert lines == Counter(["step 5", "hold 1000 first", "hold 1000 parent", "step 1", "working first"])
        results = [event async for event in handle.history() if event.type == "ActivityCompleted"]
        assert [event.payload["result"] for event in results] == [5, 1000, 1]
        with client.runtime.database.reader() as connection:
            assert fetch(connection, "SELECT outcome FROM activity_attempts") == [("rescued",)]
            assert check_database(connection) == []


async def test_a_worker_killed_while_its_run_sleeps(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client:
        handle = await client.start(process.sleeps_then_steps, 1.5, id="w")
        with WorkerProcess("first", shared_url, diary, lease=1) as first:

            async def activated() -> bool:
                return (await latest_row(handle)).status == "running"

            await until_so(activated)
            first.kill()
        async with worker_of(client, lease_duration=1):
            async with asyncio.timeout(30):
                assert await handle.result() == 1


@pytest.mark.parametrize(
    ("workflow", "line"), [(process.steps, "hold 1000"), (process.holds_thread, "hold_thread 7")]
)
async def test_a_worker_that_stops_hands_its_activities_back_uncharged(
    shared_url: str, diary: Path, workflow: Any, line: str
) -> None:
    async with Client.connect(shared_url) as client:
        args = (2,) if workflow is process.steps else ()
        handle = await client.start(workflow, *args, id="w")
        with WorkerProcess("first", shared_url, diary, lease=30, grace=0.1) as first:
            await until(diary, f"{line} first")
            assert first.stop() == 0
        assert told(diary)["stopped first"] == 1
        with client.runtime.database.reader() as connection:
            found = fetch(
                connection,
                "SELECT status, attempt, uncharged, rescues, claimed_by FROM activity_executions "
                "WHERE closed_at IS NULL",
            )
            assert found == [("pending", 1, 1, 0, None)]
            assert fetch(connection, "SELECT outcome FROM activity_attempts") == [("handed_back",)]
            assert list_workers(connection) == []
        row = await latest_row(handle)
        assert row.owner_id is None
        async with worker_of(client):
            async with asyncio.timeout(30):
                await handle.result()
        assert told(diary)[f"{line} parent"] == 1


async def test_a_rolling_restart_under_load_loses_and_repeats_nothing(shared_url: str, diary: Path) -> None:
    """Each worker is stopped in good order and replaced, one after the other, twice, while all are busy."""
    async with Client.connect(shared_url) as client:
        names = iter(f"worker-{number}" for number in range(100))
        workers = [WorkerProcess(next(names), shared_url, diary, lease=30, grace=20) for _ in range(2)]
        try:
            for worker in workers:
                await until(diary, f"working {worker.name}")
            handles = [await client.start(process.Marks.run, f"w-{n}", id=f"w-{n}") for n in range(10)]
            for _ in range(2):
                for place, old in enumerate(workers):
                    workers[place] = WorkerProcess(next(names), shared_url, diary, lease=30, grace=20)
                    await until(diary, f"working {workers[place].name}")
                    assert await asyncio.to_thread(old.stop) == 0
            for handle in handles:
                await handle.signal(process.Marks.finish)
            async with asyncio.timeout(60):
                steps = [await handle.result() for handle in handles]
        finally:
            for worker in workers:
                worker.kill()
        marks = Counter(line for line in told(diary).elements() if line.startswith("mark "))
        assert marks == Counter(
            f"mark w-{n} {step}" for n, count in enumerate(steps) for step in range(count)
        )
        assert min(steps) > 10
        with client.runtime.database.reader() as connection:
            assert fetch(connection, "SELECT outcome FROM activity_attempts") == []


async def test_two_workers_in_one_process_share_the_work(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client:
        async with (
            worker_of(client, max_concurrent_activities=3),
            worker_of(client, max_concurrent_activities=3),
        ):
            results = await asyncio.gather(
                *[client.execute(process.fan_out, 10, id=f"w-{number}") for number in range(20)]
            )
            assert results == [45] * 20
        assert sum(count for line, count in told(diary).items() if line.startswith("step")) == 200


async def test_two_clients_of_one_process_share_a_journal(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as one, Client.connect(shared_url) as two:
        assert one.runtime is two.runtime
        async with worker_of(one):
            assert await two.execute(process.fan_out, 3) == 3


async def test_one_queue_of_activities_served_by_another_process(shared_url: str, diary: Path) -> None:
    """The workflow runs here, its activities there."""
    async with Client.connect(shared_url) as client:
        with WorkerProcess("other", shared_url, diary, lease=30) as other:
            async with worker_of(client, activities=[], lease_duration=30):
                async with asyncio.timeout(30):
                    assert await client.execute(process.fan_out, 30, id="w") == 435
            assert other.stop() == 0


async def test_a_worker_on_its_own_thread(shared_url: str, diary: Path) -> None:
    async with Client.connect(shared_url) as client:
        async with worker_of(client, own_thread=True):
            async with asyncio.timeout(30):
                assert await client.execute(process.fan_out, 30, id="w") == 435


async def test_sync_activities_run_in_threads(shared_url: str, diary: Path) -> None:
    import threading

    from outlast import activity, workflow

    seen: set[int] = set()

    @activity.defn(start_to_close_timeout=10)
    def where() -> bool:
        seen.add(threading.get_ident())
        return threading.current_thread() is threading.main_thread()

    @workflow.defn
    async def asks() -> list[bool]:
        return list(await asyncio.gather(*[where() for _ in range(5)]))

    async with Client.connect(shared_url) as client:
        async with Worker(client, workflows=[asks], activities=[where]):
            assert await client.execute(asks) == [False] * 5
    assert threading.get_ident() not in seen
    assert os.environ["NAME"] == "parent"


async def test_a_paused_worker_is_replaced_and_goes_on_under_another_id(shared_url: str, diary: Path) -> None:
    """It was stopped for longer than its lease: what it had in memory is void, and its late writes are refused."""
    async with Client.connect(shared_url) as client:
        handle = await client.start(process.steps, 3, id="w")
        with WorkerProcess("first", shared_url, diary, lease=1) as first:
            await until(diary, "hold 1000 first")
            before = (await client.runtime.read(list_workers))[0].worker_id
            first.process.send_signal(signal.SIGSTOP)
            async with worker_of(client, lease_duration=1):
                async with asyncio.timeout(30):
                    assert await handle.result() == sum(range(6)) + 1000
            first.process.send_signal(signal.SIGCONT)

            async def registered_anew() -> bool:
                return any(row.worker_id != before for row in await client.runtime.read(list_workers))

            await until_so(registered_anew)
            assert await client.execute(process.fan_out, 3, id="again") == 3
            assert first.stop() == 0
        lines = told(diary)
        assert [lines[f"step {number}"] for number in range(3, 6)] == [1, 1, 1]
        types = [event.type async for event in handle.history()]
        assert types.count("WorkflowCompleted") == 1


async def test_a_child_that_kills_its_workers_ends_and_its_parent_hears_of_it(
    shared_url: str, diary: Path
) -> None:
    async with Client.connect(shared_url) as client:
        parent = await client.start(process.parent_of_poison, id="parent")
        for number in range(2):
            name = f"victim-{number}"
            with WorkerProcess(name, shared_url, diary, most_losses=1) as victim:
                await until(diary, f"poison {name}")
                assert victim.process.wait(30) == -signal.SIGKILL
        with WorkerProcess("survivor", shared_url, diary, most_losses=1) as survivor:
            async with asyncio.timeout(30):
                assert await parent.result() == "OwnersDiedError"
            found = await client.handle("poison").describe()
            assert (found.run.status, found.run.owner_losses, found.attention) == ("failed", 2, ())
            with pytest.raises(WorkflowFailedError) as failed:
                await client.handle("poison").result()
            assert isinstance(failed.value.__cause__, OwnersDiedError)
            assert failed.value.__cause__.owner_losses == 2
            assert survivor.stop() == 0
        assert "poison survivor" not in told(diary), "the run that ended kills no other worker"
        with client.runtime.database.reader() as connection:
            assert check_database(connection) == []


async def test_a_run_that_ended_with_its_owners_is_resumed_with_no_losses(
    shared_url: str, diary: Path
) -> None:
    """The worker that has the resumed run dies once more: that is its first loss, and the next one completes it."""
    async with Client.connect(shared_url) as client:
        handle = await client.start(process.kills_victims, id="w")
        for number in range(2):
            with WorkerProcess(f"victim-{number}", shared_url, diary, most_losses=1) as victim:
                assert victim.process.wait(30) == -signal.SIGKILL
        async with worker_of(client, workflows=[process.steps], limits=StructuralLimits(owner_losses=1)):
            async with asyncio.timeout(30):
                with pytest.raises(WorkflowFailedError) as failed:
                    await client.handle("w", run_id=handle.run_id).result()
        assert isinstance(failed.value.__cause__, OwnersDiedError)
        await handle.resume(reason="it was the memory")
        assert (await client.handle("w").describe()).run.owner_losses == 0
        with WorkerProcess("victim-again", shared_url, diary, most_losses=1) as victim:
            assert victim.process.wait(30) == -signal.SIGKILL
        with WorkerProcess("survivor", shared_url, diary, most_losses=1) as survivor:
            async with asyncio.timeout(30):
                assert await handle.result() == "spared", "the old handle leads to the new run"
            assert survivor.stop() == 0
        with client.runtime.database.reader() as connection:
            assert check_database(connection) == []
