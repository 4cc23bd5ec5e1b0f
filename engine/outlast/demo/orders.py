"""The file that the demonstration imports: orders like those of a shop, a few of them invalid.

The same number of rows always gives the same file, so that the expected result is known beforehand.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

HEADER = (
    "order_id",
    "customer",
    "email",
    "country",
    "currency",
    "quantity",
    "unit_price",
    "amount",
    "ordered_at",
    "note",
)
LEAST_ROWS = 100

_SEED = 20250101
_FIRST_ORDER_AT = datetime(2025, 1, 1, tzinfo=UTC)
_COUNTRIES = (
    ("DE", "EUR"),
    ("FR", "EUR"),
    ("IE", "EUR"),
    ("US", "USD"),
    ("GB", "GBP"),
    ("CH", "CHF"),
    ("SE", "SEK"),
)
_GIVEN = (
    "Ada",
    "Björn",
    "Chloé",
    "Dmitri",
    "Elif",
    "Fionn",
    "Grace",
    "Håkon",
    "Inês",
    "Jürg",
    "Kateřina",
    "Łukasz",
)
_FAMILY = (
    "Andersson",
    "Brontë",
    "Çelik",
    "Dvořák",
    "Eriksen",
    "Fischer",
    "Günther",
    "Hughes",
    "Ivanova",
    "O'Neil",
)
# As in real CSV files: separators, quotes and line breaks within a field.
_NOTES = (
    *("",) * 12,
    "gift, please wrap",
    'engrave "forever yours"',
    "ring twice\nleave it with the neighbour",
    "Lieferung bis 17 Uhr",
)

Fields = list[str]


def _with(column: str, value: str) -> Callable[[Fields], Fields]:
    index = HEADER.index(column)
    return lambda fields: [*fields[:index], value, *fields[index + 1 :]]


_WRONG: tuple[tuple[float, str, Callable[[Fields], Fields]], ...] = (
    (0.04, "amount is not a number", _with("amount", "12,50")),
    (0.17, "email has no @", _with("email", "nobody.example.org")),
    (0.33, "currency is unknown", _with("currency", "XXX")),
    (0.46, "amount is not quantity times unit price", _with("amount", "0.01")),
    (0.61, "ordered_at is not a time", _with("ordered_at", "2025-02-30T12:00:00+00:00")),
    (0.78, "customer is empty", _with("customer", "")),
    (0.92, "the row has 4 fields, not 10", lambda fields: fields[:4]),
)
"""The invalid rows: their place in the file, the reason that the import must report, and how they are made invalid."""


@dataclass(frozen=True, slots=True)
class OrdersFile:
    """The file, and the expected result.

    Attributes:
        path: Where it is.
        size: Its bytes.
        sha256: Its checksum.
        rows: How many there are, the header not counted.
        invalid: The wrong ones: row number (from 1) to what is wrong.
        cents: The sum of all amounts of the right ones, by currency.
    """

    path: str
    size: int
    sha256: str
    rows: int
    invalid: dict[int, str]
    cents: dict[str, int]

    @property
    def valid(self) -> int:
        """The number of rows that must arrive."""
        return self.rows - len(self.invalid)


def write_orders(path: Path, rows: int) -> OrdersFile:
    """Write the file."""
    random = Random(_SEED)
    wrong = {1 + int(rows * place): (reason, spoil) for place, reason, spoil in _WRONG}
    cents: dict[str, int] = {}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for number in range(1, rows + 1):
            fields, currency, amount = _order(random, number)
            if number in wrong:
                fields = wrong[number][1](fields)
            else:
                cents[currency] = cents.get(currency, 0) + amount
            writer.writerow(fields)
    with path.open("rb") as written:
        checksum = hashlib.file_digest(written, "sha256").hexdigest()
    invalid = {number: reason for number, (reason, _) in wrong.items()}
    return OrdersFile(str(path), path.stat().st_size, checksum, rows, invalid, dict(sorted(cents.items())))


def _order(random: Random, number: int) -> tuple[Fields, str, int]:
    """Return a valid order: its fields, its currency, its amount in cents."""
    given, family = random.choice(_GIVEN), random.choice(_FAMILY)
    country, currency = random.choice(_COUNTRIES)
    quantity = random.randint(1, 9)
    price = random.randint(99, 49_999)
    amount = quantity * price
    ordered_at = _FIRST_ORDER_AT + timedelta(seconds=number * 613 + random.randint(0, 600))
    fields = [
        f"o-{number:07d}",
        f"{family}, {given}",
        f"customer{random.randint(1, 20_000):05d}@example.org",
        country,
        currency,
        str(quantity),
        _decimal(price),
        _decimal(amount),
        ordered_at.isoformat(),
        random.choice(_NOTES),
    ]
    return fields, currency, amount


def _decimal(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
