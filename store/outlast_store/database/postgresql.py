"""Connecting to PostgreSQL: psycopg 3, autocommit, and timeouts that end a hanging statement before a lease ends.

Imported where a database is PostgreSQL: the driver takes 6 MB of each process that loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import Connection, Dialect, Engine, NullPool, QueuePool, create_engine, event

from outlast_store.database import postgres_dumpers
from outlast_store.database.postgres_settings import PostgresSettings
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import SystemClock

_READERS_KEPT: Final = 2
_READERS_AT_MOST: Final = 8
_KEEPALIVE_PROBES: Final = 3
_READER_WAIT_S: Final = 10.0
_POLL_S: Final = 0.1
"""How often psycopg checks, while it waits, whether it was interrupted."""
_LONGEST_POLL_S: Final = 3 * _POLL_S
"""What one of these checks counts at most towards the server's silence."""
_CLOCK: Final = SystemClock()
"""Waiting for a real server takes real time, whatever clock the engine runs on."""
_ANSWER_GRACE_S: Final = 3.0
"""How long an answer may be under way, on top of what a statement may take."""


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
    postgres_dumpers.register(adapters)


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
