"""A connection without its wrapping: what the journal's batches run their statements through.

SQLAlchemy's connection adds 5 to 15 µs to a statement that the database itself takes 5 for, and a step of a lone
workflow is seven of them. The drivers' own connections do just what is asked: run text with values, give back a cursor.
Errors are the driver's own; :mod:`holdfast_store.driver_errors` knows both kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import psycopg
from sqlalchemy import Connection

Values = tuple[Any, ...]


class Executes(Protocol):
    """What statements need of a connection: SQLAlchemy's has it, and a :class:`Link` does."""

    @property
    def exec_driver_sql(self) -> Callable[..., Any]:
        """Run text with the driver's own marks, and its values; what comes back has rows and ``rowcount``."""
        ...


class Link:
    """The driver's connection under one of SQLAlchemy's, for as long as that is open. One thread at a time."""

    __slots__ = ("connection", "exec_driver_sql", "pipeline", "qmark")

    def __init__(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        self.connection = connection
        self.exec_driver_sql: Callable[..., Any] = driver.execute
        self.pipeline: Callable[[], AbstractContextManager[Any]] | None = None
        """Where the driver can: a block whose statements are sent together, answered when it ends."""
        if isinstance(driver, psycopg.Connection) and psycopg.Pipeline.is_supported():
            self.pipeline = driver.pipeline
        self.qmark = connection.dialect.paramstyle == "qmark"

    def marked(self, text: str) -> str:
        """A statement written with ``?`` marks, as this driver writes them."""
        return text if self.qmark else text.replace("?", "%s")
