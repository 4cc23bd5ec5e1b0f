from __future__ import annotations

import os
import socket
import stat
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import (
    Database,
    PostgresSettings,
    database_clock_offset,
    is_disconnect,
    is_transient,
    translate,
)
from outlast_store.database.driver_errors import lasts
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import (
    ForkedConnectionError,
    OutlastError,
    SchemaMissingError,
    StoreError,
    StoreReadOnlyError,
    StoreUnreachableError,
    UnstorableValueError,
)


@pytest.fixture
def open_database() -> Iterator[Callable[..., Database]]:
    opened: list[Database] = []

    def open_(url: str, **options) -> Database:
        opened.append(Database(DatabaseUrl.parse(url), Environment(), **options))
        return opened[-1]

    yield open_
    for database in opened:
        database.dispose()


@contextmanager
def _caught(connection: Connection, statement: str, *parameters: object) -> Generator[DBAPIError]:
    with pytest.raises(DBAPIError) as caught:
        connection.exec_driver_sql(statement, parameters)
    yield caught.value


# --- connections -----------------------------------------------------------------------------------------------------


def test_a_transaction_is_what_the_writer_says(database: Database) -> None:
    writer = database.writer()
    begin = "BEGIN IMMEDIATE" if database.backend == "sqlite" else "BEGIN"
    insert = "INSERT INTO journals (journal_id, batch_no) VALUES ('j', 1)"
    count = "SELECT count(*) FROM journals"
    writer.exec_driver_sql(begin)
    writer.exec_driver_sql(insert)
    if not database.url.memory:
        with database.reader() as reader:
            assert reader.exec_driver_sql(count).scalar_one() == 0
    writer.exec_driver_sql("ROLLBACK")
    with database.reader() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 0
    writer.exec_driver_sql(begin)
    writer.exec_driver_sql(insert)
    writer.exec_driver_sql("COMMIT")
    writer.close()
    with database.reader() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 1


def test_a_reader_that_comes_and_goes_leaves_the_open_transaction_alone(database: Database) -> None:
    writer = database.writer()
    writer.exec_driver_sql("BEGIN IMMEDIATE" if database.backend == "sqlite" else "BEGIN")
    writer.exec_driver_sql("INSERT INTO journals (journal_id, batch_no) VALUES ('j', 1)")
    with database.reader() as reader:
        reader.exec_driver_sql("SELECT 1")
    writer.exec_driver_sql("COMMIT")
    assert writer.exec_driver_sql("SELECT count(*) FROM journals").scalar_one() == 1
    writer.close()


