"""Fixtures for pytest. To use them, put ``pytest_plugins = ["outlast.testing.plugin"]`` into a conftest.

The plugin does not register itself: a test suite that does not use it should not pay for importing the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outlast.testing.activities import ActivityEnvironment
from outlast.testing.environment import TestEnvironment


@pytest.fixture
def outlast_environment() -> Callable[..., TestEnvironment]:
    """Makes environments. At the end of each, all of its runs are replayed, unless ``replay=False`` is given."""

    def make(**options: Any) -> TestEnvironment:
        given: dict[str, Any] = {"replay": True, **options}
        return TestEnvironment(**given)

    return make


@pytest.fixture
def outlast_run() -> Callable[..., Any]:
    """Runs an ``async`` function in virtual time: ``outlast_run(function, *args)``."""
    return TestEnvironment.run


@pytest.fixture
def activity_environment() -> ActivityEnvironment:
    """Runs an activity by itself."""
    return ActivityEnvironment()
