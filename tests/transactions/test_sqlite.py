"""SQLite has one writer: a transaction of user code waits its turn, and everything else goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy import text
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays, says_hello

from outlast import Client, RetryPolicy, Worker, activity, workflow
from outlast_activities import transactions
from outlast_store.database.guests import Guest

inside = threading.Event()
go_on = threading.Event()
at_once: list[int] = []
most_at_once: list[int] = []


@activity.defn(start_to_close_timeout=60, transactional=True, retry_policy=RetryPolicy(initial_interval=0.01))
def waits_inside() -> int:
    connection = activity.connection()
    connection.execute(text("UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'"))
    inside.set()
    first = not go_on.is_set()
    assert go_on.wait(30)
    connection.execute(text("SELECT 1"))
    return int(first)


@activity.defn(start_to_close_timeout=60, transactional=True)
def counts_who_is_inside() -> None:
    at_once.append(1)
    most_at_once.append(len(at_once))
    activity.connection().execute(text("UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'"))
    at_once.pop()


@workflow.defn
async def waits() -> int:
    return await workflow.execute_activity(waits_inside)


@workflow.defn
async def fans_out(n: int) -> None:
    await asyncio.gather(*[workflow.execute_activity(counts_who_is_inside) for _ in range(n)])


@pytest.fixture
def bank_there(sqlite_url: str) -> Any:
    inside.clear()
    go_on.clear()
    programs.runs.clear()
    made = Bank(sqlite_url)
    made.open(ada=100, bob=0)
    yield made
    go_on.set()
    made.close()


def worker(client: Client) -> Worker:
    return Worker(
        client,
        workflows=[waits, fans_out, pays, says_hello],
        activities=[waits_inside, counts_who_is_inside, programs.transfer],
    )


async def test_the_loop_goes_on_while_a_transaction_is_open(sqlite_url: str, bank_there: Bank) -> None:
    async with await Client.connect(sqlite_url) as client, worker(client):
        slow = await client.start(waits, id="slow")
        await asyncio.to_thread(inside.wait, 30)
        # Reading works, and writing waits on the loop, which goes on.
        assert (await slow.describe()).run.status == "running"
        started = asyncio.ensure_future(client.start(says_hello, id="quick"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not started.done()
        go_on.set()
        assert await (await started).result() == "hello"
        assert await slow.result() == 1
    assert bank_there.balances["bob"] == 1


async def test_another_process_waits_on_its_loop_too(sqlite_url: str, bank_there: Bank) -> None:
    connected, write, ticked = threading.Event(), threading.Event(), threading.Event()

    def elsewhere() -> str:
        """A client with a loop and a journal of its own, as another process has."""

        async def start() -> str:
            async with await Client.connect(sqlite_url) as other:
                connected.set()
                await asyncio.to_thread(write.wait, 30)
                starting = asyncio.ensure_future(other.start(says_hello, id="quick"))
                # Its loop turns although its journal is kept from writing.
                for _ in range(50):
                    await asyncio.sleep(0)
                assert not starting.done()
                ticked.set()
                return str(await (await starting).result())

        return asyncio.run(start())

    async with await Client.connect(sqlite_url) as client, worker(client):
        result = asyncio.create_task(asyncio.to_thread(elsewhere))
        assert await asyncio.to_thread(connected.wait, 30)
        slow = await client.start(waits, id="slow")
        await asyncio.to_thread(inside.wait, 30)
        write.set()
        assert await asyncio.to_thread(ticked.wait, 30)
        go_on.set()
        assert await result == "hello"
        assert await slow.result() == 1


async def test_a_transaction_that_takes_too_long_is_taken_away(
    sqlite_url: str, bank_there: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LONGEST_ON_SQLITE_S", 0.05)
    async with await Client.connect(sqlite_url) as client, worker(client):
        slow = await client.start(waits, id="slow")
        await asyncio.to_thread(inside.wait, 30)
        # The code still sits there, but others write.
        quick = await client.start(says_hello, id="quick")
        assert await quick.result() == "hello"
        assert bank_there.balances["bob"] == 0
        monkeypatch.setattr(transactions, "LONGEST_ON_SQLITE_S", 30)
        go_on.set()
        assert await slow.result() == 0, "the second attempt had time"
    assert bank_there.balances["bob"] == 1
    with bank_there.engine.connect() as connection:
        failures = connection.execute(text("SELECT exception_class FROM workflow_failures")).scalars().all()
    assert failures == ["TransactionTooLongError"]


@pytest.mark.parametrize("moment", ["take", "commit"])
async def test_a_transaction_taken_away_while_the_engine_writes_leaves_nothing(
    sqlite_url: str, bank_there: Bank, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    original = getattr(Guest, moment)
    expired: list[Guest] = []

    def at_the_worst_moment(guest: Guest) -> Any:
        found = original(guest) if moment == "take" else None
        if not expired:
            expired.append(guest)
            timer = threading.Thread(target=guest.expire)
            timer.start()
            timer.join()
        return found if moment == "take" else original(guest)

    monkeypatch.setattr(Guest, moment, at_the_worst_moment)
    go_on.set()
    async with await Client.connect(sqlite_url) as client, worker(client):
        await (await client.start(waits, id="w")).result()
    assert bank_there.balances["bob"] == 1
    assert bank_there.events("ActivityCompleted") == 1
    with bank_there.engine.connect() as connection:
        failures = connection.execute(text("SELECT exception_class FROM workflow_failures")).scalars().all()
    assert failures == ["TransactionTooLongError"]


async def test_a_timer_that_comes_late_takes_no_other_transaction_away(
    sqlite_url: str, bank_there: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests: list[Guest] = []
    original = Guest.take

    def with_the_timer_of_the_one_before(guest: Guest) -> Any:
        for ended in guests:
            ended.expire()
        guests.append(guest)
        return original(guest)

    monkeypatch.setattr(Guest, "take", with_the_timer_of_the_one_before)
    async with await Client.connect(sqlite_url) as client, worker(client):
        await (await client.start(fans_out, 3, id="many")).result()
    assert bank_there.balances["bob"] == len(guests) == 3


async def test_transactions_come_one_at_a_time_and_the_journal_between_them(
    sqlite_url: str, bank_there: Bank
) -> None:
    most_at_once.clear()
    async with await Client.connect(sqlite_url) as client, worker(client):
        await (await client.start(fans_out, 30, id="many")).result()
    assert bank_there.balances["bob"] == 30
    assert set(most_at_once) == {1}
