"""The notifier: what an idle worker costs, when a notification is sent, and listeners that connect again."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.process import until_so

from outlast import Client, Worker
from outlast.runtime import notifier
from outlast.runtime.file_watch import FileWatch
from outlast.runtime.notifier import (
    CHANNEL,
    POLL_INTERVAL_S,
    VERSION_INTERVAL_S,
    DataVersionNotifier,
)
from outlast.testing import TestEnvironment
from outlast.worker.poller import WorkPoller
from outlast_store.database.sql_text import fetch
from outlast_store.reads.workers import poll_work

MOST_A_SECOND = 5


@pytest.fixture
def asked() -> Iterator[Counter[str]]:
    """What is sent through SQLAlchemy, a pool's pings included, except for SQLite's data version."""
    counts: Counter[str] = Counter()

    def statement(_connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        if not text.startswith("PRAGMA"):
            counts[text] += 1

    def checkout(connection: Any, _record: Any, _proxy: Any) -> None:
        if isinstance(connection, psycopg.Connection):
            counts["ping"] += 1

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Pool, "checkout", checkout)
    yield counts
    event.remove(Engine, "before_cursor_execute", statement)
    event.remove(Pool, "checkout", checkout)


@pytest.mark.usefixtures("one_worker")
async def test_an_idle_worker_polls_seldom(engine: MakeEnvironment, asked: Counter[str]) -> None:
    seconds = 120
    async with engine() as env:
        await env.client.execute(programs.Sum.run, [1, 2], id="w")
        async with env.new_worker(
            workflows=programs.WORKFLOWS,
            activities=programs.ACTIVITIES,
            lease_duration=30,
            watchdog_interval=1,
        ):
            await env.worker.stop()
            await env.sleep(10)
            asked.clear()
            batches = env.client.runtime.journal.committer.statistics["batches"]
            await env.sleep(seconds)
            assert env.client.runtime.journal.committer.statistics["batches"] == batches
            assert asked.total() <= MOST_A_SECOND * seconds, asked


@pytest.mark.usefixtures("one_worker")
async def test_a_notification_during_a_poll_is_not_lost(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it announces may have been written after the poll read, which would find it an interval later."""
    async with engine() as env:
        runtime = env.client.runtime
        await env.sleep(10.3 * POLL_INTERVAL_S)
        looks = 0
        read = runtime.read

        async def read_slowly(question: Any, *args: Any) -> Any:
            nonlocal looks
            found = await read(question, *args)
            if question is poll_work:
                looks += 1
                if looks == 1:
                    await runtime._poll()
            return found

        monkeypatch.setattr(runtime, "read", read_slowly)
        await runtime._poll()
        await env.sleep(0.1 * POLL_INTERVAL_S)
        assert looks == 2


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_that_waits_for_nothing_notifies(
    postgresql_url: str, closes: bool, anyio_backend: Any
) -> None:
    """Otherwise what it starts or sends would wait for a poll; also if it closes at once."""
    with psycopg.connect(postgresql_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client.connect(postgresql_url))
            await client.start(programs.nothing, id="w")
            if closes:
                await stack.aclose()
            received = await asyncio.to_thread(lambda: list(listener.notifies(timeout=20, stop_after=1)))
        assert [notification.channel for notification in received] == [CHANNEL]


