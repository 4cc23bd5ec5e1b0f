"""Stages: one on each backend in turn, and one in memory for the long tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.watchdog.stage import Stage


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    opened = await Stage.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def memory_stage() -> AsyncIterator[Stage]:
    opened = await Stage.open("sqlite://")
    yield opened
    await opened.close()
