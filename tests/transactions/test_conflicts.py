"""Conflicts between transactions of user code, as PostgreSQL finds them."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Connection, text
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, accounts

from outlast import Client, RetryPolicy, Worker, activity, workflow

pytestmark = pytest.mark.postgresql

meeting: list[threading.Barrier] = []
"""Where the first transactions wait for each other; those that run again do not."""


def _meet() -> None:
    if len(programs.runs) <= 2:
        meeting[0].wait(30)


def _add(connection: Connection, name: str) -> None:
    row = accounts.c.name == name
    connection.execute(accounts.update().where(row).values(balance=accounts.c.balance + 1))


@activity.defn(start_to_close_timeout=60, transactional=True, retry_policy=RetryPolicy(max_attempts=1))
def crosses(first: str, second: str) -> None:
    programs.runs.append(first)
    connection = activity.connection()
    _add(connection, first)
    _meet()
    _add(connection, second)


@activity.defn(
    start_to_close_timeout=60, transactional="serializable", retry_policy=RetryPolicy(max_attempts=1)
)
def adds_a_total(name: str) -> int:
    programs.runs.append(name)
    connection = activity.connection()
    assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "serializable"
    total = int(connection.execute(text("SELECT sum(balance) FROM accounts")).scalar_one())
    _meet()
    connection.execute(accounts.insert().values(name=name, balance=total))
    return total


@workflow.defn
async def cross(first: str, second: str) -> None:
    await crosses(first, second)


@workflow.defn
async def add_a_total(name: str) -> int:
    return await adds_a_total(name)


@pytest.fixture
def opened(postgresql_url: str) -> Bank:
    """A bank, and two who meet in it."""
    programs.runs.clear()
    meeting[:] = [threading.Barrier(2)]
    bank = Bank(postgresql_url)
    bank.open(ada=100, bob=0)
    return bank


def worker(client: Client) -> Worker:
    return Worker(client, workflows=[cross, add_a_total], activities=[crosses, adds_a_total])


def attempts(bank: Bank) -> list[int]:
    with bank.engine.connect() as connection:
        return list(connection.execute(text("SELECT attempt FROM activity_executions")).scalars())


async def test_a_deadlock_repeats_one_of_the_two(postgresql_url: str, opened: Bank) -> None:
    async with await Client.connect(postgresql_url) as client, worker(client):
        handles = [
            await client.start(cross, *names, id=names[0]) for names in (("ada", "bob"), ("bob", "ada"))
        ]
        for handle in handles:
            await handle.result()
    assert opened.balances == {"ada": 102, "bob": 2}
    assert len(programs.runs) == 3, "the one that PostgreSQL chose ran again"
    assert attempts(opened) == [1, 1]
    opened.close()


async def test_a_serialization_failure_repeats_one_of_the_two(postgresql_url: str, opened: Bank) -> None:
    async with await Client.connect(postgresql_url) as client, worker(client):
        handles = [await client.start(add_a_total, name, id=name) for name in ("cy", "di")]
        totals = sorted([await handle.result() for handle in handles])
    # One after the other: the second sees what the first has written.
    assert totals == [100, 200]
    assert len(programs.runs) >= 3
    assert attempts(opened) == [1, 1]
    opened.close()
