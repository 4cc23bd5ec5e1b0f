"""A connection without its wrapping: what the journal's batches run their statements through.

SQLAlchemy's connection adds 5 to 15 µs to a statement that the database itself takes 5 for, and a step of a lone
workflow is seven of them. The drivers' own connections do just what is asked: run text with values, give back a cursor.
Errors are the driver's own; :mod:`outlast_store.database.driver_errors` knows both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import psycopg
from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, with_percent_marks


class Executes(Protocol):
    """What statements need of a connection: SQLAlchemy's has it, and a :class:`RawConnection` does."""

    @property
    def exec_driver_sql(self) -> Callable[..., Any]:
        """Run text with the driver's own marks, and its values; what comes back has rows and ``rowcount``."""
        ...


class RawConnection:
    """The driver's connection under one of SQLAlchemy's, for as long as that is open. One thread at a time."""

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
        self.pipelined = isinstance(driver, psycopg.Connection) and psycopg.Pipeline.is_supported()
        """Whether the driver can send statements :meth:`together`."""
        self._driver: Any = driver
        self._beginning = ""

    def begin(self, text: str) -> None:
        """Begin a transaction with the first statement that follows: sent together if that is.

        One that reads gets its answer after the server has said that it waits for the next: from then on it counts how
        long the session stands idle with its locks. psycopg's blocks end with a message that stops the count.
        """
        self._beginning = text
        self.exec_driver_sql = self._first

    def _first(self, text: str, values: Values | None = None) -> Any:
        self.exec_driver_sql = execute = self._execute
        execute(self._beginning)
        return execute(text, values)

    @contextmanager
    def together(self) -> Generator[None]:
        """A block whose statements are sent together; their answers are there when it has ended.

        The server passes over everything after a statement that fails, and that one's error is raised.
        """
        pipeline = self._driver.pipeline()
        pipeline.__enter__()
        try:
            yield
        except BaseException:
            with suppress(Exception):  # with an error in hand psycopg would log this one, values quoted
                pipeline.__exit__(None, None, None)
            raise
        pipeline.__exit__(None, None, None)

    def roll_back(self) -> None:
        """Undo the transaction under way.

        psycopg takes a statement for prepared when it has been sent; what a failed block has passed over never was. Its
        own rollback forgets all of them, here and on the server. What was never begun needs none.
        """
        self.exec_driver_sql = self._execute
        if self.pipelined and not self._driver.closed:
            self._driver.rollback()
        elif not self.qmark or self._driver.in_transaction:  # SQLite refuses a ROLLBACK outside a transaction
            self.exec_driver_sql("ROLLBACK")
