"""Several reads that see one state of the database."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from outlast_store.database.database import Database
from outlast_store.database.snapshots import snapshot


def _count(connection: Connection) -> int:
    found: int = connection.exec_driver_sql("SELECT count(*) FROM journals").scalar_one()
    return found


def _insert(connection: Connection, number: int) -> None:
    connection.exec_driver_sql(f"INSERT INTO journals (journal_id, batch_no) VALUES ('j{number}', {number})")


def test_reads_in_a_snapshot_agree_whatever_is_written_meanwhile(shared_database: Database) -> None:
    writer = shared_database.writer()
    with shared_database.reader() as reader:
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
