"""What errors mean: worth another try, a lost connection, or the fault of the value."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError
from tests.store.refused import refused

from outlast_store.database.database import (
    Database,
    PostgresSettings,
    is_disconnect,
    is_transient,
    translate,
)
from outlast_store.database.driver_errors import lasts
from outlast_workflow.errors import (
    OutlastError,
    SchemaMissingError,
    StoreError,
    StoreUnreachableError,
    UnstorableValueError,
)


def test_a_locked_file_is_worth_another_try(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    holder, other = database.writer(), database.writer()
    other.exec_driver_sql("PRAGMA busy_timeout = 0")
    holder.exec_driver_sql("BEGIN IMMEDIATE")
    with refused(other, "BEGIN IMMEDIATE") as error:
        assert is_transient(error)
        assert not is_disconnect(error)
        assert isinstance(translate(error, database.url), StoreUnreachableError)
    holder.exec_driver_sql("ROLLBACK")
    holder.close()
    other.close()


def test_a_row_locked_too_long_is_worth_another_try(postgresql_url: str, open_database) -> None:
    database = open_database(postgresql_url, postgres=PostgresSettings(lock_timeout_s=0.02))
    holder, other = database.writer(), database.writer()
    holder.exec_driver_sql("INSERT INTO journals VALUES ('j', 1)")
    holder.exec_driver_sql("BEGIN")
    holder.exec_driver_sql("SELECT * FROM journals FOR UPDATE")
    with refused(other, "SELECT * FROM journals FOR UPDATE") as error:
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
    with refused(other, "UPDATE journals SET batch_no = 3") as error:
        assert is_transient(error)
        assert not is_disconnect(error)
    one.close()
    other.close()


def test_a_session_that_the_server_ends_is_lost(postgresql_url: str, open_database) -> None:
    database = open_database(postgresql_url)
    victim, other = database.writer(), database.writer()
    pid = victim.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    other.exec_driver_sql("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    with refused(victim, "SELECT 1") as error:
        assert is_disconnect(error)
        assert is_transient(error)
    victim.close()
    other.close()


def test_a_mistake_is_not_worth_another_try(database: Database) -> None:
    with database.reader() as reader, refused(reader, "SELECT no_such_column FROM workers") as error:
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
    with database.reader() as reader, refused(reader, "SELECT * FROM no_such_table") as error:
        assert isinstance(translate(error, database.url), SchemaMissingError)
        assert str(translate(error)).endswith("run `outlast migrate --url URL`"), (
            "the database is not known here"
        )


def test_messages_show_no_payload(database: Database) -> None:
    writer = database.writer()
    insert = "INSERT INTO journals (journal_id, batch_no) VALUES ({0}, {0})".format(
        "?" if database.backend == "sqlite" else "%s"
    )
    writer.exec_driver_sql(insert, ("secret", 1))
    with refused(writer, insert, "secret", 1) as error:
        assert "secret" not in str(translate(error, database.url))
    writer.close()


def test_an_error_of_outlast_is_left_as_it_is() -> None:
    error = OutlastError("x")
    assert translate(error) is error
    assert not is_transient(error)
    assert not is_disconnect(error)
