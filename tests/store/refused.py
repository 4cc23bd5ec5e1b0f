"""Statements that the database refuses."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


@contextmanager
def refused(connection: Connection, statement: str, *parameters: object) -> Generator[DBAPIError]:
    """Run a statement that fails, and hand its error to the block."""
    with pytest.raises(DBAPIError) as caught:
        connection.exec_driver_sql(statement, parameters)
    yield caught.value
