"""The index of search attributes: comparisons in the database are those of the values, whatever its collation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.schema.search_index import (
    Execute,
    Scalar,
    Wanted,
    condition,
    index,
    index_rows,
    sortable,
    upsert,
)
from outlast_workflow.options.search_attributes import to_document

VALUES: list[Scalar] = [
    "", "a", "A", "b", "ab", "a b", "a-b", "Ä", "ä", "z", "é", "\U0001f600", "\uffff", "10", "9",
    0, -1, 1, 5, 5.0, 5.5, -5.5, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), -(2**63) + 1, 1e300, -1e300,
    5e-324, -0.0, 0.1,
    True, False,
    datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]  # fmt: skip


class Run:
    """As much of a run as the index is about."""

    def __init__(self, run_id: str, attributes: dict[str, Any] | None = None) -> None:
        self.run_id = run_id
        self.search_attributes = orjson.dumps(to_document(attributes)).decode() if attributes else None


def kind(value: Any) -> str:
    return sortable(value)[0]


def holds(value: Any, wanted: Wanted) -> bool:
    """The meaning of a condition, in Python's own comparisons."""
    if wanted.values:
        return any(kind(value) == kind(one) and value == one for one in wanted.values)
    ends = ((wanted.at_least, 0), (wanted.above, 1), (wanted.at_most, 2), (wanted.below, 3))
    compare = (lambda a, b: a >= b, lambda a, b: a > b, lambda a, b: a <= b, lambda a, b: a < b)
    return all(
        end is None or (kind(value) == kind(end) and bool(compare[place](value, end))) for end, place in ends
    )


class Stored(NamedTuple):
    """A connection, and how to write on it."""

    connection: Connection
    execute: Execute


@pytest.fixture
def stored(database: Database) -> Iterator[Stored]:
    """A database in which run N has the Nth value."""
    connection = database.writer()

    def execute(text: str, values: tuple[Any, ...]) -> int:
        marked = text if connection.dialect.paramstyle == "qmark" else text.replace("?", "%s")
        return connection.exec_driver_sql(marked, values).rowcount

    for place, value in enumerate(VALUES):
        index(execute, Run(f"{place:03}", {"it": value, "another": "x"}))
    yield Stored(connection, execute)
    connection.close()


def found(stored: Stored, wanted: Wanted) -> list[int]:
    text, values = condition(wanted)
    rows = fetch(
        stored.connection, f"SELECT run_id FROM search_attributes WHERE {text} ORDER BY run_id", values
    )
    return [int(row[0]) for row in rows]


def test_the_database_orders_values_as_python_does(stored: Stored) -> None:
    text = "SELECT run_id FROM search_attributes WHERE name = 'it' ORDER BY value, run_id"
    values = [VALUES[int(row[0])] for row in fetch(stored.connection, text)]
    for letter in "bnst":
        of_the_kind = [value for value in values if kind(value) == letter]
        assert of_the_kind == sorted(of_the_kind)
    assert [kind(value) for value in values] == sorted(kind(value) for value in values)


def test_equality_and_every_range_find_what_they_should(stored: Stored) -> None:
    for value in VALUES:
        for wanted in (
            Wanted("it", (value,)),
            Wanted("it", at_least=value),
            Wanted("it", above=value),
            Wanted("it", at_most=value),
            Wanted("it", below=value),
        ):
            expected = [place for place, one in enumerate(VALUES) if holds(one, wanted)]
            assert found(stored, wanted) == expected, wanted
    assert found(stored, Wanted("it", ("a", 5, True))) == sorted(
        place
        for place, one in enumerate(VALUES)
        if one in ("a", 5) or one is True
        if not (one == 1 and one is not True)
    )
    assert found(stored, Wanted("nothing", ("x",))) == []


_scalars = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.datetimes(timezones=st.just(UTC)),
)


@settings(max_examples=500)
@given(one=_scalars, other=_scalars)
def test_any_two_values_of_a_kind_are_in_the_order_of_their_bytes(one: Any, other: Any) -> None:
    if kind(one) != kind(other):
        return
    first, second = sortable(one).encode(), sortable(other).encode()
    if one < other:
        assert first < second
    elif one > other:
        assert first > second
    else:
        assert first[:-1] == second[:-1] or first == second


def test_an_upsert_writes_only_what_changes(stored: Stored) -> None:
    run = Run("upserted", {"tags": ["a", "b"], "kept": 1, "gone": True})
    index(stored.execute, run)
    statements: list[str] = []

    def execute(text: str, values: tuple[Any, ...]) -> int:
        statements.append(text.split()[0])
        changed: int = stored.execute(text, values)
        return changed

    upsert(execute, run, {"tags": ["b", "c"], "gone": None, "kept": 1, "never": None})
    assert statements == ["DELETE", "INSERT"]
    rows = fetch(stored.connection, "SELECT name, value FROM search_attributes WHERE run_id = 'upserted'")
    assert (
        set(rows)
        == index_rows(run.search_attributes)
        == {("tags", "sb"), ("tags", "sc"), ("kept", sortable(1))}
    )
    statements.clear()
    upsert(execute, run, {"kept": 1})
    assert statements == []
    upsert(execute, run, {"kept": None, "tags": None})
    assert run.search_attributes is None
