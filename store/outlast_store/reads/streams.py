"""Reads of streams: their items page by page, how far each has come, and which there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, matching
from outlast_store.schema.rows import StreamItemRow, StreamKey, StreamRow

_ITEM = "first_run_id, name, item_offset, value, written_at, run_id, seq, activity_id, attempt"
_STREAM = "first_run_id, name, next_offset, bytes, version, closed_at"


class StreamPage(NamedTuple):
    """What a look at a stream finds.

    Attributes:
        items: The next items, perhaps none.
        run_id: The last run of the chain, as far as this look has followed it.
        ended: Whether no item will follow these: the stream is closed, or its chain.
    """

    items: list[StreamItemRow]
    run_id: str
    ended: bool


class PageSize(NamedTuple):
    """How much a page of items holds.

    Attributes:
        items: How many items at most.
        bytes: No item follows once the values have so many bytes, so a page has at least one item, whatever its size.
    """

    items: int
    bytes: int


def read_items(
    connection: Connection, first_run_id: str, name: str, start: int, size: PageSize
) -> list[StreamItemRow]:
    """Return items of a stream, in order.

    Args:
        connection: Where to read.
        first_run_id: The chain.
        name: The stream.
        start: The first offset.
        size: How much at most.
    """
    where, values = "first_run_id = ? AND name = ? AND item_offset >= ?", (first_run_id, name, start)
    text = f"SELECT {_ITEM} FROM stream_items WHERE {where} ORDER BY item_offset LIMIT ?"
    found: list[StreamItemRow] = []
    if connection.dialect.name == "sqlite":
        # Rows are read as they are asked for, so what is too much is left where it is.
        total = 0
        rows = connection.exec_driver_sql(text, (*values, size.items))
        for row in rows:
            found.append(StreamItemRow(*row))
            total += len(found[-1].value.encode())
            if total >= size.bytes:
                break
        rows.close()
        return found
    # The server sends the whole answer at once. It knows the sizes without reading the values.
    sizes = (
        f"SELECT item_offset, OCTET_LENGTH(value) AS size FROM stream_items WHERE {where} "
        "ORDER BY item_offset LIMIT ?"
    )
    before = (
        f"SELECT item_offset, SUM(size) OVER (ORDER BY item_offset) - size AS before FROM ({sizes}) AS sizes"
    )
    last = f"SELECT MAX(item_offset) FROM ({before}) AS sums WHERE before < ?"
    text = f"SELECT {_ITEM} FROM stream_items WHERE {where} AND item_offset <= ({last}) ORDER BY item_offset"
    return [
        StreamItemRow(*row) for row in fetch(connection, text, (*values, *values, size.items, size.bytes))
    ]


def look_at_stream(
    connection: Connection,
    first_run_id: str,
    name: str,
    start: int,
    run_id: str,
    size: PageSize,
    *,
    tell_end: bool = False,
) -> StreamPage:
    """Return the next items of a stream; where there are none, say whether more may come.

    Args:
        connection: Where to read.
        first_run_id: The chain.
        name: The stream.
        start: The first offset.
        run_id: A run of the chain, from which its last run is looked for.
        size: How many items.
        tell_end: Whether to look behind the items, too, whether more may come. It costs two statements.
    """
    items = read_items(connection, first_run_id, name, start, size)
    if items and not tell_end:
        return StreamPage(items, run_id, ended=False)
    # The run comes first: once it is closed, nothing is written any more, so what is read behind it is all.
    run_id, closed = _last_run(connection, run_id)
    stream = find_stream(connection, first_run_id, name)
    behind = items[-1].item_offset + 1 if items else start
    if stream is not None and stream.next_offset > behind:
        # The page is full, or it came between the reads.
        found = items or read_items(connection, first_run_id, name, start, size)
        return StreamPage(found, run_id, ended=False)
    return StreamPage(items, run_id, ended=closed or (stream is not None and stream.closed_at is not None))


def _last_run(connection: Connection, run_id: str) -> tuple[str, bool]:
    """Return the last run of a chain from one of its runs on, and whether it is closed; a run that is gone is."""
    text = "SELECT closed_at, next_run_id FROM workflow_runs WHERE run_id = ?"
    while True:
        rows = fetch(connection, text, (run_id,))
        if not rows:
            return run_id, True
        closed_at, next_run_id = rows[0]
        if next_run_id is None:
            return run_id, closed_at is not None
        run_id = next_run_id


def find_stream(connection: Connection, first_run_id: str, name: str) -> StreamRow | None:
    """Return a stream, if there is one of that name.

    Args:
        connection: Where to read.
        first_run_id: The chain.
        name: Its name.
    """
    text = f"SELECT {_STREAM} FROM streams WHERE first_run_id = ? AND name = ?"
    rows = fetch(connection, text, (first_run_id, name))
    return StreamRow(*rows[0]) if rows else None


def find_streams(connection: Connection, first_run_id: str, limit: int) -> list[StreamRow]:
    """Return the streams of a chain, by name.

    Args:
        connection: Where to read.
        first_run_id: The chain.
        limit: How many.
    """
    text = f"SELECT {_STREAM} FROM streams WHERE first_run_id = ? ORDER BY name LIMIT ?"
    return [StreamRow(*row) for row in fetch(connection, text, (first_run_id, limit))]


def find_versions(connection: Connection, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the versions of those streams that there are. Ask for a few hundred at most."""
    among = matching(("first_run_id", "name"), len(keys))
    text = f"SELECT first_run_id, name, version FROM streams WHERE {among}"
    values = tuple(part for key in keys for part in key)
    return {(row[0], row[1]): row[2] for row in fetch(connection, text, values)}
