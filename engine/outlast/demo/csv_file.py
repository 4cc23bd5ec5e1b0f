"""Reading the CSV file: records with their positions, and the orders in them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from outlast.demo.orders import HEADER

CURRENCIES = frozenset({"CHF", "EUR", "GBP", "SEK", "USD"})


class InvalidRow(ValueError):
    """A row that is not a valid order; the message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its number (the header is 0), its fields, and the byte of the file at which the next one starts."""

    number: int
    fields: list[str]
    end: int


@dataclass(frozen=True, slots=True)
class Order:
    """An order as the warehouse stores it."""

    row: int
    order_id: str
    customer: str
    email: str
    country: str
    currency: str
    cents: int
    ordered_at: str
    note: str


def records(path: str, *, offset: int = 0, number: int = 0) -> Iterator[Record]:
    """Yield the records of the file.

    Args:
        path: The file.
        offset: The byte at which to start.
        number: The number of the record at that byte.
    """
    with Path(path).open("rb") as file:
        file.seek(offset)
        end = offset

        def lines() -> Iterator[str]:
            nonlocal end
            for line in file:
                end += len(line)
                yield line.decode("utf-8")

        # A record may contain line breaks: the reader takes as many lines as belong to it, and no more.
        for fields in csv.reader(lines(), strict=True):
            yield Record(number, fields, end)
            number += 1


def order_of(record: Record) -> Order:
    """Return the order of a record.

    Raises:
        InvalidRow: It is none.
    """
    fields = record.fields
    if len(fields) != len(HEADER):
        raise InvalidRow(f"the row has {len(fields)} fields, not {len(HEADER)}")
    order_id, customer, email, country, currency, quantity, price, amount, ordered_at, note = fields
    if not customer:
        raise InvalidRow("customer is empty")
    if "@" not in email:
        raise InvalidRow("email has no @")
    if currency not in CURRENCIES:
        raise InvalidRow("currency is unknown")
    cents = _cents("amount", amount)
    if not quantity.isdigit() or int(quantity) * _cents("unit_price", price) != cents:
        raise InvalidRow("amount is not quantity times unit price")
    try:
        datetime.fromisoformat(ordered_at)
    except ValueError:
        raise InvalidRow("ordered_at is not a time") from None
    return Order(record.number, order_id, customer, email, country, currency, cents, ordered_at, note)


def sort_out(found: Sequence[Record]) -> tuple[list[Order], list[tuple[int, str]]]:
    """Return the orders among the records, and ``(row, reason)`` of the others."""
    orders: list[Order] = []
    rejected: list[tuple[int, str]] = []
    for record in found:
        try:
            orders.append(order_of(record))
        except InvalidRow as error:
            rejected.append((record.number, str(error)))
    return orders, rejected


def _cents(column: str, text: str) -> int:
    whole, dot, fraction = text.partition(".")
    if not (dot and whole.isdigit() and fraction.isdigit() and len(fraction) == 2):
        raise InvalidRow(f"{column} is not a number")
    return int(whole) * 100 + int(fraction)
