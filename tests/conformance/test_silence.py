"""A server that has fallen silent: it does not answer, and nothing says that it is gone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.waiting import Wait
from sqlalchemy import Connection
from tests.conformance.changes import AppendMany, Fault, FaultyConnection, start

from outlast_store.database import postgresql
from outlast_store.database.database import Database, PostgresSettings
from outlast_store.database.driver_errors import is_disconnect, is_transient, translate
from outlast_store.database.postgresql import PatientConnection, wait_forever
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.journal import Journal
from outlast_store.reads.histories import read_history
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StoreUnreachableError

pytestmark = pytest.mark.postgresql

Stop = Callable[[Connection], int]


@pytest.fixture
def database(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """One that is waited for as long as everywhere, in small."""
    monkeypatch.setattr(postgresql, "_ANSWER_GRACE_S", 0.2)
    settings = PostgresSettings(statement_timeout_s=0.5, lock_timeout_s=0.2)
    database = Database(DatabaseUrl.parse(postgresql_url), Environment(), postgres=settings)
    yield database
    database.dispose()


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Stops the server's process behind a connection; it continues when the test has ended, or sooner."""
    stopped: list[int] = []

    def stop(connection: Connection) -> int:
        driver: Any = connection.connection.driver_connection
        stopped.append(driver.info.backend_pid)
        os.kill(stopped[-1], signal.SIGSTOP)
        return stopped[-1]

    yield stop
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_gone(database: Database, pid: int) -> bool:
    """Whether the session has ended, waited for a while."""
    with database.reader() as connection:
        ask = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        for _ in range(1000):
            if not connection.exec_driver_sql(ask, (pid,)).scalar():
                return True
            threading.Event().wait(0.01)
    return False


def events(database: Database, run_id: str) -> int:
    with database.reader() as connection:
        return len(list(read_history(connection, run_id)))


async def test_what_it_has_not_begun_is_done_on_another_connection_and_once(
    journal: Journal, database: Database, stop: Stop
) -> None:
    change = start(database.environment, "w")
    await journal.apply(change)
    run_id = change.run.run_id
    pid = stop(journal.committer.connect())
    assert await journal.apply(AppendMany(run_id)) == 2
    os.kill(pid, signal.SIGCONT)  # all of the old transaction stands in its buffer
    assert is_gone(database, pid)
    assert events(database, run_id) == 2


async def test_a_commit_that_it_has_not_confirmed_is_waited_for(
    journal: Journal, database: Database, stop: Stop, faults: list[tuple[str, Fault]]
) -> None:
    change = start(database.environment, "w")
    await journal.apply(change)
    run_id = change.run.run_id
    journal.committer._drop_connection()  # the next has a connection with faults

    def in_the_middle(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
        raw.settle()
        pid = stop(raw.connection)
        threading.Timer(1.2, os.kill, (pid, signal.SIGCONT)).start()
        return raw.real(text)

    faults.append(("COMMIT", in_the_middle))
    append = AppendMany(run_id)
    assert await journal.apply(append) == 2
    assert append.tried == 1
    assert events(database, run_id) == 2


def test_a_reader_gets_another_connection(database: Database, stop: Stop) -> None:
    with database.reader() as connection:
        pid = stop(connection)
    with database.reader() as connection:
        assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar() != pid


def test_it_is_a_lost_connection_and_says_for_how_long_it_was_waited(database: Database, stop: Stop) -> None:
    connection = database.writer()
    stop(connection)
    with pytest.raises(Exception, match=r"has not answered for 0\.7 s") as caught:
        connection.exec_driver_sql("SELECT 1")
    assert is_disconnect(caught.value)
    assert is_transient(caught.value)
    problem = translate(caught.value, database.url)
    assert isinstance(problem, StoreUnreachableError)
    assert "has not answered" in str(problem)
    connection.close()


def test_a_listener_that_hears_nothing_for_longer_than_an_answer_may_take_keeps_its_connection(
    database: Database,
) -> None:
    connection = database.writer()
    driver: Any = connection.connection.driver_connection
    driver.execute("LISTEN nobody")
    for timeout_s in (0.3, 0.3, 0.3, 1.0):
        assert list(driver.notifies(timeout=timeout_s, stop_after=1)) == []
    assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    connection.close()


def test_many_polls_that_took_no_time_are_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert polled(monkeypatch, took_s=0.0, polls=1000) == "answered"


def test_polls_that_took_their_time_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert polled(monkeypatch, took_s=0.1, polls=140) == "answered"
    assert polled(monkeypatch, took_s=0.1, polls=151) == "silence"


def test_a_poll_in_which_this_process_was_stopped_counts_little(monkeypatch: pytest.MonkeyPatch) -> None:
    assert polled(monkeypatch, took_s=3600.0, polls=40) == "answered"


def polled(monkeypatch: pytest.MonkeyPatch, *, took_s: float, polls: int) -> str:
    """What becomes of a wait whose polls found nothing, and took so long by the clock, before the answer came."""
    now = 0.0

    def driver() -> Generator[Wait, Any, str]:
        while not (yield Wait.R):
            pass
        return "answered"

    monkeypatch.setattr(postgresql, "_CLOCK", SimpleNamespace(monotonic=lambda: now))
    waiting: Any = postgresql._answered(driver(), 15.0)
    next(waiting)
    try:
        for _ in range(polls):
            now += took_s
            waiting.send(0)
        waiting.send(1)
    except postgresql.Silence:
        return "silence"
    except StopIteration as end:
        return str(end.value)
    return "waits on"


@pytest.mark.parametrize(
    ("options", "seconds"),
    [("", 15.0), ("&options=-cstatement_timeout%3D60s", 63.0), ("&options=-cstatement_timeout%3D0", None)],
)
def test_an_answer_may_take_as_long_as_the_server_gives_a_statement_and_three_seconds(
    postgresql_url: str, options: str, seconds: float | None
) -> None:
    database = Database(DatabaseUrl.parse(f"{postgresql_url}{options}"), Environment())
    connection = database.writer()
    driver = connection.connection.driver_connection
    assert isinstance(driver, PatientConnection)
    assert driver.answer_timeout_s == seconds
    wait_forever(connection)
    assert driver.answer_timeout_s is None
    connection.close()
    database.dispose()
