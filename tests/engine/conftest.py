"""The engine end to end: in virtual time on each store, with runs that stay in memory and runs that never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine import programs

from holdfast.testing import TestEnvironment, VirtualLoop

MakeEnvironment = Callable[..., TestEnvironment]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Coroutine tests of this folder live in virtual time; a module for real time says so itself."""
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture(params=["cached", "always_replay"])
def max_cached(request: pytest.FixtureRequest) -> int:
    """Runs that stay in memory, and runs that come back by replay for every activation."""
    return 1000 if request.param == "cached" else 0


@pytest.fixture(autouse=True)
def _counted_afresh() -> None:
    programs.calls.clear()


@pytest.fixture
def engine(database_url: str, max_cached: int) -> MakeEnvironment:
    """Makes environments on each store, in both modes; by default with all programs."""

    def make(**options: Any) -> TestEnvironment:
        given: dict[str, Any] = {
            "workflows": programs.WORKFLOWS,
            "activities": programs.ACTIVITIES,
            "url": database_url,
            "max_cached_workflows": max_cached,
        }
        return TestEnvironment(**{**given, **options})

    return make


@pytest.fixture
def in_memory() -> MakeEnvironment:
    """As ``engine``, in memory only: for what no store and no mode makes a difference to."""

    def make(**options: Any) -> TestEnvironment:
        given: dict[str, Any] = {"workflows": programs.WORKFLOWS, "activities": programs.ACTIVITIES}
        return TestEnvironment(**{**given, **options})

    return make
