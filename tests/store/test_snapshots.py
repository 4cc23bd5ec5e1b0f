"""Several reads that see one state of the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from holdfast.schema import ensure_schema
from holdfast_store.database import Database
from holdfast_store.snapshots import snapshot
from holdfast_store.urls import DatabaseUrl
from holdfast_workflow.environment import Environment


@pytest.fixture(params=["sqlite-file", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def shared(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database that more than one connection can see."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite-file" else "postgresql_url")
    database = Database(DatabaseUrl.parse(url), Environment())
    ensure_schema(database)
    yield database
    database.dispose()


def _count(connection: Connection) -> int:
    found: int = connection.exec_driver_sql("SELECT count(*) FROM journals").scalar_one()
    return found


def _insert(connection: Connection, number: int) -> None:
    connection.exec_driver_sql(f"INSERT INTO journals (journal_id, batch_no) VALUES ('j{number}', {number})")


def test_reads_in_a_snapshot_agree_whatever_is_written_meanwhile(shared: Database) -> None:
    writer = shared.writer()
    with shared.reader() as reader:
        with snapshot(reader):
            assert _count(reader) == 0
            _insert(writer, 1)
            assert _count(reader) == 0
        assert _count(reader) == 1
    writer.close()


def test_a_snapshot_ends_with_its_block_however_that_ends(database: Database) -> None:
    with database.reader() as reader:
        with pytest.raises(ZeroDivisionError), snapshot(reader):
            _ = 1 / 0
        with snapshot(reader):
            assert _count(reader) == 0
    writer = database.writer()
    _insert(writer, 1)
    with database.reader() as reader, snapshot(reader):
        assert _count(reader) == 1
    writer.close()
