"""The export format: a run, closed or open, as one JSON document with all rows about it, and the way back.

::

    {"format": "outlast-history", "version": 1,
     "run": {"run_id": …, "workflow_id": …, "status": "completed", "created_at": "2026-01-31T12:00:00+00:00", …},
     "events": [{"seq": 1, "type": "WorkflowStarted", "recorded_at": …, "payload": {…}}, …],
     "activities": […], "attempts": […], "failures": […], "requests": […],
     "alerts": […], "streams": […], "stream_items": […]}

Each object is a row, and its names are the columns'. Instants are ISO 8601 (UTC), and the two timeouts of a run are
seconds. JSON text is embedded as JSON, exactly as stored (encoded, if a codec was used). Null values are left out, and
so is ``run_id`` below the run itself. The streams of a chain and their items are in the document of its first run;
there ``run_id`` says which run wrote an item. Never exported are what only a run under way has (owner, fence, wake-up,
attention), the workflows of this database that deliver its alerts, and the index of search attributes, which follows
from those in the run's row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import orjson
from sqlalchemy import BigInteger, Boolean, Connection, Table

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.schema import tables
from outlast_workflow.data.writing import MOST_LEVELS, is_deep
from outlast_workflow.errors.history import InvalidHistoryError
from outlast_workflow.history.events import stored_json, stored_payload
from outlast_workflow.primitives.times import from_iso, iso, microseconds, seconds

FORMAT: Final = "outlast-history"
VERSION: Final = 1

SECTIONS: Final[dict[str, tuple[Table, str]]] = {
    "events": (tables.history_events, "seq"),
    "activities": (tables.activity_executions, "activity_id"),
    "attempts": (tables.activity_attempts, "activity_id, attempt"),
    "failures": (tables.workflow_failures, "failure_id"),
    "requests": (tables.workflow_requests, "kind, request_id"),
    "streams": (tables.streams, "name"),
    "alerts": (tables.alerts, "alert_id"),
    "stream_items": (tables.stream_items, "name, item_offset"),
}
"""What belongs to a run: the table of each section, and the order of its rows."""

UNDER_WAY: Final = frozenset(
    {
        "owner_id", "fence", "owner_losses", "wake_at", "not_before", "start_delayed", "inbox", "cascade_at",
        "next_deadline_at", "attention", "attention_since", "last_seq", "last_event_at", "history_bytes",
        "claimed_by", "cancel_requested", "heartbeat_deadline_at", "queued_at", "slot_queue", "start_deadline_at",
        "deliveries",
    }
)  # fmt: skip
"""Columns that only a run under way needs, whose values follow from its events, or that name other workflows."""

_JSON: Final = frozenset(
    {
        "payload", "retry_policy", "memo", "search_attributes", "options", "heartbeat_details", "last_failure",
        "failure", "details", "progress", "alerts", "value",
    }
)  # fmt: skip
MOST_LEVELS_STORED: Final = MOST_LEVELS + 30
"""A value in the details of the last of twenty causes of a failure."""
MAX_BIGINT: Final = 2**63 - 1
_DURATIONS: Final = frozenset({"execution_timeout", "run_timeout"})
_OF_CHAINS: Final = (tables.streams, tables.stream_items)
"""What belongs to a chain, by its first run."""


Writer = tuple[str, str, Callable[[Any], Any]]


# --- rows to a document ---------------------------------------------------------------------------------------------


def export_run(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """Return a run's document, read in one snapshot and made for ``orjson.dumps``; ``None`` if there is no such run."""
    with snapshot(connection):
        found = _rows(connection, tables.workflow_runs, "run_id", run_id)
        if not found:
            return None
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "run": {"run_id": run_id, **found[0]},
        }
        for name, (table, order) in SECTIONS.items():
            rows = _rows(connection, table, order, run_id)
            if rows:
                document[name] = rows
        return document


def _rows(connection: Connection, table: Table, order: str, run_id: str) -> list[dict[str, Any]]:
    writers = _writers(table)
    names = ", ".join(name for name, _, _ in writers)
    where, values = f"{_owner(table)} = ?", [run_id]
    if table is tables.workflow_requests:
        # Their index begins with the chain.
        chain = "first_run_id = (SELECT first_run_id FROM workflow_runs WHERE run_id = ?)"
        where, values = f"{chain} AND {where} AND kind <> 'query'", values * 2
    text = f"SELECT {names} FROM {table.name} WHERE {where} ORDER BY {order}"
    return [_document(writers, row, run_id) for row in fetch(connection, text, tuple(values))]


def _owner(table: Table) -> str:
    """Return the column that says which run's document a row is in."""
    return "first_run_id" if table in _OF_CHAINS else "run_id"


