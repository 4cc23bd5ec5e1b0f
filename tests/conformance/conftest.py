"""The same bodies on the three stores: SQLite file, SQLite in memory, PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conformance.changes import faults as faults

from outlast.testing import check_database
from outlast_store.database.database import Database
from outlast_store.journal.journal import Journal


@pytest.fixture
async def journal(database: Database) -> AsyncIterator[Journal]:
    """A journal of its own on each store; what it wrote holds the invariants."""
    journal = Journal(database, database.environment)
    journal.committer.connect()
    yield journal
    await journal.close()
    with database.reader() as connection:
        assert check_database(connection) == []
