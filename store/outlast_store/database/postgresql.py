"""Connecting to PostgreSQL: psycopg 3, autocommit, and timeouts that end a hanging statement before a lease ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import Connection, Dialect, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from outlast_store.database import postgres_arrays
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Clock, SystemClock

_READERS_KEPT: Final = 2
_READERS_AT_MOST: Final = 8
_KEEPALIVE_PROBES: Final = 3
_READER_WAIT_S: Final = 10.0
_CLOCK_ROUND_TRIPS: Final = 5
_POLL_S: Final = 0.1
"""How often psycopg checks, while it waits, whether it was interrupted."""
_LONGEST_POLL_S: Final = 3 * _POLL_S
"""What one of these checks counts at most towards the server's silence."""
_CLOCK: Final = SystemClock()
"""Waiting for a real server takes real time, whatever clock the engine runs on."""
_ANSWER_GRACE_S: Final = 3.0
"""How long an answer may be under way, on top of what a statement may take."""
_NOT_SUPPORTED: Final = frozenset({"42601", "0A000"})
"""The states "syntax error" and "feature not supported"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """The settings that every connection is opened with. An option of the same name in the URL wins.

    Keep the server's three timeouts below half a worker's lease (30 s by default), so that a lock or a query that hangs
    ends, and is tried again, while its owner is still alive. Zero turns one off.

    Attributes:
        connect_timeout_s: How long one host may take to answer, in seconds.
        lock_timeout_s: How long a statement waits for a row, in seconds.
        statement_timeout_s: How long a statement may take in all, in seconds.
        idle_in_transaction_timeout_s: How long a transaction may be idle between two statements, in seconds.
        keepalive_idle_s: After how many seconds of silence TCP probes the other side, here and on the server.
        prepare_threshold: How often a statement runs before the server keeps its plan. ``None`` means never: a pooler
            that gives each transaction another session needs that.
        prepared_max: How many plans a connection keeps. The journal's statements differ by their number of rows.
        skip_locked: Whether claims skip rows that another transaction holds (``SKIP LOCKED``); ``None`` asks the
            server. Without it a claim waits for that transaction, then takes what is still free.
    """

    connect_timeout_s: int = 10
    lock_timeout_s: float = 5.0
    statement_timeout_s: float = 12.0
    idle_in_transaction_timeout_s: float = 12.0
    keepalive_idle_s: int = 10
    prepare_threshold: int | None = 3
    prepared_max: int = 512
    skip_locked: bool | None = None


T = TypeVar("T")


class Silence(psycopg.OperationalError):
    """The server has neither answered nor closed the connection, which is closed here."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection that does not wait forever.

    A server ends a statement that takes too long. A server that is stopped, or behind a network that drops every
    packet, ends nothing, and TCP notices that after minutes, if at all. So the wait measures how long no answer came.
    """

    answer_timeout_s: float | None = None
    """How long the answer to one statement or pipeline may take, in seconds; ``None`` sets no limit."""

    def wait(
        self, gen: PQGen[T], interval: float = _POLL_S, timeout: float | None = None, **kwargs: Any
    ) -> T:
        """Wait as psycopg does, but raise :class:`Silence` when no answer comes in time.

        A wait with a ``timeout`` of its own, for a notification for example, is left to that: nothing need come.
        """
        if timeout is not None:
            return super().wait(gen, interval, timeout=timeout, **kwargs)
        if self.answer_timeout_s is None:
            return super().wait(gen, interval, **kwargs)
        try:
            return super().wait(_answered(gen, self.answer_timeout_s), interval, **kwargs)
        except Silence:
            self.pgconn.finish()
            raise Silence(f"the server has not answered for {self.answer_timeout_s:g} s") from None


def _answered(gen: PQGen[T], timeout_s: float) -> PQGen[T]:
    """Wait for what psycopg waits for, until no answer has come for ``timeout_s`` seconds in which this process ran.

    One poll counts for :data:`_LONGEST_POLL_S` at most: a process that was itself stopped in the middle of it does not
    mistake that for a silent server.
    """
    silent_s = 0.0
    try:
        wanted = next(gen)
        while True:
            polled_at = _CLOCK.monotonic()
            ready = yield wanted
            if ready:
                silent_s = 0.0
            else:
                silent_s += min(_CLOCK.monotonic() - polled_at, _LONGEST_POLL_S)
                if silent_s >= timeout_s:
                    raise Silence
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


class _BigIntDumper(Int8Dumper):
    """Sends an int without a type, so that the server takes the type from the column or the cast.

    Otherwise psycopg would pick int2, int4 or int8 by the value, and none for NULL; each mixture would be another
    prepared statement.
    """

    oid = 0


def writer_engine(url: DatabaseUrl, settings: PostgresSettings) -> Engine:
    """Return an engine without a pool: each connection is opened when asked for and closed for good."""
    return _engine(url, settings, poolclass=NullPool)


def reader_engine(url: DatabaseUrl, settings: PostgresSettings) -> Engine:
    """Return an engine with a small pool, for short reads from any thread."""
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
        # In autocommit there is nothing to roll back, and on a cut connection a rollback would fail.
        pool_reset_on_return=None,
        **pool,
    )
    event.listen(engine, "do_connect", _connect)
    given = str(url.sqlalchemy_url.query.get("options", ""))
    event.listen(engine, "connect", _prepare_session(settings, given))
    return engine


def _connect(
    _dialect: Dialect, _record: object, args: list[Any], options: dict[str, Any]
) -> PatientConnection:
    return PatientConnection.connect(*args, **options)


def _connect_args(url: DatabaseUrl, settings: PostgresSettings) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "application_name": "outlast",
        "connect_timeout": settings.connect_timeout_s,
        "keepalives": 1,
        **_keepalives("keepalives", settings),
    }
    given = url.sqlalchemy_url.query
    kept = {name: value for name, value in defaults.items() if name not in given}
    return {**kept, "autocommit": True, "prepare_threshold": settings.prepare_threshold}


def guest_connect_args(url: DatabaseUrl, settings: PostgresSettings) -> dict[str, Any]:
    """Return how connections for transactions of user code are opened."""
    return {**_connect_args(url, settings), "autocommit": False}


def register_dumpers(adapters: AdaptersMap) -> None:
    """Let a connection or a cursor write values as the engine's statements need them."""
    adapters.register_dumper(int, _BigIntDumper)
    postgres_arrays.register(adapters)


