"""``outlast migrate``."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Final

from typer import Option

from outlast.cli.common.options import AsJson, Url, database_url
from outlast.cli.common.output import document, show
from outlast.runtime.schema_check import ensure_schema, migrated_words
from outlast_migrations import HEAD, REVISIONS, current_revision, migration_sql
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment
from outlast_workflow.errors import InvalidOptionError, SchemaTooNewError

_STEPS: Final = logging.getLogger("alembic.runtime.migration")

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
        with _steps_on_stderr():
            ensure_schema(database, migrate=True)
        after = _version(database)
    finally:
        database.dispose()
    if json:
        document({"url": parsed.display, "from": before, "to": after, "migrated": before != after})
    elif before == after:
        show(f"{parsed.display} is up to date (version {after})")
    else:
        show(migrated_words(parsed.display, before))


@contextmanager
def _steps_on_stderr() -> Generator[None]:
    """Let Alembic name each step that it takes. Elsewhere it is quiet unless the application gives it a level."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = _STEPS.level
    _STEPS.setLevel(logging.INFO)
    _STEPS.addHandler(handler)
    try:
        yield
    finally:
        _STEPS.removeHandler(handler)
        _STEPS.setLevel(before)


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