def test_a_closed_writer_takes_its_open_transaction_with_it(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    writer = database.writer()
    writer.exec_driver_sql("CREATE TABLE t (a)")
    writer.exec_driver_sql("BEGIN IMMEDIATE")
    writer.exec_driver_sql("INSERT INTO t VALUES (1)")
    writer.close()
    with database.reader() as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 0


def test_a_sqlite_file_is_durable_by_default(sqlite_url: str, open_database) -> None:
    writer = open_database(sqlite_url).writer()
    pragmas = {
        name: writer.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("journal_mode", "synchronous", "busy_timeout", "temp_store")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 5000, "temp_store": 2}
    writer.close()
    relaxed = open_database(sqlite_url, synchronous="NORMAL").writer()
    assert relaxed.exec_driver_sql("PRAGMA synchronous").scalar_one() == 1
    relaxed.close()


def test_a_reader_cannot_write_to_a_sqlite_file(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    database.writer().close()
    with database.reader() as reader, _caught(reader, "CREATE TABLE t (a)") as error:
        assert isinstance(translate(error, database.url), StoreReadOnlyError)


def test_a_reader_does_not_make_the_file(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    with pytest.raises(StoreUnreachableError), database.reader():
        pass
    assert database.url.path is not None
    assert not database.url.path.exists()


def test_a_path_of_odd_letters_is_just_a_path(tmp_path: Path, open_database) -> None:
    name = "a b%20&ü'.db"
    open_database(f"sqlite:///{tmp_path}/{name}").writer().close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


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


# --- forks -----------------------------------------------------------------------------------------------------------


def _in_child(check: Callable[[], None]) -> int:
    """The exit code of a forked child: zero if the check passed there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking beside threads
        pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        check()
        code = 0
    finally:
        os._exit(code)


def test_a_forked_child_is_refused_and_its_parent_goes_on(database: Database) -> None:
    writer = database.writer()

    def check() -> None:
        for use in (database.writer, lambda: writer.exec_driver_sql("SELECT 1")):
            with pytest.raises(ForkedConnectionError, match="spawn"):
                use()
        with pytest.raises(ForkedConnectionError), database.reader():
            pass
        database.dispose()

    assert _in_child(check) == 0
    assert writer.exec_driver_sql("SELECT 1").scalar_one() == 1
    writer.close()


def test_a_child_that_connects_for_itself_is_welcome(database_url: str, database: Database) -> None:
    def check() -> None:
        own = Database(DatabaseUrl.parse(database_url), Environment())
        connection = own.writer()
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        connection.close()
        own.dispose()

    assert _in_child(check) == 0


# --- what can be wrong with a file -----------------------------------------------------------------------------------


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users may enter; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@contextmanager
def _without_privileges() -> Generator[None]:
    """Permissions bind root only while it is someone else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_written_is_refused_at_once(shared_folder: Path, open_database) -> None:
    path = shared_folder / "orders.db"
    database = open_database(f"sqlite:///{path}")
    database.writer().close()
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    shared_folder.chmod(0o777)
    with _without_privileges(), pytest.raises(StoreReadOnlyError, match="write permission"):
        database.writer()


def test_a_file_in_a_folder_that_may_not_be_written_is_refused_at_once(
    shared_folder: Path, open_database
) -> None:
    path = shared_folder / "orders.db"
    database = open_database(f"sqlite:///{path}")
    database.writer().close()
    path.chmod(0o666)
    shared_folder.chmod(0o555)
    with _without_privileges(), pytest.raises(StoreError, match="folder"):
        database.writer()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path, open_database) -> None:
    with pytest.raises(StoreUnreachableError, match=f"no folder {tmp_path}/missing"):
        open_database(f"sqlite:///{tmp_path}/missing/orders.db").writer()


def test_a_folder_is_not_a_database(tmp_path: Path, open_database) -> None:
    with pytest.raises(StoreUnreachableError, match="cannot be opened"):
        open_database(f"sqlite:///{tmp_path}").writer()


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, open_database) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("id,amount\n" * 1000)
    with pytest.raises(StoreUnreachableError, match="not a SQLite database"):
        open_database(f"sqlite:///{path}").writer()
    assert path.read_text() == "id,amount\n" * 1000


# --- what can be wrong with a server ---------------------------------------------------------------------------------


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
    with _caught(writer, "SELECT 1") as error:
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


# --- what errors mean ------------------------------------------------------------------------------------------------


def test_a_locked_file_is_worth_another_try(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    holder, other = database.writer(), database.writer()
    other.exec_driver_sql("PRAGMA busy_timeout = 0")
    holder.exec_driver_sql("BEGIN IMMEDIATE")
    with _caught(other, "BEGIN IMMEDIATE") as error:
        assert is_transient(error)
        assert not is_disconnect(error)
        assert isinstance(translate(error, database.url), StoreUnreachableError)
    holder.exec_driver_sql("ROLLBACK")
    holder.close()
    other.close()


def test_a_writer_opens_while_another_process_writes(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    holder = database.writer()
    holder.exec_driver_sql("BEGIN IMMEDIATE")
    database.writer().close()
    holder.close()


def test_a_row_locked_too_long_is_worth_another_try(postgresql_url: str, open_database) -> None:
    database = open_database(postgresql_url, postgres=PostgresSettings(lock_timeout_s=0.02))
    holder, other = database.writer(), database.writer()
    holder.exec_driver_sql("INSERT INTO journals VALUES ('j', 1)")
    holder.exec_driver_sql("BEGIN")
    holder.exec_driver_sql("SELECT * FROM journals FOR UPDATE")
    with _caught(other, "SELECT * FROM journals FOR UPDATE") as error:
        assert is_transient(error)
        assert not is_disconnect(error)
    holder.close()
    other.close()


def test_a_serialization_failure_is_worth_another_try(postgresql_url: str, open_database) -> None:
    database = open_database(postgresql_url)
    one, other = database.writer(), database.writer()
    one.exec_driver_sql("INSERT INTO journals VALUES ('j', 1)")
    other.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.exec_driver_sql("SELECT * FROM journals")
    one.exec_driver_sql("UPDATE journals SET batch_no = 2")
    with _caught(other, "UPDATE journals SET batch_no = 3") as error:
        assert is_transient(error)
        assert not is_disconnect(error)
    one.close()
    other.close()


def test_a_session_that_the_server_ends_is_lost(postgresql_url: str, open_database) -> None:
    database = open_database(postgresql_url)
    victim, other = database.writer(), database.writer()
    pid = victim.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    other.exec_driver_sql("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    with _caught(victim, "SELECT 1") as error:
        assert is_disconnect(error)
        assert is_transient(error)
    victim.close()
    other.close()


def test_a_mistake_is_not_worth_another_try(database: Database) -> None:
    with database.reader() as reader, _caught(reader, "SELECT no_such_column FROM workers") as error:
        assert not is_transient(error)
        assert not is_disconnect(error)
        assert type(translate(error, database.url)) is StoreError


@pytest.mark.parametrize("value", ["secret\ud800", 2**63], ids=["surrogate", "integer"])
def test_a_value_that_no_database_holds_is_the_values_fault(database: Database, value: object) -> None:
    writer = database.writer()
    insert = "INSERT INTO journals (journal_id, batch_no) VALUES ({0}, {0})".format(
        "?" if database.backend == "sqlite" else "%s"
    )
    values = ("j", value) if isinstance(value, int) else (value, 1)
    with pytest.raises((DBAPIError, OverflowError, UnicodeEncodeError)) as caught:
        writer.exec_driver_sql(insert, values)
    error = translate(caught.value, database.url)
    assert isinstance(error, UnstorableValueError)
    assert lasts(error)
    assert not is_transient(caught.value)
    assert "secret" not in str(error)
    writer.close()


def test_text_that_postgresql_does_not_hold_is_the_values_fault(postgresql_url: str, open_database) -> None:
    writer = open_database(postgresql_url).writer()
    insert = "INSERT INTO journals (journal_id, batch_no) VALUES (%s, 1)"
    for value in (
        "secret\x00",
        "".join(map(str, range(100_000))),
    ):  # no NUL in text, and no key of that length
        with pytest.raises(DBAPIError) as caught:
            writer.exec_driver_sql(insert, (value,))
        error = translate(caught.value)
        assert isinstance(error, UnstorableValueError)
        assert "secret" not in str(error)
    writer.close()


def test_a_missing_table_is_a_missing_schema(database: Database) -> None:
    with database.reader() as reader, _caught(reader, "SELECT * FROM no_such_table") as error:
        assert isinstance(translate(error, database.url), SchemaMissingError)


def test_messages_show_no_payload(database: Database) -> None:
    writer = database.writer()
    insert = "INSERT INTO journals (journal_id, batch_no) VALUES ({0}, {0})".format(
        "?" if database.backend == "sqlite" else "%s"
    )
    writer.exec_driver_sql(insert, ("secret", 1))
    with _caught(writer, insert, "secret", 1) as error:
        assert "secret" not in str(translate(error, database.url))
    writer.close()


def test_an_error_of_outlast_is_left_as_it_is() -> None:
    error = OutlastError("x")
    assert translate(error) is error
    assert not is_transient(error)
    assert not is_disconnect(error)
