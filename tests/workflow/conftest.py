"""No test of the workflow floor leaves a run behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.workflow import driver, leftovers


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
