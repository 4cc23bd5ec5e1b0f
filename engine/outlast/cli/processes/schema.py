"""``outlast migrate``."""

from __future__ import annotations

from outlast.cli.common.options import AsJson, Url, database_url
from outlast.cli.common.output import document, show
from outlast.runtime.schema_check import ensure_schema
from outlast_migrations import current_revision
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment


def migrate(url: Url = None, json: AsJson = False) -> None:
    """Bring the database's schema up to date."""
    parsed = DatabaseUrl.parse(database_url(url))
    database = Database(parsed, Environment())
    try:
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


def _version(database: Database) -> str | None:
    connection = database.writer()
    try:
        return current_revision(connection)
    finally:
        connection.close()
