"""Databases that a test opens itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.conformance.changes import faults as faults

from outlast_store.database.database import (
    Database,
)
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment


@pytest.fixture
def open_database() -> Iterator[Callable[..., Database]]:
    opened: list[Database] = []

    def open_(url: str, **options) -> Database:
        opened.append(Database(DatabaseUrl.parse(url), Environment(), **options))
        return opened[-1]

    yield open_
    for database in opened:
        database.dispose()
