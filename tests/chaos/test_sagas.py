"""Each charge of a saga is kept or refunded, never both, while workers are killed and stopped."""

from __future__ import annotations

import pytest
from tests.chaos.sagas import campaign
from tests.chaos.transfers import prepared

from outlast.testing.postgres import TemporaryPostgres


async def test_charges_are_kept_or_refunded_on_sqlite(sqlite_url: str) -> None:
    wrong, ends, crew = await campaign(sqlite_url, kills=5, seed=1)
    assert not wrong
    assert crew.kills == 5
    assert {"completed", "failed"} <= ends.keys()


@pytest.mark.postgresql
async def test_charges_are_kept_or_refunded_on_postgresql() -> None:
    with TemporaryPostgres() as server:
        url = server.create_database("sagas")
        prepared(url)
        wrong, ends, crew = await campaign(url, kills=5, seed=2)
    assert not wrong
    assert crew.kills == 5
    assert {"completed", "failed"} <= ends.keys()


@pytest.mark.nightly
async def test_a_thousand_kills_on_sqlite(sqlite_url: str) -> None:
    wrong, _, crew = await campaign(sqlite_url, kills=1000, seed=3, workers=3)
    assert not wrong
    assert crew.kills == 1000


@pytest.mark.nightly
@pytest.mark.postgresql
async def test_a_thousand_kills_on_postgresql() -> None:
    with TemporaryPostgres() as server:
        url = server.create_database("sagas")
        prepared(url)
        wrong, _, crew = await campaign(url, kills=1000, seed=4, workers=3)
    assert not wrong
    assert crew.kills == 1000
