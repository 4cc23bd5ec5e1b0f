"""The ledger balances to the cent while workers are killed and stopped, and the server is restarted."""

from __future__ import annotations

import pytest
from tests.chaos.transfers import SETTINGS, campaign, prepared, restarted

from outlast.testing.postgres import TemporaryPostgres


async def test_the_ledger_balances_on_sqlite(sqlite_url: str) -> None:
    wrong, crew = await campaign(sqlite_url, workflows=10, transfers=20, seed=1, faults=5)
    assert not wrong
    assert crew.kills + crew.stops


@pytest.mark.postgresql
async def test_the_ledger_balances_on_postgresql_that_is_killed() -> None:
    with TemporaryPostgres(settings=SETTINGS) as server:
        url = server.create_database("ledger")
        prepared(url)
        wrong, crew = await campaign(
            url, workflows=10, transfers=20, seed=2, faults=6, more_faults=[lambda: restarted(server)]
        )
    assert not wrong
    assert crew.kills + crew.stops


@pytest.mark.nightly
async def test_a_hundred_thousand_transfers_on_sqlite(sqlite_url: str) -> None:
    wrong, _ = await campaign(
        sqlite_url, workflows=1000, transfers=100, seed=3, faults=200, workers=3, pause_s=5
    )
    assert not wrong


@pytest.mark.nightly
@pytest.mark.postgresql
async def test_a_hundred_thousand_transfers_on_postgresql() -> None:
    with TemporaryPostgres(settings=SETTINGS) as server:
        url = server.create_database("ledger")
        prepared(url)
        wrong, _ = await campaign(
            url,
            workflows=1000,
            transfers=100,
            seed=4,
            faults=200,
            workers=3,
            more_faults=[lambda: restarted(server)],
            pause_s=5,
        )
    assert not wrong
