"""The schema check: what a client does about the version of the tables when it connects.

A SQLite file belongs to the application, so it is migrated on connect. A PostgreSQL database is shared by processes of
several versions, so an operator decides when to migrate it: ``outlast migrate``.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast_migrations import HEAD, REVISIONS, current_revision
from outlast_migrations import migrate as run_migrations
from outlast_store.database.database import Database, translate
from outlast_store.database.driver_errors import schema_missing
from outlast_workflow.errors import SchemaTooNewError, SchemaTooOldError

logger = logging.getLogger("outlast.runtime")


def ensure_schema(database: Database, *, migrate: bool = False) -> None:
    """Make sure that the database has the tables that this code needs. If it is up to date, this is one read.

    Args:
        database: The database.
        migrate: Whether to migrate a PostgreSQL database; SQLite is always migrated.

    Raises:
        SchemaMissingError: It has no tables, and is not to be migrated here.
        SchemaTooOldError: Its tables are of an earlier version, and are not to be migrated here.
        SchemaTooNewError: Its tables are of a version that this code does not know. They are not touched.
        StoreUnreachableError: No database answers there.
        StoreReadOnlyError: It is a SQLite file that this user may not write.
    """
    connection = database.writer()
    try:
        _ensure(connection, database, migrate=migrate or database.backend == "sqlite")
    except SQLAlchemyError as error:
        raise translate(error, database.url) from error
    finally:
        connection.close()


def _ensure(connection: Connection, database: Database, *, migrate: bool) -> None:
    found = current_revision(connection)
    if found == HEAD:
        return
    if found is not None and found not in REVISIONS:
        raise SchemaTooNewError(found, HEAD)
    if migrate:
        if database.backend == "postgresql":
            from outlast_store.database.postgresql import wait_forever

            # A migration may take long.
            wait_forever(connection)
        before = run_migrations(connection)
        # Another process may have migrated it meanwhile; a database in memory is always new.
        if before != HEAD and database.url.path is not None:
            logger.info(migrated_words(database.url.display, before))
    elif found is None:
        raise schema_missing(database.url.display)
    else:
        raise SchemaTooOldError(found, HEAD)


def migrated_words(display: str, before: str | None) -> str:
    """Say for people what a migration has done.

    Args:
        display: The URL of the database, without its password.
        before: The version that it had.
    """
    return f"{display} was migrated from {f'version {before}' if before else 'no schema'} to version {HEAD}"
