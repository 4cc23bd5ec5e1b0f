"""What readers ask the database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from outlast_store.database.database import Database


@contextmanager
def asked_of(database: Database) -> Generator[list[tuple[str, Any]]]:
    """The statements of the database's readers with their values, until the block ends."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, text: str, values: Any, _context: Any, _many: bool) -> None:
        asked.append((text, values))

    event.listen(database._reader_engine, "before_cursor_execute", note)
    yield asked
    event.remove(database._reader_engine, "before_cursor_execute", note)
