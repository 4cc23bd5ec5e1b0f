"""Changes for tests of the journal, and a connection whose failures are planned."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import psycopg
import pytest
from sqlalchemy import Connection

from outlast_runs.start import StartRun
from outlast_store.database.raw_connection import RawConnection
from outlast_store.journal import committer
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.environment import Environment
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import SignalReceived, WorkflowCancelRequested
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload


def start(
    environment: Environment,
    workflow_id: str,
    *,
    policy: DuplicatePolicy = DuplicatePolicy.ALLOW_DUPLICATE,
    owner_id: str | None = None,
    options: StartOptions | None = None,
    input: Any = None,
    task_queue: str = "default",
) -> StartRun:
    """A start of a workflow that has no code."""
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id=workflow_id,
        workflow_type="Tried",
        task_queue=task_queue,
        options=options or StartOptions(),
        memo=None,
        now=environment.clock.now(),
        owner_id=owner_id,
    )
    return StartRun(run, started_event(run, input=Payload.of(input), seed=1), policy)


class Poison(BaseChange):
    """Writes an event that is there already, which only the database notices."""

    def __init__(self, run_id: str) -> None:
        self.runs = (run_id,)

    def apply(self, batch: Batch) -> None:
        """Returns nothing: no batch with this is ever written."""
        batch.require_locks()
        batch._events.append((self.runs[0], 1, "WorkflowStarted", 0, "{}"))


class Append(BaseChange):
    """Ask a run to cancel, once; counts how often it was tried."""

    def __init__(self, run_id: str, *, fence: int | None = None) -> None:
        self.runs = (run_id,)
        self.fence = fence
        self.tried = 0

    def apply(self, batch: Batch) -> int:
        """Returns the seq."""
        self.tried += 1
        run = batch.run(self.runs[0])
        if run is None:
            raise RefusedError("unknown_run", "there is no such run")
        if self.fence is not None and run.fence != self.fence:
            raise RefusedError("fenced", "the run has another owner")
        if run.cancel_requested_at is not None:
            raise RefusedError("again", "the run was asked to cancel before")
        run.cancel_requested_at = batch.now
        return batch.append(run, WorkflowCancelRequested("tried"))


class AppendMany(BaseChange):
    """Append a signal."""

    def __init__(self, run_id: str) -> None:
        self.runs = (run_id,)
        self.tried = 0

    def apply(self, batch: Batch) -> int:
        """Returns the seq."""
        self.tried += 1
        run = batch.run(self.runs[0])
        assert run is not None
        return batch.append(run, SignalReceived("tried", Payload.of(None)))


class Refuse(BaseChange):
    """Always refused."""

    def apply(self, batch: Batch) -> None:
        raise RefusedError("tried", "as planned")


class Crash(BaseChange):
    """A programming error in a change."""

    def apply(self, batch: Batch) -> None:
        raise ZeroDivisionError("as planned")


class CrashAfterWriting(BaseChange):
    """A programming error after it has changed a row."""

    def __init__(self, run_id: str) -> None:
        self.runs = (run_id,)

    def apply(self, batch: Batch) -> None:
        run = batch.run(self.runs[0])
        assert run is not None
        batch.append(run, WorkflowCancelRequested("half"))
        raise ZeroDivisionError("as planned")


class Violate(BaseChange):
    """Insert a row that is there already."""

    def __init__(self, journal_id: str) -> None:
        self.journal_id = journal_id

    def apply(self, batch: Batch) -> None:
        batch.execute("INSERT INTO journals (journal_id, batch_no) VALUES (?, ?)", (self.journal_id, 0))
        batch.execute("INSERT INTO journals (journal_id, batch_no) VALUES (?, ?)", (self.journal_id, 0))


Fault = Callable[["FaultyConnection", str, tuple[Any, ...]], Any]


class FaultyConnection(RawConnection):
    """A connection that asks a plan before each statement."""

    plan: ClassVar[list[tuple[str, Fault]]] = []
    """``(beginning of the statement, what happens instead)``, each used once, in order."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.real = self.exec_driver_sql
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        """The statements of the transaction under way."""
        self.exec_driver_sql = self._execute = self.planned

    def planned(self, text: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement, or what is planned for it."""
        if text.startswith("BEGIN"):
            self.sent.clear()
        if self.plan and text.removeprefix("WITH changed AS (").startswith(self.plan[0][0]):
            return self.plan.pop(0)[1](self, text, values)
        self.sent.append((text, values))
        return self.real(text, values) if values else self.real(text)

    def settle(self) -> None:
        """Wait for the answers to every statement: a server that finds its client gone may stop half-way."""
        if self.pipelined:
            with self.together():  # inside another, its beginning and its end wait
                pass

    def lose(self) -> None:
        """Close the connection under everybody."""
        driver: Any = self.connection.connection.driver_connection
        driver.close()


def lost() -> Exception:
    """What PostgreSQL's driver says when the server is gone."""
    return psycopg.OperationalError("server closed the connection unexpectedly")


def lost_before(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
    """The connection is lost before the statement arrives."""
    raw.lose()
    raise lost()


def lost_after(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
    """The statement is done, but its answer is lost."""
    raw.real(text)
    raw.settle()
    raw.lose()
    raise lost()


def busy(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
    """A transient error: another process holds the lock, or was preferred in a deadlock."""
    if raw.qmark:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error
    raise psycopg.errors.DeadlockDetected("deadlock detected")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Fault]]]:
    """What is to go wrong, in order; at the end of the test all of it must have happened."""
    monkeypatch.setattr(committer, "RawConnection", FaultyConnection)
    plan = FaultyConnection.plan
    plan.clear()
    yield plan
    assert plan == []
