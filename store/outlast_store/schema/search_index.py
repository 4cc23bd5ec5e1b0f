"""The index of search attributes: rows by which runs are found, and the conditions that find them.

A run's attributes are in its own row, as JSON. In addition each value (each item, for a list) has a row in
``search_attributes``. The value's text there is made so that **its bytes are in the order of the values**, and its
first letter names the kind. Columns and comparisons are by bytes on both databases:

====== =============================================================================================================
``b``  a boolean: ``0`` or ``1``
``n``  a number: 16 hex digits that order as the nearest double does, 3 more for the distance of an integer from that
       double, and ``f`` or ``i``. So 5 and 5.0 are neighbours, and 2**53 + 1 differs from 2**53
``s``  text, as it is
``t``  an instant: microseconds since the year 1, 18 digits
====== =============================================================================================================

Rows are written at once, by statements of their own, within the batch's transaction and under the run's guard.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeGuard

import orjson

from outlast_store.database.sql_text import Values, marks
from outlast_workflow.options.search_attributes import Document, from_document, merged
from outlast_workflow.primitives.times import from_datetime

Execute = Callable[[str, Values], int]
"""Runs a writing statement with ``?`` marks."""

Scalar = str | int | float | bool | datetime

_FIRST_INSTANT: Final = from_datetime(datetime.min.replace(tzinfo=UTC))
_NO_DISTANCE: Final = 0x800
_ROWS_A_STATEMENT: Final = 200


class Searchable(Protocol):
    """The part of a run's row that holds search attributes."""

    run_id: str
    search_attributes: str | None


# --- values as text -------------------------------------------------------------------------------------------------


def sortable(value: Scalar) -> str:
    """Return a value as text whose bytes order as the values of its kind do."""
    if isinstance(value, bool):
        return f"b{value:d}"
    if isinstance(value, int | float):
        return _number(value) + ("i" if isinstance(value, int) else "f")
    if isinstance(value, datetime):
        return f"t{from_datetime(value) - _FIRST_INSTANT:018d}"
    return f"s{value}"


def _number(value: int | float) -> str:
    # The addition turns a negative zero into a plain one.
    nearest = float(value) + 0.0
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest))
    bits = bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63)
    distance = value - int(nearest) if isinstance(value, int) else 0
    return f"n{bits:016x}{distance + _NO_DISTANCE:03x}"


def _least(value: Scalar) -> str:
    """Return the least text that a value equal to this one may have."""
    return _number(value) + "f" if _is_number(value) else sortable(value)


def _greatest(value: Scalar) -> str:
    return _number(value) + "i" if _is_number(value) else sortable(value)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- rows -----------------------------------------------------------------------------------------------------------


def index_rows(document: str | None) -> set[tuple[str, str]]:
    """Return ``(name, value)`` of each row that a run's attributes have."""
    if document is None:
        return set()
    rows: set[tuple[str, str]] = set()
    for name, value in from_document(orjson.loads(document)).items():
        for item in value if isinstance(value, list) else (value,):
            rows.add((name, sortable(item)))
    return rows


def index(execute: Execute, run: Searchable) -> None:
    """Write the rows of a new run."""
    _insert(execute, run.run_id, sorted(index_rows(run.search_attributes)))


def upsert(execute: Execute, run: Searchable, given: Document) -> None:
    """Set attributes of a run, in its row and in the index. Only what changed is written.

    Args:
        execute: Runs the statements.
        run: The run's row.
        given: The attributes to set; ``None`` as the value removes one.
    """
    before = index_rows(run.search_attributes)
    known = orjson.loads(run.search_attributes) if run.search_attributes is not None else None
    document = merged(known, given)
    run.search_attributes = orjson.dumps(document).decode() if document else None
    after = index_rows(run.search_attributes)
    gone = sorted(before - after)
    for start in range(0, len(gone), _ROWS_A_STATEMENT):
        some = gone[start : start + _ROWS_A_STATEMENT]
        pairs = " OR ".join(["(name = ? AND value = ?)"] * len(some))
        execute(
            f"DELETE FROM search_attributes WHERE run_id = ? AND ({pairs})",
            (run.run_id, *(part for pair in some for part in pair)),
        )
    _insert(execute, run.run_id, sorted(after - before))


def _insert(execute: Execute, run_id: str, rows: Sequence[tuple[str, str]]) -> None:
    for start in range(0, len(rows), _ROWS_A_STATEMENT):
        some = rows[start : start + _ROWS_A_STATEMENT]
        groups = ", ".join(["(?, ?, ?)"] * len(some))
        execute(
            f"INSERT INTO search_attributes (run_id, name, value) VALUES {groups}",
            tuple(part for name, value in some for part in (run_id, name, value)),
        )


# --- conditions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one attribute must be: one of some values, or in a range, either end of which may be open.

    For a list it is enough that one item matches.
    """

    name: str
    values: tuple[Scalar, ...] = ()
    at_least: Scalar | None = None
    above: Scalar | None = None
    at_most: Scalar | None = None
    below: Scalar | None = None

    @property
    def is_one(self) -> bool:
        """Whether it names a single value, which at most one row of a run can have."""
        return len(self.values) == 1


def condition(wanted: Wanted) -> tuple[str, Values]:
    """Return the condition on rows of ``search_attributes``, and its values."""
    if wanted.values:
        texts: list[str] = []
        for value in wanted.values:
            texts += dict.fromkeys((_least(value), _greatest(value)))
        equal = "= ?" if len(texts) == 1 else f"IN ({marks(texts)})"
        return f"name = ? AND value {equal}", (wanted.name, *texts)
    parts, values = ["name = ?"], [wanted.name]
    kind = next(
        value for value in (wanted.at_least, wanted.above, wanted.at_most, wanted.below) if value is not None
    )
    letter = sortable(kind)[0]
    if wanted.at_least is not None:
        parts.append("value >= ?")
        values.append(_least(wanted.at_least))
    elif wanted.above is not None:
        parts.append("value > ?")
        values.append(_greatest(wanted.above))
    else:
        parts.append("value >= ?")
        values.append(letter)
    if wanted.at_most is not None:
        parts.append("value <= ?")
        values.append(_greatest(wanted.at_most))
    elif wanted.below is not None:
        parts.append("value < ?")
        values.append(_least(wanted.below))
    else:
        parts.append("value < ?")
        values.append(chr(ord(letter) + 1))
    return " AND ".join(parts), tuple(values)
