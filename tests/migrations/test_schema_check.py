"""What a client does about the schema that it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect

from outlast.runtime import schema_check
from outlast.runtime.schema_check import ensure_schema
from outlast_migrations import HEAD, REVISIONS, current_revision
from outlast_migrations.revisions import VERSION_TABLE
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment
from outlast_workflow.errors import SchemaMissingError, SchemaTooNewError, SchemaTooOldError


def _set_revision(database: Database, revision: str) -> None:
    writer = database.writer()
    writer.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    writer.close()


@pytest.mark.parametrize("url", ["sqlite:///{}/x.db", "sqlite://"])
def test_sqlite_migrates_itself(url: str, tmp_path: Path) -> None:
    database = Database(DatabaseUrl.parse(url.format(tmp_path)), Environment())
    for _ in range(2):
        ensure_schema(database)
        with database.reader() as reader:
            assert current_revision(reader) == HEAD
    database.dispose()


def test_postgresql_says_that_it_must_be_migrated(new_postgresql_url: Callable[..., str]) -> None:
    database = Database(DatabaseUrl.parse(new_postgresql_url(migrated=False)), Environment())
    with pytest.raises(SchemaMissingError, match=re.escape("run `outlast migrate --url 'postgresql://")):
        ensure_schema(database)
    with database.reader() as reader:
        assert inspect(reader).get_table_names() == []
    ensure_schema(database, migrate=True)
    ensure_schema(database)
    database.dispose()


def test_an_older_schema_is_migrated_or_refused(monkeypatch, new_database: Callable[[], Database]) -> None:
    database = new_database()
    ensure_schema(database, migrate=True)
    asked: list[Connection] = []
    monkeypatch.setattr(schema_check, "HEAD", "9999")
    monkeypatch.setattr(schema_check, "REVISIONS", (*REVISIONS, "9999"))
    monkeypatch.setattr(schema_check, "run_migrations", asked.append)
    if database.backend == "sqlite":
        ensure_schema(database)
        assert len(asked) == 1
    else:
        with pytest.raises(SchemaTooOldError) as refusal:
            ensure_schema(database)
        assert (refusal.value.found, refusal.value.needed) == (HEAD, "9999")
        assert asked == []


@pytest.mark.parametrize("may_migrate", [False, True])
def test_a_newer_schema_is_refused_and_left_alone(
    may_migrate: bool, new_database: Callable[[], Database]
) -> None:
    database = new_database()
    ensure_schema(database, migrate=True)
    _set_revision(database, "9999")
    with pytest.raises(SchemaTooNewError) as refusal:
        ensure_schema(database, migrate=may_migrate)
    assert (refusal.value.found, refusal.value.needed) == ("9999", HEAD)
    with database.reader() as reader:
        assert current_revision(reader) == "9999"
