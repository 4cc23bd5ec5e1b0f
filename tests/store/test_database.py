"""Connections: what a transaction is, and who may write."""

from __future__ import annotations

from outlast_store.database.database import (
    Database,
)


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
