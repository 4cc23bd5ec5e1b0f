"""What the code of a transactional activity may not do with its transaction: a typed error says so, nothing is left."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, accounts, pays
from tests.transactions.conftest import Working

from outlast import Client, Worker, activity
from outlast.errors import (
    ActivityError,
    InvalidOptionError,
    NotInActivityError,
    TransactionEndedError,
    WorkflowFailedError,
)


def commits(connection: Connection) -> None:
    connection.commit()


def commits_unseen(connection: Connection) -> None:
    try:
        connection.commit()
    except TransactionEndedError:
        pass


def commits_by_text(connection: Connection) -> None:
    connection.execute(text("COMMIT"))


def commits_behind_a_comment(connection: Connection) -> None:
    connection.execute(text("/* app */ -- here\n COMMIT"))


def rolls_back(connection: Connection) -> None:
    connection.rollback()


def begins_again(connection: Connection) -> None:
    connection.rollback()
    connection.execute(accounts.update().values(balance=0))


def closes(connection: Connection) -> None:
    connection.close()


def session_rolls_back(connection: Connection) -> None:
    with Session(connection) as session:
        session.execute(accounts.update().values(balance=0))
        session.rollback()


def commits_through_the_driver(connection: Connection) -> None:
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection | psycopg.Connection):
        driver.rollback()
    else:
        dbapi: Any = connection.connection.dbapi_connection
        dbapi.rollback()


BREAKS: list[Callable[[Connection], None]] = [
    commits,
    commits_unseen,
    commits_by_text,
    commits_behind_a_comment,
    rolls_back,
    begins_again,
    closes,
    session_rolls_back,
    commits_through_the_driver,
]


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: breaks.__name__)
async def test_code_that_ends_its_transaction_fails_and_leaves_nothing(
    working: Working, bank: Bank, transfers: str, breaks: Callable[[Connection], None]
) -> None:
    programs.meddle[:] = [breaks]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
    failure = failed.value.__cause__
    assert isinstance(failure, ActivityError)
    assert isinstance(failure.__cause__, TransactionEndedError), failure.__cause__
    assert bank.balances == {"ada": 100, "bob": 0}
    assert bank.entries == bank.events("ActivityCompleted") == 0
    assert len(programs.runs) == 1, "it is not retried"


def commits_amid_a_text(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT 1; COMMIT; BEGIN")


async def test_a_commit_amid_a_text_of_statements_is_told(postgresql_url: str) -> None:
    bank = Bank(postgresql_url)
    bank.open(ada=100, bob=0)
    programs.runs.clear()
    programs.meddle[:] = [commits_amid_a_text]
    async with (
        await Client.connect(postgresql_url) as client,
        Worker(client, workflows=[pays], activities=[programs.transfer, programs.transfer_async]),
    ):
        handle = await client.start(pays, "transfer", 5, id="p")
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
    failure = failed.value.__cause__
    assert isinstance(failure, ActivityError)
    assert isinstance(failure.__cause__, TransactionEndedError), failure.__cause__
    assert bank.events("ActivityCompleted") == 0
    assert len(programs.runs) == 1, "it is not retried"
    bank.close()


def goes_on_after_an_error(connection: Connection) -> None:
    try:
        connection.execute(text("SELECT * FROM no_such_table"))
    except DBAPIError:
        pass


async def test_code_that_goes_on_in_an_aborted_transaction_is_told(
    working: Working, bank: Bank, transfers: str, kind: str
) -> None:
    programs.meddle[:] = [goes_on_after_an_error]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        # SQLite aborts no transaction because a statement failed.
        if kind == "sqlite-file":
            assert await handle.result() == 5
            return
        with pytest.raises(WorkflowFailedError, match="begin_nested") as failed:
            await handle.result()
    assert isinstance(failed.value.__cause__, ActivityError)
    assert bank.entries == bank.events("ActivityCompleted") == 0


def uses_a_savepoint(connection: Connection) -> None:
    first = connection.begin_nested()
    connection.execute(accounts.update().values(balance=0))
    with pytest.raises(DBAPIError):
        connection.execute(text("SELECT * FROM no_such_table"))
    first.rollback()
    with connection.begin_nested():
        connection.execute(text("SELECT 1"))
    savepoint = connection.begin_nested()
    connection.execute(accounts.update().values(balance=1))
    savepoint.rollback()


async def test_savepoints_are_the_codes_own(working: Working, bank: Bank, transfers: str) -> None:
    programs.meddle[:] = [uses_a_savepoint]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    assert bank.balances == {"ada": 95, "bob": 5}


async def test_the_error_of_a_session_block_is_the_codes_own(
    working: Working, bank: Bank, transfers: str
) -> None:
    def fail(connection: Connection) -> None:
        with Session(connection) as session, session.begin():
            session.execute(accounts.update().values(balance=0))
            raise LookupError("no such account")

    programs.meddle[:] = [fail]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    assert bank.balances == {"ada": 95, "bob": 5}
    with bank.engine.connect() as connection:
        failures = connection.execute(text("SELECT exception_class FROM workflow_failures")).scalars().all()
    assert failures == ["LookupError"]


# --- what is not transactional --------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=5, transactional=True)
def works() -> int:
    return 1


def test_outside_an_activity_there_is_no_connection() -> None:
    with pytest.raises(NotInActivityError):
        activity.connection()
    with pytest.raises(NotInActivityError):
        _ = activity.async_connection()


async def test_a_database_in_memory_is_refused_when_the_worker_is_made() -> None:
    async with await Client.connect("sqlite://") as client:
        with pytest.raises(InvalidOptionError, match="name a file"):
            Worker(client, activities=[works])


async def test_async_code_needs_postgresql(tmp_path: Path) -> None:
    @activity.defn(transactional=True)
    async def waits() -> None: ...

    async with await Client.connect(f"sqlite:///{tmp_path / 'o.db'}") as client:
        with pytest.raises(InvalidOptionError, match="PostgreSQL"):
            Worker(client, activities=[waits])


@pytest.mark.parametrize("wrong", ["yes", 1, None, "read committed"])
def test_other_values_of_the_option_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOptionError, match="serializable"):
        activity.defn(transactional=wrong)


def test_a_process_cannot_have_a_transaction() -> None:
    with pytest.raises(InvalidOptionError, match="process"):
        activity.defn(transactional=True, executor="process")(programs.plain_engine)
