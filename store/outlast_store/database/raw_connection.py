"""The driver's own connection: what the journal's batches run their statements through.

SQLAlchemy's connection adds 5 to 15 µs to a statement for which the database itself takes 5 µs, and a step of a lone
workflow is seven statements. The driver's connection only runs text with values and returns a cursor. Its errors are
the driver's; :mod:`outlast_store.database.driver_errors` understands those and SQLAlchemy's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, with_percent_marks


class Executes(Protocol):
    """What statements need of a connection, which SQLAlchemy's and :class:`RawConnection` both have."""

    @property
    def exec_driver_sql(self) -> Callable[..., Any]:
        """Run text with the driver's own marks, and its values; the result has rows and ``rowcount``."""
        ...


class RawConnection:
    """The driver's connection under one of SQLAlchemy's, for as long as that one is open. One thread at a time."""

    __slots__ = (
        "_beginning",
        "_driver",
        "_execute",
        "_sending",
        "connection",
        "exec_driver_sql",
        "marked",
        "pipelined",
        "qmark",
    )

    def __init__(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        self.connection = connection
        self.exec_driver_sql: Callable[..., Any] = driver.execute
        self._execute: Callable[..., Any] = driver.execute
        self.qmark = connection.dialect.paramstyle == "qmark"
        """Whether the driver takes statements with ``?`` marks as they are."""
        self.marked: Callable[[str], str] = str if self.qmark else with_percent_marks
        """Return a statement written with ``?`` marks as this driver wants it."""
        self.pipelined = connection.dialect.driver == "psycopg" and _has_pipelines()
        """Whether the driver can send statements :meth:`together`."""
        self._driver: Any = driver
        self._beginning = ""

    def begin(self, text: str) -> None:
        """Begin a transaction with the first statement that follows; if that one is sent in a block, so is this.

        A statement that reads gets its answer after the server has said that it waits for the next one. From then on
        the server counts how long the session is idle while it holds locks. psycopg's blocks end with a message that
        stops the count.
        """
        self._beginning = text
        self.exec_driver_sql = self._first

    def _first(self, text: str, values: Values | None = None) -> Any:
        self.exec_driver_sql = execute = self._execute
        execute(self._beginning)
        return execute(text, values)

    @contextmanager
    def together(self) -> Generator[None]:
        """Send the statements of a block together; their answers are there when the block has ended.

        After a statement fails, the server skips the rest of the block, and that statement's error is raised.
        """
        pipeline = self._driver.pipeline()
        pipeline.__enter__()
        try:
            yield
        except BaseException:
            # Given the error, psycopg would log a second one that quotes values.
            with suppress(Exception):
                pipeline.__exit__(None, None, None)
            raise
        pipeline.__exit__(None, None, None)

    def roll_back(self) -> None:
        """Roll back the transaction under way, if one was begun.

        psycopg takes a statement for prepared once it has been sent, but the server prepared none of those that it
        skipped in a failed block. psycopg's own rollback forgets all prepared statements, here and on the server.
        """
        self.exec_driver_sql = self._execute
        if self.pipelined and not self._driver.closed:
            self._driver.rollback()
        # SQLite refuses a ROLLBACK outside a transaction.
        elif not self.qmark or self._driver.in_transaction:
            self.exec_driver_sql("ROLLBACK")


def _has_pipelines() -> bool:
    # Loaded already, by the connection.
    from psycopg import Pipeline

    return Pipeline.is_supported()
