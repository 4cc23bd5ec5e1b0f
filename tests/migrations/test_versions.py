"""The versions: a migrated schema is the schema of the tables, and each step can be undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

import outlast_migrations
from outlast_migrations import HEAD, REVISIONS, current_revision, downgrade, head_revision, migrate
from outlast_migrations.revisions import VERSION_TABLE
from outlast_store.database.database import Database
from outlast_store.schema.indexes import complete
from outlast_store.schema.tables import TABLES, metadata

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
            "SELECT tbl_name, type, name, sql FROM sqlite_master WHERE name <> 'sqlite_sequence' ORDER BY 1, 2, 3"
        )
    return [
        tuple(re.sub(r"\s+", " ", str(part)).strip() for part in row)
        for row in rows
        if row[0] != VERSION_TABLE
    ]


def test_migrating_gives_exactly_the_tables(new_database: Callable[[], Database]) -> None:
    migrated, fresh = new_database().writer(), new_database().writer()
    migrate(migrated)
    complete(metadata).create_all(fresh)
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
    assert compare_metadata(context, complete(metadata)) == []


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
        # The outbox and the events have one, as the database gives their numbers.
        assert text.count("WITHOUT ROWID") == len(TABLES) - 2
        assert text.count("AUTOINCREMENT") == 2
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


def _fill(connection: Connection, *only: str) -> None:
    """Give each table, or only some, a row with a value in each column."""
    inspector = inspect(connection)
    for table in only or inspector.get_table_names():
        if table == VERSION_TABLE:
            continue
        columns = inspector.get_columns(table)
        kinds = [str(column["type"]) for column in columns]
        values = ["'x'" if kind == "TEXT" else "true" if kind == "BOOLEAN" else "7" for kind in kinds]
        names = ", ".join(column["name"] for column in columns)
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({', '.join(values)})")


def _rows(connection: Connection) -> dict[str, list[dict[str, object]]]:
    tables = [name for name in inspect(connection).get_table_names() if name != VERSION_TABLE]
    return {
        table: [dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}").mappings()]
        for table in tables
    }


def test_queues_leave_the_rows_before_them_as_they_were(empty: Connection) -> None:
    migrate(empty, "0003")
    _fill(empty)
    before = _rows(empty)
    migrate(empty, "0004")
    after = _rows(empty)
    columns = ("queue", "partition_key", "queued_at", "slot_queue", "start_deadline_at", "alerts")
    assert [after["workflow_runs"][0][name] for name in columns] == [None] * 6
    assert [after["activity_executions"][0][name] for name in columns[:2]] == [None] * 2
    for table, rows in before.items():
        assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows
    downgrade(empty, "0003")
    assert _rows(empty) == before


def test_rows_survive_the_way_up_and_back(empty: Connection) -> None:
    migrate(empty, "0002")
    _fill(empty)
    before = _rows(empty)
    migrate(empty, "0003")
    after = _rows(empty)
    assert [after["workflow_runs"][0][name] for name in ("summary", "progress")] == [None, None]
    assert after["activity_executions"][0]["summary"] is after["timers"][0]["summary"] is None
    assert after["workers"][0]["lease_duration"] is None
    for table, rows in before.items():
        assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows
    downgrade(empty, "0002")
    assert _rows(empty) == before


def test_alerts_that_were_fired_before_anybody_could_acknowledge_them_stay_unique(empty: Connection) -> None:
    migrate(empty, "0010")
    _fill(empty, "alerts", "alert_timers", "timers")
    before = _rows(empty)
    migrate(empty, "0011")
    [alert] = _rows(empty)["alerts"]
    assert alert == {**before["alerts"][0], "acknowledged_at": None, "acknowledged_by": None}
    downgrade(empty, "0010")
    assert _rows(empty) == before
    unique = {index["name"] for index in inspect(empty).get_indexes("alerts") if index["unique"]}
    assert unique == {"ix_alerts_once"}
