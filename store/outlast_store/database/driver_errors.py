"""What a database's error means: whether to try again, whether the connection is lost, and what to tell the user.

Drivers put payloads into their messages (the failing row, a statement's parameters), so nothing here quotes more than
the server's primary message.
"""

from __future__ import annotations

import re
import shlex
import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy import exc as sqlalchemy_errors

from outlast_store.database.driver_roots import is_psycopg_error
from outlast_store.database.statements import STALE
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.errors import (
    DamagedHistoryError,
    OutlastError,
    SchemaMissingError,
    StoreError,
    StoreReadOnlyError,
    StoreUnreachableError,
    UnstorableValueError,
)

if TYPE_CHECKING:
    import psycopg

_SQLITE_BUSY: Final = 5
_SQLITE_LOCKED: Final = 6
_SQLITE_READONLY: Final = 8
_SQLITE_CORRUPT: Final = 11
_SQLITE_FULL: Final = 13
_SQLITE_CANTOPEN: Final = 14
_SQLITE_PROTOCOL: Final = 15
_SQLITE_TOOBIG: Final = 18
_SQLITE_NOTADB: Final = 26

_SQLITE_TRANSIENT: Final = frozenset({_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_PROTOCOL})

_SERIALIZATION_FAILURE: Final = "40001"
_DEADLOCK_DETECTED: Final = "40P01"
_LOCK_NOT_AVAILABLE: Final = "55P03"
_TOO_MANY_CONNECTIONS: Final = "53300"
_READ_ONLY_TRANSACTION: Final = "25006"
_UNDEFINED_TABLE: Final = "42P01"
_PROGRAM_LIMIT_EXCEEDED: Final = "54000"

_TRANSIENT: Final = frozenset(
    {_SERIALIZATION_FAILURE, _DEADLOCK_DETECTED, _LOCK_NOT_AVAILABLE, _TOO_MANY_CONNECTIONS}
)
# The server ended the session: shutdown, crash, starting up, dropped database, idle too long.
_SESSION_ENDED: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
_FATAL: Final = frozenset({"FATAL", "PANIC"})
# The session lacks the prepared statements that the driver believes it has.
_PLAN_LOST: Final = "26000"
# The server itself does not know whether the transaction was committed (a distributed database may say so).
_COMPLETION_UNKNOWN: Final = "40003"
# What a guarded statement raises: it casts a text that is no number.
_NO_NUMBER: Final = "22P02"
_STALE: Final = re.compile(rf"{STALE}(\w+)")


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's own exception under SQLAlchemy's wrapping, or the exception itself."""
    while isinstance(error, sqlalchemy_errors.StatementError) and error.orig is not None:
        error = error.orig
    return error


def is_disconnect(error: BaseException) -> bool:
    """Return whether the connection is lost, which leaves the outcome of a COMMIT under way unknown."""
    if isinstance(error, sqlalchemy_errors.DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, sqlalchemy_errors.PendingRollbackError | sqlalchemy_errors.ResourceClosedError):
        return True
    raw = driver_error(error)
    if is_psycopg_error(raw):
        state = raw.sqlstate
        if state is None:
            # Only libpq's own errors carry no state: no server answered, or none is left to answer.
            import psycopg

            return isinstance(raw, psycopg.OperationalError | psycopg.InterfaceError)
        if raw.diag.severity_nonlocalized in _FATAL:
            return True
        return state.startswith("08") or state in _SESSION_ENDED or state == _PLAN_LOST
    return isinstance(raw, sqlite3.ProgrammingError) and "closed database" in str(raw)


def is_refusal(error: BaseException) -> bool:
    """Return whether the database refused, on a connection that survives, so that nothing was committed."""
    if is_disconnect(error):
        return False
    raw = driver_error(error)
    if is_psycopg_error(raw):
        return raw.sqlstate not in (None, _COMPLETION_UNKNOWN)
    return isinstance(raw, sqlite3.Error)


def is_transient(error: BaseException) -> bool:
    """Return whether the same work may succeed when done again, on a new connection if the old one is lost."""
    if is_disconnect(error):
        return True
    raw = driver_error(error)
    if is_psycopg_error(raw):
        return raw.sqlstate in _TRANSIENT
    return isinstance(raw, sqlite3.Error) and _sqlite_code(raw) in _SQLITE_TRANSIENT


def comes_from_conflict(error: BaseException) -> bool:
    """Return whether what user code raised comes from a conflict with another transaction, so that it may be repeated.

    The code may have raised something of its own because of it.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if is_transient(one) and not is_disconnect(one):
            return True
        one = one.__cause__ or one.__context__
    return False


def is_conflict(error: BaseException) -> bool:
    """Return whether a constraint refused a row, most likely because another process has written one in its place."""
    raw = driver_error(error)
    if is_psycopg_error(raw):
        import psycopg

        return isinstance(raw, psycopg.IntegrityError)
    return isinstance(raw, sqlite3.IntegrityError)


def stale_rows_of(error: BaseException) -> str | None:
    """Return the table in which a guarded statement on PostgreSQL found other rows than it expected, if that is it."""
    raw = driver_error(error)
    if not is_psycopg_error(raw) or raw.sqlstate != _NO_NUMBER:
        return None
    found = _STALE.search(raw.diag.message_primary or "")
    return found[1] if found is not None else None


def lasts(error: BaseException | None) -> bool:
    """Return whether a change that failed with this error would fail again: the fault is its own."""
    return error is not None and (
        not isinstance(error, OutlastError) or isinstance(error, UnstorableValueError | DamagedHistoryError)
    )


