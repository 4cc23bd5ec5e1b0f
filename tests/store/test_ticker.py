from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text

from outlast_store.database.database import Database
from outlast_store.database.ticker import Ticker
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

LONG = 3600.0


class CountedTick:
    """A tick that counts, and lets tests wait for it from the loop, whether it runs on a thread or on the loop."""

    def __init__(self, act: Callable[[Connection, int], float | None] | None = None) -> None:
        self.count = 0
        self.threads: set[str] = set()
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[int] = asyncio.Queue()

    def __call__(self, connection: Connection, now: int) -> float | None:
        self.count += 1
        self.threads.add(threading.current_thread().name)
        try:
            return self._act(connection, now) if self._act is not None else None
        finally:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, self.count)

    async def next(self) -> int:
        return await asyncio.wait_for(self._queue.get(), 30)


def select_one(connection: Connection, now: int) -> None:
    assert connection.exec_driver_sql("SELECT 1").scalar() == 1


@pytest.fixture(params=[True, False], ids=["threads", "no-threads"])
def ticker(request: pytest.FixtureRequest, database: Database) -> Ticker:
    return Ticker(database, Environment(threads=request.param))


@pytest.fixture
async def started(ticker: Ticker) -> AsyncIterator[Ticker]:
    ticker.start()
    yield ticker
    ticker.stop()


async def test_a_tick_runs_at_once_and_then_at_its_interval(started: Ticker):
    ticks = CountedTick(select_one)
    started.add("lease", 0.01, ticks)
    assert [await ticks.next() for _ in range(3)] == [1, 2, 3]


async def test_now_is_the_engines_clock(started: Ticker):
    seen: list[int] = []
    ticks = CountedTick(lambda connection, now: seen.append(now))
    before = Environment().clock.now()
    started.add("lease", LONG, ticks)
    await ticks.next()
    assert before <= seen[0] <= Environment().clock.now()


async def test_a_tick_is_woken_from_any_thread(started: Ticker):
    lease, heartbeats = CountedTick(), CountedTick()
    started.add("lease", LONG, lease)
    started.add("heartbeats", LONG, heartbeats)
    await lease.next()
    await heartbeats.next()
    started.wake("heartbeats")
    assert await heartbeats.next() == 2
    await asyncio.to_thread(started.wake, "heartbeats")
    assert await heartbeats.next() == 3
    assert lease.count == 1
    started.wake("no such tick")


async def test_a_wake_during_a_tick_asks_for_another(started: Ticker):
    def wake_once(connection: Connection, now: int) -> None:
        if ticks.count == 1:
            started.wake("heartbeats")

    ticks = CountedTick(wake_once)
    started.add("heartbeats", LONG, ticks)
    assert [await ticks.next(), await ticks.next()] == [1, 2]


async def test_a_tick_may_ask_to_run_sooner(started: Ticker):
    ticks = CountedTick(lambda connection, now: 0.005 if ticks.count < 3 else None)
    started.add("heartbeats", LONG, ticks)
    assert [await ticks.next() for _ in range(3)] == [1, 2, 3]


async def test_ticks_added_before_the_start_run_after_it(ticker: Ticker):
    ticks = CountedTick()
    ticker.add("lease", LONG, ticks)
    await asyncio.sleep(0)
    assert ticks.count == 0
    ticker.start()
    assert await ticks.next() == 1
    ticker.stop()


async def test_no_tick_runs_after_stop(ticker: Ticker):
    ticks = CountedTick(select_one)
    ticker.start()
    ticker.add("lease", 0.001, ticks)
    await ticks.next()
    ticker.stop()
    count = ticks.count
    ticker.wake("lease")
    await asyncio.sleep(0.01)
    assert ticks.count == count
    ticker.stop()
    ticker.start()
    await ticks.next()
    ticker.stop()


async def test_a_removed_tick_runs_no_more(started: Ticker):
    ticks, other = CountedTick(), CountedTick()
    started.add("lease", LONG, ticks)
    await ticks.next()
    started.remove("lease")
    started.wake("lease")
    started.add("other", LONG, other)
    await other.next()
    assert ticks.count == 1


async def test_it_is_a_thread_of_its_own_unless_there_may_be_none(started: Ticker, database: Database):
    ticks = CountedTick()
    started.add("lease", LONG, ticks)
    await ticks.next()
    on_loop = database.url.memory or not started._driver.__class__.__name__.startswith("Thread")
    assert ticks.threads == ({"MainThread"} if on_loop else {"outlast-ticker"})


async def test_a_failed_tick_leaves_no_transaction_and_is_tried_again(
    started: Ticker, caplog: pytest.LogCaptureFixture
):
    def fail_twice(connection: Connection, now: int) -> None:
        connection.exec_driver_sql("BEGIN")
        if ticks.count < 3:
            raise KeyError("a bug")
        connection.exec_driver_sql("COMMIT")

    ticks = CountedTick(fail_twice)
    started.add("lease", LONG, ticks)
    assert [await ticks.next() for _ in range(3)] == [1, 2, 3]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert "the lease tick failed" in errors[0].getMessage()


async def test_one_tick_that_fails_does_not_keep_others_from_running(started: Ticker):
    def fail(connection: Connection, now: int) -> None:
        raise KeyError("a bug")

    broken, fine = CountedTick(fail), CountedTick(select_one)
    started.add("broken", 0.001, broken)
    started.add("fine", 0.001, fine)
    assert [await fine.next() for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_a_lost_connection_is_replaced(postgresql_url: str, caplog: pytest.LogCaptureFixture):
    database = Database(DatabaseUrl.parse(postgresql_url), Environment())
    ticker = Ticker(database, Environment())
    pids: list[int] = []

    def note(connection: Connection, now: int) -> None:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        pids.append(pid)

    ticks = CountedTick(note)
    ticker.start()
    ticker.add("lease", 0.01, ticks)
    try:
        while len(pids) < 3:
            await ticks.next()
        with database.reader() as other:
            other.exec_driver_sql(f"SELECT pg_terminate_backend({pids[0]})")
        while len(set(pids)) < 2:
            await ticks.next()
        await ticks.next()
    finally:
        ticker.stop()
        database.dispose()
    warnings = [record.getMessage() for record in caplog.records if record.name == "outlast.ticker"]
    assert any(line.startswith("the lease tick failed and is tried again: ") for line in warnings)


async def test_a_database_that_is_away_is_tried_until_it_comes(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "later"
    database = Database(DatabaseUrl.parse(f"sqlite:///{folder}/app.db"), Environment())
    ticker = Ticker(database, Environment())
    ticks = CountedTick(select_one)
    warned = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            loop.call_soon_threadsafe(warned.set)

    listener = Listener()
    logging.getLogger("outlast.ticker").addHandler(listener)
    try:
        ticker.start()
        ticker.add("lease", LONG, ticks)
        await asyncio.wait_for(warned.wait(), 30)
        assert ticks.count == 0
        folder.mkdir()
        assert await ticks.next() == 1
    finally:
        logging.getLogger("outlast.ticker").removeHandler(listener)
        ticker.stop()
        database.dispose()
    assert "there is no folder" in caplog.text
