"""Real time: on PostgreSQL the engine's clock is the database's, whatever the machine's clock shows."""

from __future__ import annotations

import time

import pytest
from tests.engine.process import until_so

from outlast.client.client import Client
from outlast.runtime import runtime
from outlast_store.schema.ids import first_id_at
from outlast_workflow.environment import SystemClock

HOUR_US = 3_600_000_000
SECOND_US = 1_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_whoever_sets_the_machines_clock_moves_no_deadline(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client.connect(postgresql_url) as client:
        clock = client.runtime.environment.clock
        before = clock.now()
        set_to = time.time_ns() + HOUR_US * 1000
        monkeypatch.setattr(time, "time_ns", lambda: set_to)
        assert 0 <= clock.now() - before < HOUR_US / 2


async def test_a_process_whose_clock_is_ahead_when_it_connects_dates_no_id_ahead(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ahead = time.time_ns() // 1000, time.time_ns() + 24 * HOUR_US * 1000
    monkeypatch.setattr(time, "time_ns", lambda: ahead)
    async with Client.connect(postgresql_url) as client:
        made = client.runtime.environment.ids.next()
    assert first_id_at(now - HOUR_US) < made < first_id_at(now + HOUR_US)


async def test_the_databases_clock_is_measured_again_and_again(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "CLOCK_INTERVAL_S", 0.02)
    async with Client.connect(postgresql_url) as client:
        clock = client.runtime.environment.clock
        assert isinstance(clock, SystemClock)
        clock.follow(HOUR_US)

        async def is_right() -> bool:
            return abs(clock.now() - time.time_ns() // 1000) < SECOND_US  # the server's machine is this one

        assert not await is_right()
        await until_so(is_right)


async def test_a_file_has_the_machines_clock(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its processes are on one machine, and after a restart it is the same one."""
    async with Client.connect(sqlite_url) as client:
        monkeypatch.setattr(time, "time_ns", lambda: HOUR_US * 1000)
        assert client.runtime.environment.clock.now() == HOUR_US
