"""Migrating: several processes at once, a failure half-way, and an application with an Alembic of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect

from outlast_migrations import HEAD, current_revision, migrate


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