def _keepalives(prefix: str, settings: PostgresSettings) -> dict[str, int]:
    """Return when TCP probes the other side, under the names of the driver's options or the server's."""
    idle = settings.keepalive_idle_s
    return {
        f"{prefix}_idle": idle,
        f"{prefix}_interval": max(1, idle // 3),
        f"{prefix}_count": _KEEPALIVE_PROBES,
    }


def _prepare_session(settings: PostgresSettings, given: str) -> Callable[[Any, object], None]:
    timeouts = (
        ("lock_timeout", settings.lock_timeout_s),
        ("statement_timeout", settings.statement_timeout_s),
        ("idle_in_transaction_session_timeout", settings.idle_in_transaction_timeout_s),
    )
    # They are set by one statement in one round trip, because poolers refuse them as start-up options.
    wanted = [
        f"SET {name} = {round(seconds * 1000)}" for name, seconds in timeouts if f"{name}=" not in given
    ]
    # Binary arrays hold UTF-8, whatever the database's own encoding.
    utf8 = "SET client_encoding = 'UTF8'"
    # A session whose client has vanished keeps its locks until the server notices. Not every server that speaks
    # PostgreSQL's protocol has these settings, so only those that it lists are set.
    keepalives = _keepalives("tcp_keepalives", settings).items()
    listed = ", ".join(f"('{name}', '{value}')" for name, value in keepalives if f"{name}=" not in given)
    if listed:
        wanted.append(
            f"SELECT set_config(name, v.value, false) FROM (VALUES {listed}) AS v(name, value) "
            "JOIN pg_settings USING (name)"
        )
    wanted.append("SELECT max(setting::bigint) FROM pg_settings WHERE name = 'statement_timeout'")
    statement = "; ".join((utf8, *wanted))

    def prepare(connection: PatientConnection, _record: object) -> None:
        connection.prepared_max = settings.prepared_max
        register_dumpers(connection.adapters)
        connection.answer_timeout_s = settings.connect_timeout_s
        cursor = connection.execute(statement.encode())
        while cursor.nextset():
            pass
        ((milliseconds,),) = cursor.fetchall()
        connection.answer_timeout_s = milliseconds / 1000 + _ANSWER_GRACE_S if milliseconds else None

    return prepare


def wait_forever(connection: Connection) -> None:
    """Let the connection wait for answers without a limit, for statements without a limit on the server either."""
    driver = connection.connection.driver_connection
    if isinstance(driver, PatientConnection):
        driver.answer_timeout_s = None


def has_skip_locked(connection: Connection) -> bool:
    """Return whether the server has ``FOR UPDATE SKIP LOCKED``; some that speak PostgreSQL's protocol do not."""
    try:
        connection.exec_driver_sql(
            "SELECT journal_id FROM journals WHERE journal_id = '' FOR UPDATE SKIP LOCKED"
        )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _NOT_SUPPORTED:
            return False
        raise
    return True


def database_clock_offset(connection: Connection, clock: Clock) -> int:
    """Return how far the server's clock is ahead of this process's monotonic clock, in microseconds.

    The engine of a shared database runs on the database's clock, so that deadlines mean the same in every process.
    Of a few round trips the fastest counts, because its answer is the most recent one (Cristian, 1989).

    Args:
        connection: A connection to PostgreSQL.
        clock: The process's clock, of which the monotonic one counts.
    """
    best_trip, best_offset = None, 0
    for _ in range(_CLOCK_ROUND_TRIPS):
        before = round(clock.monotonic() * 1_000_000)
        row = connection.exec_driver_sql(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).one()
        trip = round(clock.monotonic() * 1_000_000) - before
        if best_trip is None or trip < best_trip:
            best_trip, best_offset = trip, row[0] - (before + trip // 2)
    return best_offset
