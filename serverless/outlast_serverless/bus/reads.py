"""Reads: which events wait for the router, who listens to them, and which subscriptions nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from outlast_serverless.events.interests import ANY, Interest, key_hash
from outlast_store.database.sql_text import fetch
from outlast_workflow.errors import PayloadDecodeError

EVENTS_AT_ONCE: Final = 100
TARGETS_AT_ONCE: Final = 10_000
_EVENT: Final = "event_key, document"


class Target(NamedTuple):
    """Who listens to an event."""

    workflow_id: str
    first_run_id: str


class WaitingEvent(NamedTuple):
    """An event that waits for the router.

    Attributes:
        key: Its key.
        event: The event.
        targets: Who listens to it.
        problem: Why it cannot be read; empty if it can.
    """

    key: int
    event: dict[str, Any]
    targets: tuple[Target, ...]
    problem: str = ""


class Subscription(NamedTuple):
    """What an execution of a listen task is subscribed to.

    Attributes:
        execution_id: The execution.
        event_type: The type of events, or ``*``.
        opened_at: Since when, in microseconds since the epoch.
    """

    execution_id: str
    event_type: str
    opened_at: int


def waiting_events(
    connection: Connection, after: int, decoded: Callable[[str], dict[str, Any]]
) -> list[WaitingEvent]:
    """Return the next events that wait, and who listens to them, in their order.

    Args:
        connection: Where to read.
        after: The key of the last event that was looked at.
        decoded: Makes the event of what is stored.
    """
    waiting = "routed_at IS NULL AND event_key > ? ORDER BY event_key LIMIT ?"
    text = f"SELECT {_EVENT} FROM serverless_events WHERE {waiting}"
    found: list[WaitingEvent] = []
    targets = 0
    for key, stored in fetch(connection, text, (after, EVENTS_AT_ONCE)):
        one = _read(key, stored, decoded)
        if not one.problem:
            one = one._replace(targets=tuple(dict.fromkeys(_targets(connection, key, one.event))))
        found.append(one)
        targets += len(one.targets)
        if targets >= TARGETS_AT_ONCE:
            break
    return found


def _read(key: int, stored: str, decoded: Callable[[str], dict[str, Any]]) -> WaitingEvent:
    try:
        return WaitingEvent(key, decoded(stored), ())
    except PayloadDecodeError as error:
        return WaitingEvent(key, {}, (), str(error))


def _targets(connection: Connection, key: int, event: dict[str, Any]) -> Iterator[Target]:
    text = (
        "SELECT workflow_id, first_run_id FROM serverless_subscriptions WHERE event_type = ? AND paths = ? "
        "AND key_hash = ? AND after_key < ?"
    )
    for event_type in (event["type"], ANY):
        for paths in _paths(connection, event_type):
            wanted = key_hash(event, paths) if paths else ""
            if wanted is not None:
                for row in fetch(connection, text, (event_type, paths, wanted, key)):
                    yield Target(*row)


def _paths(connection: Connection, event_type: str) -> Iterator[str]:
    """Yield the different paths of the interests in a type. Each costs one step in the index, however many share it."""
    text = "SELECT MIN(paths) FROM serverless_subscriptions WHERE event_type = ?"
    found = fetch(connection, text, (event_type,))[0][0]
    while found is not None:
        yield found
        found = fetch(connection, f"{text} AND paths > ?", (event_type, found))[0][0]


def past_events(
    connection: Connection,
    after: int,
    interests: Sequence[Interest],
    decoded: Callable[[str], dict[str, Any]],
    last: int,
) -> list[WaitingEvent]:
    """Return events that are kept and that some interests may take, in their order.

    Args:
        connection: Where to read.
        after: The key of the last event that is not wanted.
        interests: The interests.
        decoded: Makes the event of what is stored.
        last: The key of the last event that was looked at.
    """
    text = f"SELECT {_EVENT} FROM serverless_events WHERE event_key > ? ORDER BY event_key LIMIT ?"
    rows = fetch(connection, text, (max(after, last), EVENTS_AT_ONCE))
    found = [_read(key, stored, decoded) for key, stored in rows]
    return [
        one._replace(targets=(Target("", ""),)) if not one.problem and _wants(interests, one.event) else one
        for one in found
    ]


def _wants(interests: Sequence[Interest], event: dict[str, Any]) -> bool:
    return any(
        one.event_type in (ANY, event["type"])
        and (not one.paths or key_hash(event, one.paths) == one.key_hash)
        for one in interests
    )


def anybody_listens(connection: Connection) -> bool:
    """Return whether there is any subscription."""
    return bool(fetch(connection, "SELECT 1 FROM serverless_subscriptions LIMIT 1", ()))


def subscriptions_of(connection: Connection, first_run_id: str) -> list[Subscription]:
    """Return what the executions of a chain are subscribed to."""
    text = (
        "SELECT execution_id, event_type, opened_at FROM serverless_subscriptions WHERE first_run_id = ? "
        "ORDER BY execution_id, position"
    )
    return [Subscription(*row) for row in fetch(connection, text, (first_run_id,))]


def ended_chains(connection: Connection, after: str, most: int) -> tuple[list[str], str | None]:
    """Look at some subscriptions for chains that have ended, or that were deleted.

    Args:
        connection: Where to read.
        after: The last chain that was looked at.
        most: How many subscriptions are looked at.

    Returns:
        The first runs of those chains, and the last chain that was looked at; ``None`` if it was the last one.
    """
    text = (
        "SELECT s.first_run_id, r.run_id FROM (SELECT first_run_id, workflow_id FROM serverless_subscriptions "
        "WHERE first_run_id > ? ORDER BY first_run_id LIMIT ?) s "
        "LEFT JOIN workflow_instances i ON i.workflow_id = s.workflow_id "
        "LEFT JOIN workflow_runs r ON r.run_id = i.current_run_id AND r.first_run_id = s.first_run_id "
        "AND r.closed_at IS NULL ORDER BY s.first_run_id"
    )
    rows = fetch(connection, text, (after, most))
    ended = list(dict.fromkeys(first for first, open_run in rows if open_run is None))
    return ended, rows[-1][0] if len(rows) == most else None
