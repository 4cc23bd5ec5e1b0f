"""The roots of the drivers' errors. psycopg is loaded by a connection to PostgreSQL only: 6 MB less without it."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import psycopg


def is_psycopg_error(error: BaseException | None) -> TypeGuard[psycopg.Error]:
    """Return whether psycopg raised an error, without loading it: what is not loaded has raised nothing."""
    # Another thread may be in the middle of loading it.
    root = getattr(sys.modules.get("psycopg"), "Error", None)
    return root is not None and isinstance(error, root)


def driver_roots() -> tuple[type[Exception], ...]:
    """Return the root of each loaded driver's errors."""
    root = getattr(sys.modules.get("psycopg"), "Error", None)
    return (sqlite3.Error,) if root is None else (sqlite3.Error, root)
