"""Alembic's own command on the versions: it needs no more than the address of a database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.command import revision
from alembic.config import Config
from sqlalchemy import Connection

import outlast_migrations
from outlast_migrations import HEAD, migrate, migration_sql
from outlast_migrations.revisions import REVISIONS

ROOT = Path(__file__).parents[2]


def alembic(url: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "OUTLAST_URL"}
    if url is not None:
        environment["OUTLAST_URL"] = url
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "alembic", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_migrates_and_finds_no_difference_to_the_tables(shared_url: str) -> None:
    assert alembic(shared_url, "upgrade", "head").returncode == 0
    assert alembic(None, "-x", f"url={shared_url}", "current").stdout.startswith(f"{HEAD} (head)")
    assert "No new upgrade operations detected" in alembic(shared_url, "check").stdout
    assert alembic(shared_url, "downgrade", "-1").returncode == 0
    assert alembic(shared_url, "current").stdout.startswith(REVISIONS[-2])


def test_without_a_database_it_says_what_to_give() -> None:
    done = alembic(None, "current")
    assert done.returncode != 0
    assert "set OUTLAST_URL" in done.stderr + done.stdout


def test_a_new_version_is_written_from_the_template(tmp_path: Path) -> None:
    folder = shutil.copytree(Path(outlast_migrations.__file__).parent, tmp_path / "migrations")
    config = Config()
    config.set_main_option("script_location", str(folder))
    revision(config, "a column", rev_id="9999")
    (written,) = folder.glob("versions/9999*.py")
    found: dict[str, Any] = {}
    exec(written.read_text(), found)
    assert (found["revision"], found["down_revision"]) == ("9999", HEAD)
    assert found["__doc__"] == "a column."
    assert found["upgrade"]() is None


@pytest.mark.parametrize("found", [None, *REVISIONS[:-1]])
def test_written_statements_lead_to_the_same_version(found: str | None, empty: Connection) -> None:
    if empty.dialect.name == "sqlite":
        return
    if found is not None:
        migrate(empty, found)
    empty.exec_driver_sql(migration_sql(found).replace("%", "%%"))
    assert empty.exec_driver_sql("SELECT version_num FROM outlast_schema").scalar_one() == HEAD
