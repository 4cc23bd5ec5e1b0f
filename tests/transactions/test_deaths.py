"""What is left of an attempt and its effect, whatever happens to it: both, or neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays
from tests.transactions.conftest import Working

from outlast_activities.attempts import RESCUED
from outlast_activities.changes import EndAttempt
from outlast_activities.context import RunningActivity
from outlast_activities.transactions import MOST_TRIES, Transactions
from outlast_store.database.database import Database
from outlast_store.database.guests import Guest
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.committer import Committer
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import WorkflowCancelledError, WorkflowFailedError

Before = Callable[[Callable[[RunningActivity], None]], None]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Does something once, after an attempt was claimed and before its transaction begins."""

    def do_once(what: Callable[[RunningActivity], None]) -> None:
        todo = [what]
        begin = Transactions._run

        async def run(self: Transactions, running: RunningActivity, way: Any) -> Any:
            if todo:
                todo.pop()(running)
            return await begin(self, running, way)

        monkeypatch.setattr(Transactions, "_run", run)

    return do_once


def paid_once(bank: Bank) -> None:
    """Five were paid: there, and in history."""
    assert bank.balances == {"ada": 95, "bob": 5}
    assert bank.entries == bank.events("ActivityCompleted") == 1


def not_paid(bank: Bank) -> None:
    """Nothing was paid: not there, nor in history."""
    assert bank.balances == {"ada": 100, "bob": 0}
    assert bank.entries == bank.events("ActivityCompleted") == 0


async def test_the_effect_is_there_with_its_completion(working: Working, bank: Bank, transfers: str) -> None:
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == 1


async def test_an_exception_leaves_nothing_and_is_retried(
    working: Working, bank: Bank, transfers: str
) -> None:
    def fail(_: Connection) -> None:
        raise ValueError("no")

    programs.meddle[:] = [fail, fail]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5

    paid_once(bank)
    assert len(programs.runs) == 3


async def test_a_zombie_leaves_nothing(
    working: Working, bank: Bank, transfers: str, url: str, before: Before
) -> None:
    def rescue(running: RunningActivity) -> None:
        row = running.task.row
        database = Database(DatabaseUrl.parse(url), Environment())
        committer = Committer(database, database.environment)
        ((outcome,), _) = committer.run([EndAttempt(row.run_id, row.activity_id, row.attempt, RESCUED)])
        assert outcome.error is None
        committer.close()
        database.dispose()

    before(rescue)
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    # An async one may hear of it before its code begins.
    assert len(programs.runs) in (1, 2)


async def test_a_deadline_that_has_passed_leaves_nothing(
    working: Working, bank: Bank, transfers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, real = [0], SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: real(self) + ahead[0])

    def be_late(_: Connection) -> None:
        ahead[0] = 31_000_000

    programs.meddle[:] = [be_late]
    async with working(lease_duration=600) as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == 2


async def test_a_cancelled_attempt_leaves_nothing(
    working: Working, bank: Bank, transfers: str, before: Before
) -> None:
    def cancel(running: RunningActivity) -> None:
        # As the owner of its run writes it in another process.
        with bank.engine.begin() as connection:
            connection.execute(text("UPDATE activity_executions SET cancel_requested = :yes"), {"yes": True})

    before(cancel)
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        with pytest.raises((WorkflowCancelledError, WorkflowFailedError)):
            await handle.result()
    not_paid(bank)
    assert bank.events("ActivityCancelled") == 1
    assert len(programs.runs) == 1


def lost_connection(guest: Guest) -> Exception:
    """What the driver raises when the server, or the network, is gone."""
    if guest.connection.dialect.name == "sqlite":
        return sqlite3.ProgrammingError("Cannot operate on a closed database.")
    return psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("applied", [True, False])
async def test_a_commit_that_is_not_heard_of_is_found_out(
    working: Working, bank: Bank, transfers: str, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    commit, lost = Guest.commit, [True]

    def lose(guest: Guest) -> None:
        if not lost:
            commit(guest)
            return
        lost.pop()
        if applied:
            commit(guest)
        else:
            guest._ours = True
            guest.connection.rollback()
        raise lost_connection(guest)

    monkeypatch.setattr(Guest, "commit", lose)
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == (1 if applied else 2)
    with bank.engine.connect() as connection:
        assert connection.execute(text("SELECT attempt FROM activity_executions")).scalar_one() == 1


def conflict(_: Connection) -> None:
    raise OperationalError("UPDATE", {}, psycopg.errors.SerializationFailure("could not serialize"))


async def test_a_conflict_repeats_the_code_and_is_not_charged(
    working: Working, bank: Bank, transfers: str
) -> None:
    programs.meddle[:] = [conflict] * (MOST_TRIES - 1)
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == MOST_TRIES
    with bank.engine.connect() as connection:
        assert connection.execute(text("SELECT attempt FROM activity_executions")).scalar_one() == 1


async def test_the_fifth_conflict_fails_the_attempt(working: Working, bank: Bank, transfers: str) -> None:
    programs.meddle[:] = [conflict] * MOST_TRIES
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == MOST_TRIES + 1
    with bank.engine.connect() as connection:
        assert connection.execute(text("SELECT attempt FROM activity_executions")).scalar_one() == 2
