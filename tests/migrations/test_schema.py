"""The migrated schema is the schema of the tables, on both databases; and no way into it does harm."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect

import outlast_migrations
from outlast.runtime import schema_check
from outlast.runtime.schema_check import ensure_schema
from outlast_migrations import HEAD, REVISIONS, current_revision, downgrade, head_revision, migrate
from outlast_migrations.revisions import VERSION_TABLE
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_store.schema.tables import TABLES, metadata
from outlast_workflow.environment import Environment
from outlast_workflow.errors import SchemaMissingError, SchemaTooNewError, SchemaTooOldError


@pytest.fixture(params=["sqlite-file", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Makes empty databases, on each backend in turn."""
    made: list[Database] = []

    def make() -> Database:
        if request.param == "sqlite-file":
            url = f"sqlite:///{tmp_path}/{len(made)}.db"
        else:
            url = request.getfixturevalue("new_postgresql_url")(migrated=False)
        made.append(Database(DatabaseUrl.parse(url), Environment()))
        return made[-1]

    yield make
    for database in made:
        database.dispose()


@pytest.fixture
def empty(new_database: Callable[[], Database]) -> Iterator[Connection]:
    connection = new_database().writer()
    yield connection
    connection.close()


# --- what the schema is ----------------------------------------------------------------------------------------------

_POSTGRESQL_SCHEMA = """
SELECT c.relname, 'column', a.attname, a.attnum || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
       || ' ' || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT conrelid::regclass::text, 'constraint', conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT tablename, 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
ORDER BY 1, 2, 3
"""


def _schema(connection: Connection) -> list[tuple[str, ...]]:
    """Everything that the database itself knows of the tables, without the one that holds the version."""
    if connection.dialect.name == "postgresql":
        rows = connection.exec_driver_sql(_POSTGRESQL_SCHEMA)
    else:
        rows = connection.exec_driver_sql(
            "SELECT tbl_name, type, name, sql FROM sqlite_master ORDER BY 1, 2, 3"
        )
    return [
        tuple(re.sub(r"\s+", " ", str(part)).strip() for part in row)
        for row in rows
        if row[0] != VERSION_TABLE
    ]


def test_migrating_gives_exactly_the_tables(new_database: Callable[[], Database]) -> None:
    migrated, fresh = new_database().writer(), new_database().writer()
    migrate(migrated)
    metadata.create_all(fresh)
    assert _schema(migrated) == _schema(fresh)
    migrated.close()
    fresh.close()


def test_alembic_finds_no_difference_either(empty: Connection) -> None:
    migrate(empty)
    context = MigrationContext.configure(
        empty,
        opts={
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
        },
    )
    assert compare_metadata(context, metadata) == []


def test_the_comparison_sees_what_it_is_for(empty: Connection) -> None:
    migrate(empty)
    schema = _schema(empty)
    text = "\n".join(" ".join(row) for row in schema)
    assert {row[0] for row in schema} == {table.name for table in TABLES}
    assert text.count(" WHERE ") == sum(
        index.dialect_options[empty.dialect.name]["where"] is not None
        for table in TABLES
        for index in table.indexes
    )
    if empty.dialect.name == "sqlite":
        assert text.count("WITHOUT ROWID") == len(TABLES)
        assert "NOT NULL" in text


def test_down_and_up_again_comes_out_the_same(empty: Connection) -> None:
    migrate(empty)
    before = _schema(empty)
    downgrade(empty)
    assert inspect(empty).get_table_names() == [VERSION_TABLE]
    assert current_revision(empty) is None
    migrate(empty)
    assert _schema(empty) == before
    assert current_revision(empty) == HEAD


def test_every_version_can_be_stopped_at(empty: Connection) -> None:
    for revision in REVISIONS:
        migrate(empty, revision)
        assert current_revision(empty) == revision
    for revision in reversed(REVISIONS):
        downgrade(empty, revision)
        assert current_revision(empty) == revision
        downgrade(empty, "-1" if revision != REVISIONS[0] else "base")


def test_the_versions_listed_are_the_files() -> None:
    script = ScriptDirectory(Path(outlast_migrations.__file__).parent)
    found = [revision.revision for revision in script.walk_revisions()]
    assert tuple(reversed(found)) == REVISIONS
    assert head_revision() == script.get_current_head()


def test_an_engine_will_do_too(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/plain.db")
    migrate(engine)
    with engine.connect() as connection:
        assert current_revision(connection) == HEAD
    engine.dispose()


def test_the_applications_own_alembic_is_left_alone(empty: Connection) -> None:
    empty.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    empty.exec_driver_sql("INSERT INTO alembic_version VALUES ('theirs')")
    migrate(empty)
    assert empty.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one() == "theirs"
    assert current_revision(empty) == HEAD


def test_a_migration_that_fails_leaves_nothing(empty: Connection) -> None:
    empty.exec_driver_sql("CREATE TABLE workers (theirs BIGINT)")
    with pytest.raises(Exception, match="workers"):
        migrate(empty)
    assert inspect(empty).get_table_names() == ["workers"]
    assert current_revision(empty) is None


# --- several at once -------------------------------------------------------------------------------------------------

_MIGRATE = """
import sys
import alembic.runtime.environment
from outlast.runtime import schema_check
from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

database = Database(DatabaseUrl.parse(sys.argv[1]), Environment())
print("ready", flush=True)
sys.stdin.readline()
ensure_schema(database, migrate=True)
"""


def test_processes_that_migrate_at_once_all_succeed(request: pytest.FixtureRequest, new_database) -> None:
    database = new_database()
    url = database.url.sqlalchemy_url.set(drivername=database.backend).render_as_string(hide_password=False)
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _MIGRATE, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert said == ["", "", ""]
    with database.reader() as reader:
        assert current_revision(reader) == HEAD


# --- what a client finds ---------------------------------------------------------------------------------------------


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
    with pytest.raises(SchemaMissingError, match=re.escape("run `outlast migrate --url postgresql://")):
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
