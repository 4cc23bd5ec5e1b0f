"""Property tests are judged by what they find, never by how long a busy machine takes; no test leaves a run behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.workflow import driver, leftovers

settings.register_profile(
    "outlast",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("outlast")


@pytest.fixture(autouse=True)
def evict_machines() -> Iterator[None]:
    yield
    while driver.made:
        driver.made.pop().evict()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No garbage collection, so that :func:`tests.workflow.leftovers.left_behind` sees what needs one."""
    gc.collect()
    leftovers.BEFORE[:] = leftovers.left_behind()
    gc.disable()
    yield
    gc.enable()
    leftovers.BEFORE.clear()
