"""Connecting to PostgreSQL: sessions, prepared statements, the clock, and servers that do not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.store.refused import refused

from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import (
    Database,
    PostgresSettings,
    database_clock_offset,
    is_disconnect,
    is_transient,
    translate,
)
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import (
    StoreUnreachableError,
)


def test_a_postgresql_session_ends_what_hangs(postgresql_url: str, open_database) -> None:
    settings = PostgresSettings(lock_timeout_s=0.5, statement_timeout_s=2, idle_in_transaction_timeout_s=0)
    writer = open_database(postgresql_url, postgres=settings).writer()
    shown = {
        name: writer.exec_driver_sql(f"SHOW {name}").scalar_one()
        for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    }
    assert shown == {
        "lock_timeout": "500ms",
        "statement_timeout": "2s",
        "idle_in_transaction_session_timeout": "0",
    }
    assert writer.exec_driver_sql("SHOW application_name").scalar_one() == "outlast"
    writer.close()


def test_what_the_url_says_wins(postgresql_url: str, open_database) -> None:
    options = "application_name=shop&options=-clock_timeout%3D7s"
    writer = open_database(f"{postgresql_url}&{options}").writer()
    assert writer.exec_driver_sql("SHOW application_name").scalar_one() == "shop"
    assert writer.exec_driver_sql("SHOW lock_timeout").scalar_one() == "7s"
    writer.close()


def test_a_statement_is_prepared_once_whatever_its_values(postgresql_url: str, open_database) -> None:
    writer = open_database(postgresql_url).writer()
    insert = "INSERT INTO timers (run_id, timer_id, fire_at) VALUES (%s, %s, %s)"
    update = "UPDATE workflow_runs SET wake_at = %s, owner_id = %s WHERE run_id = %s"
    for power in range(8):
        writer.exec_driver_sql(insert, (f"run-{power}", power, 10 ** (2 * power)))
        writer.exec_driver_sql(update, (None if power % 2 else power, None if power % 3 else "w", "r"))
    prepared = writer.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
    assert prepared == 2
    writer.close()


def test_the_offset_is_what_the_servers_clock_is_ahead_of_the_monotonic_one(
    postgresql_url: str, open_database
) -> None:
    writer = open_database(postgresql_url).writer()
    clock = SystemClock()
    clock.follow(database_clock_offset(writer, clock))
    assert abs(clock.now() - SystemClock().now()) < 1_000_000  # both are of this machine
    writer.close()


@pytest.fixture(scope="module")
def own_server(postgres_server: TemporaryPostgres) -> Iterator[TemporaryPostgres]:
    """A server that these tests may kill, with a user who needs a password."""
    with TemporaryPostgres() as server:
        writer = Database(DatabaseUrl.parse(server.url()), Environment()).writer()
        writer.exec_driver_sql("CREATE ROLE ann LOGIN PASSWORD 'hunter2'")
        writer.close()
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("local all ann scram-sha-256\n" + rules.read_text())
        server.restart()
        yield server


def test_a_port_where_no_server_listens(open_database) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnreachableError, match="cannot be reached") as refusal:
            open_database(f"postgresql://ann:hunter2@127.0.0.1:{port}/orders").writer()
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is not None
    assert is_transient(refusal.value.__cause__)


def test_a_wrong_password(own_server: TemporaryPostgres, open_database) -> None:
    open_database(own_server.url(user="ann", password="hunter2")).writer().close()
    with pytest.raises(StoreUnreachableError, match="check the user name and the password") as refusal:
        open_database(own_server.url(user="ann", password="hunter3")).writer()
    assert "hunter3" not in str(refusal.value)


def test_a_database_that_does_not_exist(own_server: TemporaryPostgres, open_database) -> None:
    with pytest.raises(StoreUnreachableError, match="create the database first"):
        open_database(own_server.url("nowhere")).writer()


def test_a_server_that_is_killed_and_comes_back(own_server: TemporaryPostgres, open_database) -> None:
    database = open_database(own_server.url())
    writer = database.writer()
    with database.reader() as reader:
        reader.exec_driver_sql("SELECT 1")
    own_server.kill()
    with refused(writer, "SELECT 1") as error:
        assert is_disconnect(error)
        assert is_transient(error)
        assert isinstance(translate(error, database.url), StoreUnreachableError)
    with pytest.raises(StoreUnreachableError):
        database.writer()
    own_server.restart()
    again = database.writer()
    assert again.exec_driver_sql("SELECT 1").scalar_one() == 1
    again.close()
    with database.reader() as reader:
        assert reader.exec_driver_sql("SELECT 1").scalar_one() == 1
    writer.close()
