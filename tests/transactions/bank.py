"""A bank whose accounts are in the engine's own database: what the tests of transactional activities move money in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, String, Table, create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from outlast import RetryPolicy, activity, workflow
from outlast_store.database.urls import DatabaseUrl

metadata = MetaData()
accounts = Table(
    "accounts",
    metadata,
    Column("name", String, primary_key=True),
    Column("balance", BigInteger, nullable=False),
)
entries = Table(
    "entries",
    metadata,
    # No key forbids a second one: the engine has to.
    Column("entry", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
)

runs: list[str] = []
"""One element for each time that an activity's code ran."""
meddle: list[Callable[[Connection], Any]] = []
"""What the code of the next times does after it has written, each once."""


def plain_engine(url: str) -> Engine:
    """An engine of the user's own on the same database."""
    parsed = DatabaseUrl.parse(url)
    if parsed.backend == "postgresql":
        return create_engine(parsed.sqlalchemy_url)
    return create_engine(f"sqlite:///{parsed.path}", connect_args={"timeout": 30})


class Bank:
    """The accounts, seen from outside."""

    def __init__(self, url: str) -> None:
        self.engine = plain_engine(url)

    def open(self, **balances: int) -> None:
        """Make the tables and the accounts."""
        metadata.create_all(self.engine)
        with self.engine.begin() as connection:
            rows = [{"name": name, "balance": balance} for name, balance in balances.items()]
            connection.execute(accounts.insert(), rows)

    @property
    def balances(self) -> dict[str, int]:
        """What is in the accounts."""
        with self.engine.connect() as connection:
            return {row.name: row.balance for row in connection.execute(select(accounts))}

    @property
    def entries(self) -> int:
        """How many transfers were booked."""
        with self.engine.connect() as connection:
            return len(connection.execute(select(entries)).all())

    def events(self, kind: str) -> int:
        """How many events of a type are in all histories."""
        with self.engine.connect() as connection:
            text = f"SELECT count(*) FROM history_events WHERE type = '{kind}'"
            return int(connection.exec_driver_sql(text).scalar_one())

    def close(self) -> None:
        self.engine.dispose()


def _book(connection: Connection, source: str, target: str, amount: int) -> None:
    info = activity.info()
    runs.append(info.run_id)
    book(connection, f"{info.run_id}/{info.activity_id}", source, target, amount)
    if meddle:
        meddle.pop(0)(connection)


def book(connection: Connection, entry: str, source: str, target: str, amount: int) -> None:
    """Move money, and note it."""
    for name, change in ((source, -amount), (target, amount)):
        row = accounts.c.name == name
        connection.execute(accounts.update().where(row).values(balance=accounts.c.balance + change))
    connection.execute(entries.insert().values(entry=entry, amount=amount))


@activity.defn(start_to_close_timeout=30, transactional=True, retry_policy=RetryPolicy(initial_interval=0.01))
def transfer(source: str, target: str, amount: int) -> int:
    with Session(activity.connection()) as session:
        _book(session.connection(), source, target, amount)
        session.commit()
    return amount


@activity.defn(start_to_close_timeout=30, transactional=True, retry_policy=RetryPolicy(initial_interval=0.01))
async def transfer_async(source: str, target: str, amount: int) -> int:
    async with AsyncSession(activity.async_connection()) as session:
        await (await session.connection()).run_sync(_book, source, target, amount)
        await session.commit()
    return amount


@workflow.defn
async def pays(kind: str, amount: int) -> int:
    return await workflow.execute_activity(
        kind, "ada", "bob", amount, start_to_close_timeout=30, result_type=int
    )


@workflow.defn
async def pays_and_waits(kind: str, amount: int) -> int:
    """Is open until somebody says that it may end, so that only an attempt's own guard can refuse its end."""
    paid = await workflow.execute_activity(
        kind, "ada", "bob", amount, start_to_close_timeout=30, result_type=int
    )
    await workflow.receive("end")
    return paid


@workflow.defn
async def says_hello() -> str:
    return "hello"
