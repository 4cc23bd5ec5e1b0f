from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from outlast.demo.csv_file import InvalidRow, Record, order_of, records, sort_out
from outlast.demo.importing import ImportJob, validate_csv
from outlast.demo.orders import HEADER, OrdersFile, write_orders

GOOD = [
    "o-1",
    "Neil, Ada",
    "a@example.org",
    "DE",
    "EUR",
    "3",
    "4.50",
    "13.50",
    "2025-01-01T00:00:00+00:00",
    "",
]


@pytest.fixture
def orders(tmp_path: Path) -> OrdersFile:
    return write_orders(tmp_path / "orders.csv", 1_000)


def test_the_same_number_of_rows_is_the_same_file(orders: OrdersFile, tmp_path: Path) -> None:
    again = write_orders(tmp_path / "again.csv", 1_000)
    assert again.sha256 == orders.sha256
    assert write_orders(tmp_path / "more.csv", 1_001).sha256 != orders.sha256


def test_what_is_known_of_the_file_is_what_is_in_it(orders: OrdersFile) -> None:
    header, *rest = records(orders.path)
    assert tuple(header.fields) == HEADER
    good, rejected = sort_out(rest)
    cents: dict[str, int] = {}
    for order in good:
        cents[order.currency] = cents.get(order.currency, 0) + order.cents
    assert (len(rest), len(good), dict(rejected)) == (orders.rows, orders.valid, orders.invalid)
    assert cents == orders.cents


def test_reading_may_begin_at_any_record_though_fields_hold_line_breaks(orders: OrdersFile) -> None:
    whole = list(records(orders.path))
    assert any("\n" in field for record in whole for field in record.fields)
    for before, first in pairwise(whole[:40]):
        assert next(records(orders.path, offset=before.end, number=first.number)) == first


def with_field(column: str, value: str) -> list[str]:
    fields = list(GOOD)
    fields[HEADER.index(column)] = value
    return fields


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (GOOD[:4], "the row has 4 fields, not 10"),
        ([*GOOD, ""], "the row has 11 fields, not 10"),
        (with_field("customer", ""), "customer is empty"),
        (with_field("email", "example.org"), "email has no @"),
        (with_field("currency", "XXX"), "currency is unknown"),
        (with_field("amount", "13,50"), "amount is not a number"),
        (with_field("amount", "-13.50"), "amount is not a number"),
        (with_field("amount", "13.51"), "amount is not quantity times unit price"),
        (with_field("quantity", "many"), "amount is not quantity times unit price"),
        (with_field("unit_price", ""), "unit_price is not a number"),
        (with_field("ordered_at", "2025-02-30T00:00:00+00:00"), "ordered_at is not a time"),
    ],
)
def test_a_row_that_is_no_order_says_why(fields: list[str], reason: str) -> None:
    with pytest.raises(InvalidRow) as caught:
        order_of(Record(1, fields, 0))
    assert str(caught.value) == reason


def test_a_good_row_is_an_order() -> None:
    order = order_of(Record(7, GOOD, 0))
    assert (order.row, order.customer, order.currency, order.cents) == (7, "Neil, Ada", "EUR", 1350)


@pytest.mark.parametrize("chunk_rows", [1, 7, 250, 999, 1_000])
async def test_the_plan_covers_each_row_once(
    orders: OrdersFile, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.activity.heartbeat", lambda *details: None)
    plan = await validate_csv(ImportJob(orders.path, "", chunk_rows, 1, 1, 0, 0))
    assert (plan.rows, plan.sha256) == (orders.rows, orders.sha256)
    covered = [row for chunk in plan.chunks for row in range(chunk.first_row, chunk.last_row + 1)]
    assert covered == list(range(1, orders.rows + 1))
    starts = {record.number + 1: record.end for record in records(orders.path)}
    assert all(chunk.offset == starts[chunk.first_row] for chunk in plan.chunks)
