"""A SQLite file that is deleted, moved or replaced while it is open is not written any more."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast_store.database.open_file import OpenFile
from outlast_workflow.errors import StoreReplacedError


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_text("a backup")
    os.replace(other, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "orders.db"
    found.write_text("the file")
    return found


def test_a_file_that_stays_is_fine_however_often_it_is_opened_and_written(path: Path) -> None:
    file = OpenFile(path, "sqlite:///orders.db")
    file.check()
    for _ in range(2):
        file.opened()
        path.write_text("written to")
        file.check()
    assert file.replaced is None


@pytest.mark.parametrize(
    ("happens", "what"), [(delete, "deleted or moved"), (move, "deleted or moved"), (replace, "was replaced")]
)
def test_it_is_said_once_and_held_for_good(
    path: Path, happens: Callable[[Path], None], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[StoreReplacedError] = []
    file = OpenFile(path, "sqlite:///orders.db")
    file.on_replaced = told.append
    file.opened()
    happens(path)
    with caplog.at_level(logging.ERROR, "outlast.store"):
        for _ in range(2):
            with pytest.raises(StoreReplacedError, match=what):
                file.check()
    assert len(told) == len(caplog.records) == 1
    assert "restart this process" in str(told[0])


def test_a_file_that_comes_back_is_not_trusted_again(path: Path) -> None:
    file = OpenFile(path, "sqlite:///orders.db")
    file.opened()
    path.rename(path.with_suffix(".old"))
    with pytest.raises(StoreReplacedError):
        file.check()
    path.with_suffix(".old").rename(path)
    with pytest.raises(StoreReplacedError):
        file.check()


def test_a_file_that_is_taken_away_while_it_is_opened_is_lost(path: Path) -> None:
    file = OpenFile(path, "sqlite:///orders.db")
    path.unlink()
    for _ in range(2):
        with pytest.raises(StoreReplacedError, match="deleted or moved"):
            file.opened()
