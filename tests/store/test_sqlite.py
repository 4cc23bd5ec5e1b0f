"""Opening SQLite: durability, readers, and files that cannot be opened."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.store.refused import refused

from outlast_store.database.database import (
    translate,
)
from outlast_workflow.errors import (
    StoreError,
    StoreReadOnlyError,
    StoreUnreachableError,
)


def test_a_sqlite_file_is_durable_by_default(sqlite_url: str, open_database) -> None:
    writer = open_database(sqlite_url).writer()
    pragmas = {
        name: writer.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("journal_mode", "synchronous", "busy_timeout", "temp_store")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 10000, "temp_store": 2}
    writer.close()
    relaxed = open_database(sqlite_url, synchronous="NORMAL").writer()
    assert relaxed.exec_driver_sql("PRAGMA synchronous").scalar_one() == 1
    relaxed.close()


def test_a_reader_cannot_write_to_a_sqlite_file(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    database.writer().close()
    with database.reader() as reader, refused(reader, "CREATE TABLE t (a)") as error:
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


def test_a_writer_opens_while_another_process_writes(sqlite_url: str, open_database) -> None:
    database = open_database(sqlite_url)
    holder = database.writer()
    holder.exec_driver_sql("BEGIN IMMEDIATE")
    database.writer().close()
    holder.close()


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
