"""What goes to PostgreSQL as a binary array comes back as it was, or is refused before it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.postgres import TemporaryPostgres
from holdfast_store import arrays
from holdfast_store.arrays import BigintArray, BooleanArray, TextArray

pytestmark = pytest.mark.postgresql

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
BIGINT = st.integers(-(2**63), 2**63 - 1)
COLUMNS = st.one_of(
    st.lists(TEXT | st.none()).map(TextArray),
    st.lists(BIGINT | st.none()).map(BigintArray),
    st.lists(st.booleans() | st.none()).map(BooleanArray),
)
QUERIES: dict[type, LiteralString] = {
    TextArray: "SELECT * FROM unnest(%s::text[])",
    BigintArray: "SELECT * FROM unnest(%s::bigint[])",
    BooleanArray: "SELECT * FROM unnest(%s::boolean[])",
}


@pytest.fixture(scope="module")
def server_connection(postgres_server: TemporaryPostgres) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(postgres_server.url(), autocommit=True, prepare_threshold=1) as connection:
        arrays.register(connection)
        yield connection


@given(values=COLUMNS)
def test_values_come_back_as_they_were(
    server_connection: psycopg.Connection[tuple[object, ...]], values: list[object]
) -> None:
    rows = server_connection.execute(QUERIES[type(values)], (values,)).fetchall()
    assert [row[0] for row in rows] == values


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_an_integer_of_more_than_64_bits_is_refused(
    server_connection: psycopg.Connection[tuple[object, ...]], number: int
) -> None:
    with pytest.raises(psycopg.DataError, match="64 bits"):
        server_connection.execute("SELECT %s::bigint[]", (BigintArray([1, number]),))


def test_text_with_nul_or_a_lone_surrogate_is_refused(
    server_connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        server_connection.execute("SELECT %s::text[]", (TextArray(["a", "b\0"]),))
    with pytest.raises(UnicodeEncodeError):
        server_connection.execute("SELECT %s::text[]", (TextArray(["a", "\ud800"]),))
