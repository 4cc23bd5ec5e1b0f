"""`outlast migrate`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import Command

from outlast_migrations import HEAD


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


def test_people_are_told_what_was_done(bare: Command, empty: str) -> None:
    assert f"was migrated from no schema to version {HEAD}" in bare("migrate", "--url", empty).out
    assert f"is up to date (version {HEAD})" in bare("migrate", "--url", empty).out


def test_a_password_is_never_shown(bare: Command) -> None:
    done = bare("migrate", "--url", "postgresql://u:s3cret@127.0.0.1:1/x?connect_timeout=2")
    assert done.code == 4
    assert "s3cret" not in done.err + done.out