async def test_what_another_writes_to_a_file_is_seen_at_once(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the worker there, and by the caller here; polling would come an hour too late."""
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600)
    async with (
        TestEnvironment(url=sqlite_url, workflows=[programs.nothing]) as env,
        Client.connect(sqlite_url, environment=env.environment) as other,
    ):
        await env.sleep(10)
        began = env.now()
        async with asyncio.timeout(7200):
            await other.execute(programs.nothing, id="w")
        assert env.now() - began < timedelta(seconds=1)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_however_much_is_committed_notifications_keep_their_gap(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: Any
) -> None:
    """The gap is an hour here; a client that closes notifies for its last commits."""
    monkeypatch.setattr(notifier, "NOTIFY_GAP_S", 3600)
    with psycopg.connect(postgresql_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        async with Client.connect(postgresql_url) as client:
            for _ in range(30):
                await client.start(programs.nothing)
            batches = client.runtime.journal.committer.statistics["batches"]
        assert batches >= 30
        assert 1 <= len(received_by(listener)) <= 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_commit_sends_its_own_notification(postgresql_url: str, anyio_backend: Any) -> None:
    """A NOTIFY makes its transaction wait for all others with one, so the ticker's connection sends it."""
    with psycopg.connect(postgresql_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        async with Client.connect(postgresql_url) as client:
            for _ in range(10):
                await client.start(programs.nothing)
            _ = await asyncio.to_thread(lambda: list(listener.notifies(timeout=20, stop_after=1)))
            journal, ticker = (
                backend(one._connection) for one in (client.runtime.journal.committer, client.runtime.ticker)
            )
            await client.start(programs.nothing)
        assert journal != ticker
        assert {notification.pid for notification in received_by(listener)} == {ticker}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_does_not_look_for_what_it_has_written_itself(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: Any
) -> None:
    """Its own notifications wake others, who then look at once; polling would come an hour too late."""
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600)
    looks: list[WorkPoller] = []
    poll = WorkPoller.poll

    def counted(poller: WorkPoller) -> None:
        looks.append(poller)
        poll(poller)

    async def looked() -> bool:
        return bool(looks)

    monkeypatch.setattr(WorkPoller, "poll", counted)
    with psycopg.connect(postgresql_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")

        async def listens() -> bool:
            listening = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query = %s"
            return listener.execute(listening, [f"LISTEN {CHANNEL}"]).fetchone() is not None

        async with Client.connect(postgresql_url) as client, Worker(client, workflows=[programs.nothing]):
            await client.execute(programs.nothing)
            await until_so(listens)
            await asyncio.sleep(1)  # the look that follows
            looks.clear()
            for _ in range(20):
                await client.execute(programs.nothing)
            sent = await asyncio.to_thread(lambda: list(listener.notifies(timeout=20, stop_after=2)))
            assert sent
            await asyncio.sleep(0.2)
            assert not looks
            listener.execute(f"NOTIFY {CHANNEL}")
            await until_so(looked)


def backend(connection: Any) -> int:
    """Return the server's process of a connection."""
    pid: int = connection.connection.driver_connection.info.backend_pid
    return pid


def received_by(listener: psycopg.Connection) -> list[psycopg.Notify]:
    """The notifications that it has received; one that it sends itself comes after them."""
    listener.execute(f"NOTIFY {CHANNEL}, 'the last'")
    received: list[psycopg.Notify] = []
    for notification in listener.notifies(timeout=20):
        if notification.payload:
            return received
        received.append(notification)
    pytest.fail("the last notification was not received")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_database_without_notifications_is_polled(
    postgresql_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    anyio_backend: Any,
) -> None:
    """The database does not support them (here: not the channel), and polling works, with one line in the log."""
    monkeypatch.setattr(notifier, "CHANNEL", "'no name'")
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(notifier, "RECONNECT_AFTER_S", 0.001)
    caplog.set_level(logging.INFO, "outlast")
    async with Client.connect(postgresql_url) as client:
        async with Worker(client, workflows=[programs.nothing], watchdog=False):
            notifying: Any = client.runtime._notifier
            for _ in range(5):
                await client.execute(programs.nothing)
                notifying._notify()
            await until_so(lambda: _ended(notifying._thread))
    said = [record.getMessage() for record in caplog.records if "LISTEN" in record.getMessage()]
    assert len(said) == 1
    assert not [record for record in caplog.records if "was cut" in record.getMessage()]
    assert not [record for record in caplog.records if record.name == "outlast.ticker"]


async def _ended(thread: threading.Thread) -> bool:
    return not thread.is_alive()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_listener_whose_connection_was_cut_connects_again(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: Any
) -> None:
    """Only a notification can tell here: polling would come an hour too late."""
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600)
    monkeypatch.setattr(notifier, "RECONNECT_AFTER_S", 0.01)
    async with Client.connect(postgresql_url) as client:
        notified = asyncio.Event()
        async with Worker(client, workflows=[programs.nothing], watchdog=False):
            listening = await listener(client)
            client.runtime.subscribe(notified.set)
            async with asyncio.timeout(30):
                await client.runtime.read(fetch, "SELECT pg_terminate_backend(?)", (listening,))
                while await listener(client) == listening:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await notified.wait()  # Notifications may have been missed while nobody listened.
                notified.clear()
                await client.runtime.read(fetch, "SELECT pg_notify(?, '')", (CHANNEL,))
                await notified.wait()
            client.runtime.unsubscribe(notified.set)


async def listener(client: Client) -> int | None:
    """Return the session that listens."""
    text = "SELECT pid FROM pg_stat_activity WHERE query = ? AND datname = current_database()"
    found: list[int] = []

    async def there() -> bool:
        found[:] = [row[0] for row in await client.runtime.read(fetch, text, (f"LISTEN {CHANNEL}",))]
        return bool(found)

    await until_so(there)
    return found[0]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the data version is read for the notifier."""
    counts: Counter[str] = Counter()
    look = DataVersionNotifier._others_wrote

    def counted(self: DataVersionNotifier) -> bool:
        counts["looks"] += 1
        return look(self)

    monkeypatch.setattr(DataVersionNotifier, "_others_wrote", counted)
    return counts


def _written_by_another(url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other, other:
        other.execute("CREATE TABLE of_another (number INTEGER)")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_while_nobody_writes_a_file_is_not_looked_at(
    sqlite_url: str, looks: Counter[str], monkeypatch: pytest.MonkeyPatch, anyio_backend: Any
) -> None:
    async with Client.connect(sqlite_url) as client:
        await client.start(programs.nothing, id="w")
        found = client.runtime._notifier
        assert isinstance(found, DataVersionNotifier)
        found.start()
        assert found._watch is not None
        assert await found._watch is not None
        # What was written until now is still looked at; then the process rests.
        for _ in range(3):
            await found.wait()
        looks.clear()
        await found.wait()
        assert looks["looks"] <= 2
        # Nothing but the system's word can end the next one.
        monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600)
        waiting = asyncio.create_task(found.wait())
        await asyncio.sleep(0)
        _written_by_another(sqlite_url)
        async with asyncio.timeout(20):
            await waiting


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_where_the_system_tells_nothing_a_file_is_looked_at_all_the_time(
    sqlite_url: str, looks: Counter[str], monkeypatch: pytest.MonkeyPatch, anyio_backend: Any
) -> None:
    monkeypatch.setattr(FileWatch, "of", lambda path: None)
    async with Client.connect(sqlite_url) as client:
        await client.start(programs.nothing, id="w")
        found = client.runtime._notifier
        assert isinstance(found, DataVersionNotifier)
        found.start()
        await found.wait()
        looks.clear()
        monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 3600)
        waiting = asyncio.create_task(found.wait())
        await asyncio.sleep(0.1)
        assert looks["looks"] > 1
        _written_by_another(sqlite_url)
        async with asyncio.timeout(20):
            await waiting


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_that_are_told_of_the_same_write_do_not_look_in_step(
    sqlite_url: str, anyio_backend: Any
) -> None:
    """Each would see the other's answer a whole interval late."""
    async with Client.connect(sqlite_url) as one, Client.connect(sqlite_url) as other:
        plans: list[list[float]] = []
        for client in (one, other):
            found = client.runtime._notifier
            assert isinstance(found, DataVersionNotifier)
            plans.append([found._interval() for _ in range(100)])
    assert len({*plans[0], *plans[1]}) == 200
    for plan in plans:
        assert VERSION_INTERVAL_S / 2 <= min(plan) < max(plan) <= VERSION_INTERVAL_S * 1.5
