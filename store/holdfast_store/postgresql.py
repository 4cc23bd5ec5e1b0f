"""How Holdfast connects to PostgreSQL: psycopg 3, autocommit, and timeouts that end what hangs before a lease does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from holdfast_store import arrays
from holdfast_store.urls import DatabaseUrl
from holdfast_workflow.environment import Clock, SystemClock

_READERS_KEPT: Final = 2
_READERS_AT_MOST: Final = 8
_KEEPALIVES: Final = 3
_READER_WAIT_S: Final = 10.0
_CLOCK_ROUND_TRIPS: Final = 5
_NOT_SUPPORTED: Final = frozenset({"42601", "0A000"})
"""Syntax error, feature not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """What every connection is opened with. An option of the same name in the URL wins.

    The three timeouts of the server belong below half a worker's lease (30 s by default), so that a lock or a query
    that hangs is over, and tried again, while its owner still lives. Zero turns one off.

    Attributes:
        connect_timeout_s: How long one host may take to answer.
        lock_timeout_s: How long a statement waits for a row.
        statement_timeout_s: How long a statement may take in all.
        idle_in_transaction_timeout_s: How long a transaction may stand between two statements.
        keepalive_idle_s: After how much silence TCP asks whether the other side is still there; here and on the server.
        prepare_threshold: How often a statement is run before the server keeps its plan; None for never, which a
            pooler that hands each transaction another session needs.
        prepared_max: How many plans a connection keeps. The journal's statements differ by their number of rows.
        skip_locked: Whether claims pass over rows that another transaction holds (``SKIP LOCKED``); None: if the server
            can. Without it a claim waits for that transaction, and takes what is still free then.
    """

    connect_timeout_s: int = 10
    lock_timeout_s: float = 5.0
    statement_timeout_s: float = 12.0
    idle_in_transaction_timeout_s: float = 12.0
    keepalive_idle_s: int = 10
    prepare_threshold: int | None = 3
    prepared_max: int = 512
    skip_locked: bool | None = None


class _BigIntDumper(Int8Dumper):
    """An int, told to the server as what the column is, whatever its size.

    By itself psycopg picks int2, int4 or int8 by the value, and NULL has no type at all; each mixture would be another
    prepared statement. So an int has none here either: the server takes it from the column or the cast.
    """

    oid = 0


def writer_engine(url: DatabaseUrl, settings: PostgresSettings) -> Engine:
    """An engine whose connections are opened when asked for and closed when closed."""
    return _engine(url, settings, poolclass=NullPool)


def reader_engine(url: DatabaseUrl, settings: PostgresSettings) -> Engine:
    """An engine with a small pool, for short reads from any thread."""
    return _engine(
        url,
        settings,
        poolclass=QueuePool,
        pool_size=_READERS_KEPT,
        max_overflow=_READERS_AT_MOST - _READERS_KEPT,
        pool_timeout=_READER_WAIT_S,
        pool_pre_ping=True,
        pool_use_lifo=True,
    )


def _engine(url: DatabaseUrl, settings: PostgresSettings, **pool: Any) -> Engine:
    engine = create_engine(
        url.sqlalchemy_url,
        connect_args=_connect_args(url, settings),
        isolation_level="AUTOCOMMIT",
        use_native_hstore=False,
        hide_parameters=True,
        pool_reset_on_return=None,  # in autocommit there is nothing to roll back, and a cut connection would say so
        **pool,
    )
    event.listen(
        engine, "connect", _prepare_session(settings, str(url.sqlalchemy_url.query.get("options", "")))
    )
    return engine


def _connect_args(url: DatabaseUrl, settings: PostgresSettings) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "application_name": "holdfast",
        "connect_timeout": settings.connect_timeout_s,
        "keepalives": 1,
        **_keepalives("keepalives", settings),
    }
    given = url.sqlalchemy_url.query
    kept = {name: value for name, value in defaults.items() if name not in given}
    return {**kept, "autocommit": True, "prepare_threshold": settings.prepare_threshold}


def _keepalives(prefix: str, settings: PostgresSettings) -> dict[str, int]:
    """When TCP asks whether the other side is still there, under the names of the driver's options or the server's."""
    idle = settings.keepalive_idle_s
    return {f"{prefix}_idle": idle, f"{prefix}_interval": max(1, idle // 3), f"{prefix}_count": _KEEPALIVES}


def _prepare_session(
    settings: PostgresSettings, given: str
) -> Callable[[psycopg.Connection[Any], object], None]:
    timeouts = (
        ("lock_timeout", settings.lock_timeout_s),
        ("statement_timeout", settings.statement_timeout_s),
        ("idle_in_transaction_session_timeout", settings.idle_in_transaction_timeout_s),
    )
    # One round trip, and by statement: poolers refuse these as start-up options.
    wanted = [
        f"SET {name} = {round(seconds * 1000)}" for name, seconds in timeouts if f"{name}=" not in given
    ]
    utf8 = "SET client_encoding = 'UTF8'"  # which is what binary arrays hold, whatever the database's own
    # A session whose client has vanished keeps its locks until the server notices. Not all that speak PostgreSQL's
    # language have these settings, so only what the server lists is set.
    keepalives = _keepalives("tcp_keepalives", settings).items()
    listed = ", ".join(f"('{name}', '{value}')" for name, value in keepalives if f"{name}=" not in given)
    if listed:
        wanted.append(
            f"SELECT set_config(name, v.value, false) FROM (VALUES {listed}) AS v(name, value) "
            "JOIN pg_settings USING (name)"
        )
    statement = "; ".join((utf8, *wanted))

    def prepare(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.prepared_max = settings.prepared_max
        connection.adapters.register_dumper(int, _BigIntDumper)
        arrays.register(connection)
        result = connection.pgconn.exec_(statement.encode())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise psycopg.OperationalError(result.error_message.decode(errors="replace"))

    return prepare


def has_skip_locked(connection: Connection) -> bool:
    """Whether the server knows ``FOR UPDATE SKIP LOCKED``, as PostgreSQL does; some that speak its language don't."""
    try:
        connection.exec_driver_sql(
            "SELECT journal_id FROM journals WHERE journal_id = '' FOR UPDATE SKIP LOCKED"
        )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _NOT_SUPPORTED:
            return False
        raise
    return True


def database_clock_offset(connection: Connection, clock: Clock | None = None) -> int:
    """How far the server's clock is ahead of this machine's, in microseconds.

    The engine of a shared database runs on the database's clock, so that deadlines mean the same in every process.
    Of a few round trips the fastest counts: its answer was the least old (Cristian, 1989).

    Args:
        connection: A connection to PostgreSQL.
        clock: The machine's clock; the system's by default.
    """
    machine = clock if clock is not None else SystemClock()
    best_trip, best_offset = None, 0
    for _ in range(_CLOCK_ROUND_TRIPS):
        before = machine.now()
        row = connection.exec_driver_sql(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).one()
        after = machine.now()
        trip = after - before
        if best_trip is None or trip < best_trip:
            best_trip, best_offset = trip, row[0] - (before + trip // 2)
    return best_offset