def _unstorable(error: BaseException) -> bool:
    """Return whether the driver or the server does not take a value."""
    if is_psycopg_error(error):
        import psycopg

        return isinstance(error, psycopg.DataError) or error.sqlstate == _PROGRAM_LIMIT_EXCEEDED
    if isinstance(error, sqlite3.Error):
        refused = isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError)
        unbound = refused and "bind" in str(error)
        return unbound or isinstance(error, sqlite3.DataError) or _sqlite_code(error) == _SQLITE_TOOBIG
    return isinstance(error, OverflowError | UnicodeEncodeError)


def translate(error: BaseException, url: DatabaseUrl | None = None) -> Exception:
    """Return the error to raise to the user: typed, one or two sentences, with what to do next.

    Args:
        error: What SQLAlchemy or a driver raised. An error of Outlast's own is returned as it is.
        url: The database it came from, which the message names.
    """
    if isinstance(error, OutlastError):
        return error
    name = url.display if url is not None else "the database"
    raw = driver_error(error)
    if _unstorable(raw):
        return UnstorableValueError(
            f"{name} cannot store a value ({_about(raw)}): it holds text without NUL and lone surrogates, and integers "
            "of 64 bits; nothing was written"
        )
    if isinstance(raw, sqlite3.Error):
        return _translate_sqlite(raw, name, url)
    if is_psycopg_error(raw):
        return _translate_postgresql(raw, name)
    if is_disconnect(error):
        return StoreUnreachableError(f"the connection to {name} is lost")
    if isinstance(raw, sqlalchemy_errors.SQLAlchemyError):
        return StoreError(f"{name}: {type(raw).__name__}")
    return raw if isinstance(raw, Exception) else StoreError(f"{name}: {type(raw).__name__}")


def _sqlite_code(error: sqlite3.Error) -> int:
    """Return the primary result code: SQLite keeps the details in the higher bytes."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _translate_sqlite(error: sqlite3.Error, name: str, url: DatabaseUrl | None) -> StoreError:
    code = _sqlite_code(error)
    if code == _SQLITE_READONLY:
        return read_only(name)
    if code == _SQLITE_NOTADB:
        return StoreUnreachableError(
            f"{name} exists but is not a SQLite database: name another file, or move this one away"
        )
    if code == _SQLITE_CORRUPT:
        return StoreUnreachableError(f"{name} is damaged ({error}): restore it from a backup")
    if code == _SQLITE_CANTOPEN:
        folder = url.path.parent if url is not None and url.path is not None else None
        if folder is not None and not folder.is_dir():
            return StoreUnreachableError(
                f"{name} cannot be opened: there is no folder {folder}; create it first"
            )
        return StoreUnreachableError(
            f"{name} cannot be opened: this user must be able to read and write the file, and to create files "
            "in its folder, where SQLite keeps its journal"
        )
    if code in _SQLITE_TRANSIENT:
        return StoreUnreachableError(
            f"{name} stayed locked by another process for too long: find out which one holds a transaction open"
        )
    if code == _SQLITE_FULL:
        return StoreError(f"the disk that holds {name} is full: free some space and try again")
    if "no such table" in str(error):
        return schema_missing(name)
    return StoreError(f"{name}: SQLite says: {error}")


def _translate_postgresql(error: psycopg.Error, name: str) -> StoreError:
    state = error.sqlstate
    if state == _UNDEFINED_TABLE:
        return schema_missing(name)
    if state == _READ_ONLY_TRANSACTION:
        return StoreReadOnlyError(
            f"{name} accepts no writes: it is a standby, or this user's transactions are read-only; "
            "name the primary (with several hosts: target_session_attrs=read-write)"
        )
    if state is None or state.startswith("28") or state == "3D000":
        return StoreUnreachableError(_unreachable(str(error), name))
    if is_disconnect(error):
        return StoreUnreachableError(f"the connection to {name} is lost: {_primary(error)}")
    return StoreError(f"{name}: PostgreSQL says: {_primary(error)} ({state})")


def _unreachable(text: str, name: str) -> str:
    """Return the message for an error at connect. libpq gives those no state, so their words must do."""
    if "password" in text or "authentication failed" in text:
        return f"{name} refused the login: check the user name and the password"
    if "does not exist" in text and "database" in text:
        return f"{name} does not exist on that server: create the database first"
    # Libpq indents its own advice; the server's follows these words.
    said = [
        line for line in text.splitlines() if line[:1].strip() and not line.startswith(("DETAIL:", "HINT:"))
    ]
    reason = said[-1] if said else "no reason given"
    return f"{name} cannot be reached: {reason}; check the URL, and that the server is running"


def _about(error: BaseException) -> str:
    """Return what is wrong with a value, without the value."""
    if is_psycopg_error(error) and error.sqlstate is not None:
        return f"{type(error).__name__}, {error.sqlstate}"
    # The text of this one would quote the character.
    if isinstance(error, UnicodeEncodeError):
        return error.reason
    return str(error).strip()


def _primary(error: psycopg.Error) -> str:
    return (error.diag.message_primary or type(error).__name__).strip()


def read_only(name: str) -> StoreReadOnlyError:
    """Return the error for a SQLite file that this user may read but not write."""
    return StoreReadOnlyError(
        f"{name} is read-only for this user: give write permission on the file and on its folder (SQLite keeps its "
        "journal there), or name another file"
    )


def schema_missing(name: str) -> SchemaMissingError:
    """Return the error for a database without Outlast's tables."""
    return SchemaMissingError(f"{name} has no Outlast tables yet: {migrate_command(name)}")


def migrate_command(name: str) -> str:
    """Return the command that brings a schema up to date: ready to copy, if ``name`` is a URL that hides nothing."""
    known = "://" in name and "***" not in name
    return f"run `outlast migrate --url {shlex.quote(name) if known else 'URL'}`"
