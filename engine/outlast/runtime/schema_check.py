"""What a client finds out about the schema when it connects, and does about it.

A SQLite file belongs to the application, so it is migrated on the way in. A PostgreSQL database is shared by processes
of several versions, so when to migrate it is for people to say: ``outlast migrate``.
"""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast_migrations import HEAD, REVISIONS, current_revision
from outlast_migrations import migrate as run_migrations
from outlast_store.database.database import Database, translate
from outlast_store.database.driver_errors import schema_missing
from outlast_store.database.postgresql import wait_forever
from outlast_workflow.errors import SchemaTooNewError, SchemaTooOldError


def ensure_schema(database: Database, *, migrate: bool = False) -> None:
    """Make sure that the database has the tables that this code works with. At head this is one read.

    Args:
        database: The database.
        migrate: Whether a PostgreSQL database is migrated too; SQLite always is.

    Raises:
        SchemaMissingError: It has no tables, and may not be migrated here.
        SchemaTooOldError: Its tables are of an earlier version, and may not be migrated here.
        SchemaTooNewError: Its tables are of a version that this code does not know; never touched.
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
        wait_forever(connection)  # a migration takes as long as it takes
        run_migrations(connection)
    elif found is None:
        raise schema_missing(database.url.display)
    else:
        raise SchemaTooOldError(found, HEAD)