def _document(writers: Sequence[Writer], row: Sequence[Any], run_id: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for (name, key, write), value in zip(writers, row, strict=True):
        if value is None:
            continue
        if name in _JSON:
            # It is written as it is stored. What is no JSON would spoil the document, where nobody looks for it.
            if name == "payload":
                _ = stored_payload(value, run_id, document["seq"])
            else:
                _ = stored_json(value, run_id, name.replace("_", " "))
        document[key] = write(value)
    return document


@cache
def _writers(table: Table) -> tuple[Writer, ...]:
    """Return for each column its name, its key in the document, and how its values are written."""
    made: list[Writer] = []
    for column in table.columns:
        # SQLAlchemy's own kind of text is no key for orjson.
        name = str(column.name)
        if name == _owner(table) or name in UNDER_WAY:
            continue
        key = name
        write: Callable[[Any], Any] = _as_it_is
        if name in _JSON:
            write = orjson.Fragment
        elif name in _DURATIONS:
            key, write = f"{name}_seconds", seconds
        elif name.endswith("_at"):
            write = iso
        elif isinstance(column.type, Boolean):
            write = bool
        made.append((name, key, write))
    return tuple(made)


def _as_it_is(value: Any) -> Any:
    return value


def chain(connection: Connection, run_id: str) -> list[str]:
    """Return the ids of all runs of a run's chain, from the first to the last."""
    text = (
        "WITH RECURSIVE chain(run_id, next_run_id, run_number) AS ("
        "SELECT f.run_id, f.next_run_id, f.run_number FROM workflow_runs f "
        "JOIN workflow_runs r ON f.run_id = r.first_run_id WHERE r.run_id = ? "
        "UNION ALL SELECT r.run_id, r.next_run_id, r.run_number FROM workflow_runs r "
        "JOIN chain c ON r.run_id = c.next_run_id"
        ") SELECT run_id FROM chain ORDER BY run_number"
    )
    return [row[0] for row in fetch(connection, text, (run_id,))]


# --- a document to rows ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PortableRun:
    """The rows of a document: the run's columns by name, and whole rows for each of the other tables."""

    run: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def check_format(document: Any, place: str | None = None) -> dict[str, Any]:
    """Check that this version reads a document, and return it.

    Args:
        document: What was parsed.
        place: Where it is from, for the error: a file and a line.

    Raises:
        InvalidHistoryError: It does not; the message says why.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidHistoryError(
            'this is not an exported history (it has no "format": "outlast-history"): make one with `outlast export`',
            place=place,
        )
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise InvalidHistoryError("version must be a whole number from 1", place=place)
    if version > VERSION:
        raise InvalidHistoryError(
            f"it has version {version} of the format, and this Outlast reads up to {VERSION}: upgrade outlast",
            place=place,
        )
    return document


def read_run(document: Any, place: str | None = None) -> PortableRun:
    """Return the rows of a document.

    Args:
        document: What was parsed.
        place: Where it is from, for the error: a file and a line.

    Raises:
        InvalidHistoryError: A row is not what its table holds; the message names the row and the column.
    """
    check_format(document, place)
    run = _read_row(tables.workflow_runs, document.get("run"), "run", {}, place)
    found = PortableRun(run)
    given = {"run_id": run["run_id"], "first_run_id": run["first_run_id"]}
    for name, (table, _) in SECTIONS.items():
        rows = document.get(name, [])
        if not isinstance(rows, list):
            raise InvalidHistoryError(f"{name} must be an array", place=place)
        known = {"first_run_id": given["run_id"]} if table in _OF_CHAINS else given
        found.rows[name] = [
            tuple(_read_row(table, row, f"{name}[{index}]", known, place).values())
            for index, row in enumerate(rows)
        ]
    return found


def _read_row(table: Table, row: Any, where: str, given: dict[str, Any], place: str | None) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InvalidHistoryError(f"{where} must be an object", place=place)
    values: dict[str, Any] = {}
    for name, key, read, empty in _readers(table):
        value = given[name] if name in given else row.get(key) if key else None
        # The JSON of an item may be null; that of a column which may be missing never is.
        if value is None and not (name == "value" and "value" in row):
            if empty is _REQUIRED:
                raise InvalidHistoryError(f"{where} has no {key}", place=place)
            values[name] = empty
            continue
        try:
            values[name] = read(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidHistoryError(f"{where}.{key} has a wrong value", place=place) from None
    return values


_REQUIRED: Final = object()
Reader = tuple[str, str, Callable[[Any], Any], Any]


@cache
def _readers(table: Table) -> tuple[Reader, ...]:
    """Return for each column its name, its key, how its values are read, and its value where the key is missing."""
    keys = {name: key for name, key, _ in _writers(table)}
    made: list[Reader] = []
    for column in table.columns:
        name = str(column.name)
        kind = (
            bool if isinstance(column.type, Boolean) else int if isinstance(column.type, BigInteger) else str
        )
        empty: Any = None if column.nullable else _REQUIRED
        if name in UNDER_WAY and not column.nullable:
            empty = kind()
        read: Callable[[Any], Any] = partial(_of_kind, kind)
        if name in _JSON:
            read = _json_text
        elif name in _DURATIONS:
            read = _duration
        elif name.endswith("_at"):
            read = _instant
        # What only a run under way needs is never read from a document: its key is one that no document has.
        made.append((name, keys.get(name, "" if name in UNDER_WAY else name), read, empty))
    return tuple(made)


def _of_kind(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    # PostgreSQL has no such text.
    if isinstance(value, str) and "\0" in value:
        raise ValueError
    if isinstance(value, int) and abs(value) > MAX_BIGINT:
        raise OverflowError
    return value


def _json_text(value: Any) -> str:
    text = orjson.dumps(value)
    if is_deep(text, MOST_LEVELS_STORED):
        raise ValueError
    return text.decode()


def _duration(value: Any) -> int:
    if type(value) not in (int, float):
        raise TypeError
    return microseconds(value)


def _instant(value: Any) -> int:
    if type(value) is not str:
        raise TypeError
    return from_iso(value)


def run_values(found: PortableRun) -> list[Any]:
    """Return the run's values in the order of its columns; those that follow from its events are computed from them."""
    events = found.rows["events"]
    run = dict(found.run)
    run["last_seq"] = len(events)
    run["last_event_at"] = events[-1][3]
    run["history_bytes"] = sum(len(event[4].encode()) for event in events)
    return [run[name] for name in columns_of(tables.workflow_runs)]
