"""What is left of an attempt and its effect, whatever happens to it: both, or neither."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays, pays_and_waits
from tests.transactions.conftest import Working

from outlast import StartOptions
from outlast_activities.attempts import RESCUED, claim, close_attempt, complete
from outlast_activities.changes import AttemptChange
from outlast_activities.context import RunningActivity
from outlast_activities.runner import ActivityRunner
from outlast_activities.transactions import MOST_TRIES, Transactions
from outlast_store.database.database import Database
from outlast_store.database.guests import Guest
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.batch import Batch
from outlast_store.journal.committer import Committer
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import WorkflowCancelledError, WorkflowFailedError, WorkflowTimeoutError
from outlast_workflow.history.events import ActivityCompleted
from outlast_workflow.primitives.payloads import Payload

Before = Callable[[Callable[[RunningActivity], None]], threading.Event]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Does something once, after an attempt was claimed and before its transaction begins; tells when that is over."""

    def do_once(what: Callable[[RunningActivity], None]) -> threading.Event:
        todo, over = [what], threading.Event()
        begin = Transactions._run

        async def run(self: Transactions, running: RunningActivity, way: Any) -> Any:
            if not todo:
                return await begin(self, running, way)
            todo.pop()(running)
            try:
                return await begin(self, running, way)
            finally:
                over.set()

        monkeypatch.setattr(Transactions, "_run", run)
        return over

    return do_once


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no attempt hear that it is to stop: only what is checked at its end can stop it."""
    monkeypatch.setattr(ActivityRunner, "_stop", lambda *_: None)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By how much the clock is ahead, in microseconds."""
    by, real = [0], SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: real(self) + by[0])
    return by


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


class TakeOver(AttemptChange):
    """Another worker's rescue, claim and completion, as one change."""

    needs_locks = True

    def apply(self, batch: Batch) -> None:
        run, row = self.held(batch)
        close_attempt(batch, run, row, RESCUED)
        claim(row, "another", batch.now)
        complete(batch, run, row, ActivityCompleted(row.activity_id, Payload.of(5), row.charged_attempt))
        run.wake(batch.now)


async def test_a_zombie_leaves_nothing(
    working: Working, bank: Bank, transfers: str, url: str, before: Before, deaf: None
) -> None:
    def take_over(running: RunningActivity) -> None:
        row = running.task.row
        with bank.engine.begin() as connection:
            programs.book(connection, f"{row.run_id}/{row.activity_id}", "ada", "bob", 5)
        database = Database(DatabaseUrl.parse(url), Environment())
        committer = Committer(database, database.environment)
        ((outcome,), _) = committer.run([TakeOver(row.run_id, row.activity_id, row.attempt)])
        assert outcome.error is None
        committer.close()
        database.dispose()

    over = before(take_over)
    async with working(workflows=[pays_and_waits]) as client:
        handle = await client.start(pays_and_waits, transfers, 5, id="p")
        assert await asyncio.to_thread(over.wait, 30)
        await handle.signal("end")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == 1, "all of its code ran"


async def test_a_deadline_that_has_passed_leaves_nothing(
    working: Working, bank: Bank, transfers: str, ahead: list[int], deaf: None
) -> None:
    def be_late(_: Connection) -> None:
        ahead[0] = 31_000_000

    programs.meddle[:] = [be_late]
    # Without a watchdog nobody else ends the attempt.
    async with working(lease_duration=600, watchdog=False) as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
    assert len(programs.runs) == 2


async def test_a_deadline_of_the_run_that_has_passed_leaves_nothing(
    working: Working, bank: Bank, transfers: str, ahead: list[int], deaf: None
) -> None:
    def be_late(_: Connection) -> None:
        ahead[0] = 21_000_000

    programs.meddle[:] = [be_late]
    async with working(lease_duration=600, watchdog=False) as client:
        handle = await client.start(pays, transfers, 5, id="p", options=StartOptions(execution_timeout=20))
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
    not_paid(bank)
    assert len(programs.runs) == 1


async def test_a_cancelled_attempt_leaves_nothing(
    working: Working, bank: Bank, transfers: str, before: Before, deaf: None
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


async def test_the_engines_rows_are_free_while_the_code_runs(
    working: Working, bank: Bank, transfers: str, kind: str
) -> None:
    def look(_: Connection) -> None:
        # SQLite has one writer, whatever is locked first.
        if kind != "sqlite-file":
            with bank.engine.begin() as connection:
                for table in ("workflow_runs", "activity_executions"):
                    connection.execute(text(f"SELECT 1 FROM {table} FOR UPDATE NOWAIT")).one()

    programs.meddle[:] = [look]
    async with working() as client:
        handle = await client.start(pays, transfers, 5, id="p")
        assert await handle.result() == 5
    paid_once(bank)
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
