"""Running migrations, up and down: one transaction, whatever the number of steps.

Any number of processes may migrate one database at once. One of them does it; the others wait, then find nothing left
to do. On SQLite they queue for the write lock. On PostgreSQL they queue for the row that holds the version. If there is
no such row yet, the second process fails on the first table that both create, and starts again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from outlast_migrations.revisions import VERSION_TABLE, current_revision

if TYPE_CHECKING:
    from alembic.config import Config

_HERE: Final = Path(__file__).parent
_ATTEMPTS: Final = 20
_ATTEMPTS_TO_CREATE: Final = 3
_PAUSE_S: Final = 0.1

_SQLITE_BUSY: Final = frozenset({5, 6})
# A deadlock, a serialization failure, a lock that took too long.
_POSTGRESQL_RETRY: Final = frozenset({"40P01", "40001", "55P03"})
# Another process has created it meanwhile, or the application has a table of that name for good.
_POSTGRESQL_EXISTS: Final = frozenset({"23505", "42P07", "42710"})

_alembic_lock: Final = threading.Lock()
"""Alembic's ``op`` is one object for the whole process."""


def migrate(bind: Engine | Connection, revision: str = "head") -> str | None:
    """Bring the schema up to a version. Nothing happens if it is there already.

    Return the version that it had. A process that has waited for another's migration gets the version which that left.

    Args:
        bind: An engine, or a connection with no transaction open. It is put into driver-level autocommit, because
            BEGIN and COMMIT are run here.
        revision: The version to reach.
    """
    with _quiet():
        from alembic.command import upgrade

        return _run(bind, lambda config: upgrade(config, revision))


def downgrade(bind: Engine | Connection, revision: str = "base") -> None:
    """Take the schema back to a version. What the newer tables and columns hold is lost.

    Args:
        bind: As for :func:`migrate`.
        revision: The version to reach; ``base`` removes every table but the one that holds the version.
    """
    with _quiet():
        from alembic.command import downgrade as alembic_downgrade

        _run(bind, lambda config: alembic_downgrade(config, revision))


def migration_sql(found: str | None, revision: str = "head") -> str:
    """Return the statements that bring a PostgreSQL database up to a version, for somebody else to run.

    Args:
        found: The version that it has; ``None`` if it has no tables.
        revision: The version to reach.
    """
    with _quiet():
        from alembic.command import upgrade

        written = StringIO()
        with _alembic_lock:
            upgrade(_config(written, dialect="postgresql"), f"{found or 'base'}:{revision}", sql=True)
    return written.getvalue()


def _config(output: TextIO | None = None, **attributes: Any) -> Config:
    """Return Alembic's configuration. It needs no ini file."""
    # Imported here, because most processes never migrate anything and Alembic takes a while to load.
    from alembic.config import Config

    config = Config(output_buffer=output, attributes=attributes)
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config


def _run(bind: Engine | Connection, command: Callable[[Config], None]) -> str | None:
    with _autocommit_connection(bind) as connection:
        attempt = 0
        while True:
            attempt += 1
            try:
                return _attempt(connection, command)
            except DBAPIError as error:
                if attempt >= _attempts(error):
                    raise
                time.sleep(_PAUSE_S)


def _attempt(connection: Connection, command: Callable[[Config], None]) -> str | None:
    with one_transaction(connection), _alembic_lock:
        found = current_revision(connection)
        command(_config(connection=connection))
        return found


@contextmanager
def one_transaction(connection: Connection) -> Generator[None]:
    """Commit what is done inside as one, and roll it back if something fails.

    Args:
        connection: A connection in driver-level autocommit, with no transaction open.
    """
    _begin(connection)
    try:
        yield
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
        raise


def _begin(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    connection.exec_driver_sql("BEGIN")
    # Neither a migration nor the wait for another process's migration has a limit.
    for setting in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {setting} = 0")
    if connection.exec_driver_sql(f"SELECT to_regclass('{VERSION_TABLE}')").scalar() is not None:
        connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE} FOR UPDATE").all()


@contextmanager
def _quiet() -> Generator[None]:
    """Keep what Alembic says to its INFO log out of the log of applications, which did not ask for a migration.

    A level that the application has set for ``alembic`` is obeyed, and nothing is left changed.
    """
    names = ("alembic", "alembic.runtime", "alembic.runtime.migration", "alembic.runtime.plugins")
    loggers = [logging.getLogger(name) for name in names]
    if any(logger.level != logging.NOTSET for logger in loggers):
        yield
        return
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.thread != thread

    for logger in loggers:
        logger.addFilter(keep)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(keep)


@contextmanager
def _autocommit_connection(bind: Engine | Connection) -> Generator[Connection]:
    if isinstance(bind, Engine):
        with bind.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")
    elif _in_autocommit(bind):
        yield bind
    else:
        yield bind.execution_options(isolation_level="AUTOCOMMIT")


def _in_autocommit(connection: Connection) -> bool:
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        return driver.isolation_level is None
    return bool(driver.autocommit)


def _attempts(error: DBAPIError) -> int:
    """Return how often to try in all what failed with this error."""
    state = getattr(error.orig, "sqlstate", None)
    if state in _POSTGRESQL_EXISTS:
        return _ATTEMPTS_TO_CREATE
    busy = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _SQLITE_BUSY
    return _ATTEMPTS if busy or state in _POSTGRESQL_RETRY else 1
