from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.activities.importing import imported
from tests.engine.process import until_so

from outlast_activities.attempts import CANCELLED, HANDED_BACK
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.primitives.enums import AttemptOutcome

JOBS = """
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from outlast_activities import process_child
from outlast_activities import context as activity
from outlast_activities.definitions import defn
from outlast_workflow.errors import ApplicationError


@dataclass
class Order:
    number: int


@defn(executor="process")
def add(order: Order, more: int) -> Order:
    return Order(order.number + more)


@defn(executor="process")
def where() -> list[int]:
    info = activity.info()
    return [os.getpid(), info.activity_id, info.attempt, *info.heartbeat_details]


@defn(executor="process")
def fail() -> None:
    activity.heartbeat("first")
    activity.heartbeat("last words")
    raise ApplicationError("no", {"secret": 1}, type="Refused", non_retryable=True)


@defn(executor="process")
def leave() -> None:
    raise SystemExit(3)


@defn(executor="process")
def die() -> None:
    os._exit(9)


@defn(executor="process")
def die_telling(begun: bool) -> None:
    sender = process_child._child.sender
    sender.turn.acquire()
    if begun:
        os.write(sender.pipe.fileno(), b"\\0\\0")
    os.kill(os.getpid(), signal.SIGKILL)


@defn(executor="process")
def beat_until_told() -> None:
    while True:
        activity.heartbeat(os.getpid())
        time.sleep(0.005)


@defn(executor="process")
def wait_for(path: str) -> str:
    activity.heartbeat("here")
    while not Path(path).exists():
        time.sleep(0.005)
    return "done"


@defn(executor="process")
def beat_and_wait(beaten: str, go: str) -> None:
    activity.heartbeat("here")
    Path(beaten).touch()
    while not Path(go).exists():
        time.sleep(0.005)


def not_declared(number: int) -> int:
    return number
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module that another process can import too."""
    yield from imported(tmp_path_factory, "outlast_process_jobs", JOBS)


async def heard(bench: Any, task: Any) -> str:
    """The details of the attempt's first heartbeat that has arrived."""
    while True:
        pending = bench.heartbeats._pending.get(task.key)
        if pending is not None and pending.details is not None:
            return str(pending.details)
        await asyncio.sleep(0.002)


@pytest.fixture
async def pool(new_bench: Callable[..., Any]) -> Any:
    return new_bench(max_concurrent=4)


async def test_it_runs_in_another_process(pool: Any, jobs: ModuleType):
    assert await pool.run(jobs.add, jobs.Order(1), 2) == {"number": 3}
    pid, *facts = await pool.run(jobs.where, activity_id=7, attempt=5, uncharged=3, heartbeat_details="[11]")
    assert pid != os.getpid()
    assert facts == [7, 2, 11]


async def test_failures_come_home_with_the_last_words(pool: Any, jobs: ModuleType):
    taken: list[str | None] = []
    told = pool.runner._on_end

    def take(task: Any, end: Any) -> None:
        taken.append(pool.heartbeats.take_pending(*task.key))
        told(task, end)

    pool.runner._on_end = take
    end = await pool.run(jobs.fail)
    assert end.outcome is AttemptOutcome.FAILED
    assert (end.failure["type"], end.failure["details"]) == ("Refused", [{"secret": 1}])
    assert end.failure["non_retryable"] is True
    assert taken == ['["last words"]']
    assert (await pool.run(jobs.leave)).failure["type"] == "SystemExit"
    failure = (await pool.run(jobs.add, "no order", 1)).failure
    assert "parameter 'order' of add()" in failure["message"]
    assert failure["non_retryable"] is True


class Reverse:
    name = "reverse"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    decode = encode


async def test_the_codec_stays_here(new_bench: Callable[..., Any], jobs: ModuleType):
    bench = new_bench(converter=DataConverter(Reverse()), max_concurrent=1)
    task = bench.start(jobs.add, jobs.Order(1), 2)
    assert b"number" not in task.input.json
    _, outcome = await bench.ends.get()
    assert b"number" not in outcome.json
    assert bench.converter.decode(outcome) == {"number": 3}
    failure = (await bench.run(jobs.fail)).failure
    assert "secret" not in str(failure["details"])


async def test_a_heartbeat_comes_home_and_a_cancel_request_goes_out(pool: Any, jobs: ModuleType):
    task = pool.start(jobs.beat_until_told)
    await heard(pool, task)
    assert pool.tell(task, "cancel_requested")
    assert await pool.end() == CANCELLED


async def test_a_heartbeat_counts_from_when_its_process_beat_not_from_when_it_came_home(
    pool: Any, jobs: ModuleType, tmp_path: Path
):
    beaten, go = tmp_path / "beaten", tmp_path / "go"
    task = pool.start(jobs.beat_and_wait, str(beaten), str(go))

    async def has_beaten() -> bool:
        return beaten.exists()

    with pool.runner._processes._pool._lock:  # nothing that comes home is taken meanwhile
        await until_so(has_beaten)
        later_s = time.monotonic()
    await heard(pool, task)
    assert pool.heartbeats._pending[task.key].beat_s < later_s
    go.touch()
    assert await pool.end() is None


async def test_one_that_waits_its_turn_ends_at_once_when_it_is_cancelled(
    pool: Any, jobs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    path = tmp_path / "go"
    first = pool.start(jobs.wait_for, str(path))
    await heard(pool, first)
    for _ in range(2):  # these may be on their way into the process already
        pool.start(jobs.wait_for, str(path))
    last = pool.start(jobs.wait_for, str(path))
    pool.tell(last, "cancel_requested")
    assert await pool.end() == CANCELLED
    path.touch()
    assert [await pool.end() for _ in range(3)] == ["done"] * 3


async def test_it_is_handed_back_when_it_returns_and_not_before(pool: Any, jobs: ModuleType):
    task = pool.start(jobs.beat_until_told)
    await heard(pool, task)
    assert await pool.runner.drain(0, cancel_grace_s=60) == []
    assert await pool.end() == HANDED_BACK


async def test_a_process_that_dies_fails_its_attempt_and_the_next_gets_another(pool: Any, jobs: ModuleType):
    end = await pool.run(jobs.die)
    assert end.outcome is AttemptOutcome.FAILED
    assert end.failure["type"] == "ProcessDied"
    assert await pool.run(jobs.add, jobs.Order(1), 2) == {"number": 3}
    assert pool.runner.free == 4


@pytest.mark.parametrize("begun", [False, True])
async def test_one_that_is_killed_while_it_tells_something_stops_nobody(
    pool: Any, jobs: ModuleType, begun: bool
):
    """Neither in its turn to write nor half-way through a message: the worker's loop never waits for it."""
    end = await pool.run(jobs.die_telling, begun)
    assert end.failure["type"] == "ProcessDied"
    assert await pool.run(jobs.add, jobs.Order(1), 2) == {"number": 3}


async def ended(process: Any) -> bool:
    """Whether it is noted, which the pool's own thread may do a moment after another has waited for it."""
    return process.exitcode is not None


async def test_closing_ends_what_still_runs(pool: Any, jobs: ModuleType, tmp_path: Path):
    task = pool.start(jobs.wait_for, str(tmp_path / "never"))
    await heard(pool, task)
    assert await pool.runner.drain(0, cancel_grace_s=0) == [task]
    processes = list(pool.runner._processes._pool._executor._processes.values())
    pool.runner.close()
    for process in processes:
        await until_so(partial(ended, process))
