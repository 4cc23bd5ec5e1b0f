"""``outlast migrate``."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, Final

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
    """Name each step that Alembic takes. Elsewhere it is quiet unless the application gives it a level."""
    handler = logging.StreamHandler()
    handler.setFormatter(_StepWords())
    handler.addFilter(lambda record: bool(_steps_of(record)))
    before = _STEPS.level
    _STEPS.setLevel(logging.INFO)
    _STEPS.addHandler(handler)
    try:
        yield
    finally:
        _STEPS.removeHandler(handler)
        _STEPS.setLevel(before)


class _StepWords(logging.Formatter):
    """Words a record of Alembic about a step in our own way."""

    def format(self, record: logging.LogRecord) -> str:
        [step] = _steps_of(record)
        return f"version {', '.join(step.to_revisions)}: {step.doc}"


def _steps_of(record: logging.LogRecord) -> list[Any]:
    """Return the step that a record is about, if it is about one."""
    given = record.args if isinstance(record.args, tuple) else ()
    return [one for one in given if hasattr(one, "to_revisions")]


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
