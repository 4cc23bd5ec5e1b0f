"""`outlast migrate`."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from tests.cli.conftest import Command

from outlast_migrations import HEAD, REVISIONS


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def empty(request: pytest.FixtureRequest) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
        return url
    make: Callable[..., str] = request.getfixturevalue("new_postgresql_url")
    return make(migrated=False)


def test_a_new_database_gets_its_tables(bare: Command, empty: str) -> None:
    first = bare("migrate", "--url", empty, "--json")
    assert first.code == 0
    assert first.json["from"] is None
    assert (first.json["to"], first.json["migrated"]) == (HEAD, True)
    again = bare("migrate", "--url", empty, "--json")
    assert (again.json["from"], again.json["migrated"]) == (HEAD, False)
    assert bare("count", "--url", empty).out == "0\n"


@pytest.mark.usefixtures("migrated_step_by_step")
def test_people_are_told_what_was_done(bare: Command, empty: str) -> None:
    first = bare("migrate", "--url", empty)
    assert f"was migrated from no schema to version {HEAD}" in first.out
    told = first.err.splitlines()
    assert [line.split(":")[0] for line in told] == [f"version {one}" for one in REVISIONS]
    again = bare("migrate", "--url", empty)
    assert (again.out.count(f"is up to date (version {HEAD})"), again.err) == (1, "")


def test_a_password_is_never_shown(bare: Command) -> None:
    done = bare("migrate", "--url", "postgresql://u:s3cret@127.0.0.1:1/x?connect_timeout=2")
    assert done.code == 4
    assert "s3cret" not in done.err + done.out


def test_the_statements_can_be_run_by_somebody_else(
    bare: Command, new_postgresql_url: Callable[..., str]
) -> None:
    url = new_postgresql_url(migrated=False)
    written = bare("migrate", "--url", url, "--sql")
    assert written.code == 0
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT to_regclass('workflow_runs')").fetchone() == (None,)
        connection.execute(written.out.encode())
    assert bare("count", "--url", url).out == "0\n"
    assert bare("migrate", "--url", url, "--sql").out == f"-- the schema is up to date (version {HEAD})\n"


def test_a_sqlite_file_has_no_use_for_the_statements(bare: Command, sqlite_url: str) -> None:
    done = bare("migrate", "--url", sqlite_url, "--sql")
    assert (done.code, done.out) == (2, "")
    assert "migrated when it is opened" in done.err
