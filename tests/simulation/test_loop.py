"""A simulation always ends: what spins is a violation of its seed, whether it takes turns, statements or neither."""

from __future__ import annotations

import asyncio
from itertools import repeat

import pytest
from sqlalchemy.exc import SQLAlchemyError
from tests.simulation import loop, world
from tests.simulation.clients import Session
from tests.simulation.running import report

from outlast import Client
from outlast.errors import OutlastError


async def turns(session: Session, client: Client) -> None:
    for _ in repeat(None):
        await asyncio.sleep(0)


async def statements(session: Session, client: Client) -> None:
    while True:
        try:
            with client.runtime.database.reader() as connection:
                while True:
                    connection.exec_driver_sql("SELECT 1")
        except (OutlastError, SQLAlchemyError):
            await asyncio.sleep(0.01)


async def neither(session: Session, client: Client) -> None:
    while True:
        pass


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spin", [turns, statements, neither])
def test_what_spins_is_found_and_its_command_printed(spin: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "run", spin)
    monkeypatch.setattr(loop, "MOST_STEPS", 20_000)
    monkeypatch.setattr(world, "MOST_CPU_S", 0.3)
    outcome = world.simulate(3)
    assert any("a livelock" in what for what in outcome.violations)
    assert "python -m tests.simulation --seed 3" in report(outcome)
