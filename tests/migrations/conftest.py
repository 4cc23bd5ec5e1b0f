"""Empty databases to migrate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment


@pytest.fixture(autouse=True)
def _step_by_step(migrated_step_by_step: None) -> None:
    """Here it is the steps that are tested."""


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
