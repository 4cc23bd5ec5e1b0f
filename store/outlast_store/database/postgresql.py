"""How Outlast connects to PostgreSQL: psycopg 3, autocommit, and timeouts that end what hangs before a lease does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import Connection, Dialect, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from outlast_store.database import postgres_arrays
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Clock

_READERS_KEPT: Final = 2
_READERS_AT_MOST: Final = 8
_KEEPALIVES: Final = 3
_READER_WAIT_S: Final = 10.0
_CLOCK_ROUND_TRIPS: Final = 5
_LOOK_S: Final = 0.1
"""How often psycopg looks whether it was interrupted while it waits."""
_ANSWER_GRACE_S: Final = 3.0
"""How much longer than a statement may take its answer may be on the way."""
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


T = TypeVar("T")


class Silence(psycopg.OperationalError):
    """The server has not answered, and has not said that it is gone either. The connection is closed."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection that does not wait for ever.

    A server ends a statement that takes too long, but one that is stopped, or lost behind a network that swallows all,
    ends nothing. TCP sees that after minutes, if ever: so whoever waits counts how often it has looked in vain.
    """

    answer_timeout_s: float | None = None
    """How long the answer to one statement, or one pipeline, may take; None: as long as it likes."""

    def wait(self, gen: PQGen[T], interval: float = _LOOK_S, *args: Any, **kwargs: Any) -> T:
        """See psycopg. Raises :class:`Silence`, too."""
        if self.answer_timeout_s is None:
            return super().wait(gen, interval, *args, **kwargs)
        looks = max(round(self.answer_timeout_s / max(interval, _LOOK_S)), 1)
        try:
            return super().wait(_heard(gen, looks), interval, *args, **kwargs)
        except Silence:
            self.pgconn.finish()
            raise Silence(f"the server has not answered for {self.answer_timeout_s:g} s") from None


def _heard(gen: PQGen[T], looks: int) -> PQGen[T]:
    """What psycopg waits for, until it has looked so many times in a row and heard nothing.

    Looks are counted, not seconds: a process that was stopped itself does not take that for the server's silence.
    """
    silent = 0
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            silent = 0 if ready else silent + 1
            if silent >= looks:
                raise Silence
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


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
    event.listen(engine, "do_connect", _connect)
    event.listen(
        engine, "connect", _prepare_session(settings, str(url.sqlalchemy_url.query.get("options", "")))
    )
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


def _keepalives(prefix: str, settings: PostgresSettings) -> dict[str, int]:
    """When TCP asks whether the other side is still there, under the names of the driver's options or the server's."""
    idle = settings.keepalive_idle_s
    return {f"{prefix}_idle": idle, f"{prefix}_interval": max(1, idle // 3), f"{prefix}_count": _KEEPALIVES}


def _prepare_session(settings: PostgresSettings, given: str) -> Callable[[Any, object], None]:
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
    wanted.append("SELECT max(setting::bigint) FROM pg_settings WHERE name = 'statement_timeout'")
    statement = "; ".join((utf8, *wanted))

    def prepare(connection: PatientConnection, _record: object) -> None:
        connection.prepared_max = settings.prepared_max
        connection.adapters.register_dumper(int, _BigIntDumper)
        postgres_arrays.register(connection)
        connection.answer_timeout_s = settings.connect_timeout_s
        cursor = connection.execute(statement.encode())
        while cursor.nextset():
            pass
        ((milliseconds,),) = cursor.fetchall()
        connection.answer_timeout_s = milliseconds / 1000 + _ANSWER_GRACE_S if milliseconds else None

    return prepare


def wait_for_ever(connection: Connection) -> None:
    """For what has no limit on the server either: an answer may take as long as it likes from now on."""
    driver = connection.connection.driver_connection
    if isinstance(driver, PatientConnection):
        driver.answer_timeout_s = None


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


def database_clock_offset(connection: Connection, clock: Clock) -> int:
    """How far the server's clock is ahead of this process's monotonic clock, in microseconds.

    The engine of a shared database runs on the database's clock, so that deadlines mean the same in every process.
    Of a few round trips the fastest counts: its answer was the least old (Cristian, 1989).

    Args:
        connection: A connection to PostgreSQL.
        clock: Whose monotonic clock.
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
