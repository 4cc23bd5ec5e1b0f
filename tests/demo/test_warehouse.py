from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.demo.csv_file import Order
from outlast.demo.warehouse import Totals, Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(str(tmp_path / "warehouse.db"), create=True) as opened:
        yield opened


def order(row: int, cents: int = 100, currency: str = "EUR") -> Order:
    return Order(row, f"o-{row}", "Ada", "a@example.org", "DE", currency, cents, "2025-01-01", "")


def test_writing_twice_leaves_what_writing_once_does_and_shows(warehouse: Warehouse) -> None:
    for _ in range(2):
        execution = warehouse.begin(1, attempt=1, worker_pid=7, from_row=1)
        warehouse.write(1, execution, [order(1), order(2, 50, "USD")], [(3, "wrong")], 3)
    assert warehouse.totals() == Totals(2, {"EUR": 100, "USD": 50}, 1)
    assert warehouse.totals(2, 3) == Totals(1, {"USD": 50}, 1)
    assert warehouse.rejected() == {3: "wrong"}
    assert warehouse.written_again() == [1, 2]


def test_the_ledger_counts_executions(warehouse: Warehouse) -> None:
    first = warehouse.begin(4, attempt=1, worker_pid=7, from_row=31)
    warehouse.write(4, first, [order(31)], [], 31)
    second = warehouse.begin(4, attempt=1, worker_pid=8, from_row=32)
    warehouse.finish(4, second)
    dead, alive = warehouse.ledger()
    assert (dead.execution, dead.worker_pid, dead.rows, dead.reached_row) == (1, 7, 1, 31)
    assert dead.finished_at is None
    assert (alive.execution, alive.worker_pid, alive.from_row, alive.reached_row) == (2, 8, 32, 31)
    assert alive.finished_at is not None
    assert dead.begun_at <= alive.begun_at <= alive.finished_at


def test_a_slice_is_written_whole_or_not_at_all(warehouse: Warehouse) -> None:
    execution = warehouse.begin(1, attempt=1, worker_pid=7, from_row=1)
    broken = order(2)
    object.__setattr__(broken, "order_id", None)
    with pytest.raises(Exception, match="NOT NULL"):
        warehouse.write(1, execution, [order(1), broken], [], 2)
    assert warehouse.totals() == Totals(0, {}, 0)
    assert warehouse.ledger()[0].rows == 0
