"""``outlast migrate``."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from outlast.cli.common.options import AsJson, Url, database_url
from outlast.cli.common.output import document, show
from outlast.runtime.schema_check import ensure_schema
from outlast_migrations import HEAD, REVISIONS, current_revision, migration_sql
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment
from outlast_workflow.errors import InvalidOptionError, SchemaTooNewError

Sql = Annotated[
    bool, Option("--sql", help="Print the statements instead of running them; on PostgreSQL only.")
]


def migrate(url: Url = None, sql: Sql = False, json: AsJson = False) -> None:
    """Bring the database's schema up to date."""
    parsed = DatabaseUrl.parse(database_url(url))
    if sql and parsed.backend != "postgresql":
        raise InvalidOptionError(
            "--sql is for PostgreSQL: a SQLite file is migrated when it is opened", field="sql"
        )
    database = Database(parsed, Environment())
    try:
        if sql:
            print(_statements(database), end="")
            return
        before = _version(database)
        ensure_schema(database, migrate=True)
        after = _version(database)
    finally:
        database.dispose()
    if json:
        document({"url": parsed.display, "from": before, "to": after, "migrated": before != after})
    elif before == after:
        show(f"{parsed.display} is up to date (version {after})")
    else:
        show(
            f"{parsed.display} was migrated from {f'version {before}' if before else 'no schema'} to version {after}"
        )


def _statements(database: Database) -> str:
    """Return the statements of the migration."""
    found = _version(database)
    if found is not None and found not in REVISIONS:
        raise SchemaTooNewError(found, HEAD)
    return migration_sql(found) if found != HEAD else f"-- the schema is up to date (version {HEAD})\n"


def _version(database: Database) -> str | None:
    connection = database.writer()
    try:
        return current_revision(connection)
    finally:
        connection.close()
