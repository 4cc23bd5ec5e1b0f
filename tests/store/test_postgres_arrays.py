"""What goes to PostgreSQL as a binary array comes back as it was, or is refused before it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database import postgres_dumpers
from outlast_store.database.database import Database
from outlast_store.database.postgres_arrays import BigintArray, BooleanArray, TextArray
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

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
        postgres_dumpers.register(connection.adapters)
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


def test_text_is_the_same_whatever_encoding_the_session_was_asked_for(
    new_postgresql_url: Callable[..., str],
) -> None:
    url = new_postgresql_url(migrated=False)
    wanted = f"{url}{'&' if '?' in url else '?'}client_encoding=latin1"
    database = Database(DatabaseUrl.parse(wanted), Environment())
    with database.writer() as connection:
        row = connection.exec_driver_sql(
            "SELECT length(t), t, %s::text FROM unnest(%s::text[]) AS t", ("é", TextArray(["café"]))
        ).one()
    database.dispose()
    assert tuple(row) == (4, "café", "é")
