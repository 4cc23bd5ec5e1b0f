"""The database that the tests of the checker break."""

from __future__ import annotations

import pytest
from tests.testing.everything import live

from outlast.testing import TestEnvironment


@pytest.fixture(scope="session")
def saved() -> bytes:
    """A database in which the engine has left some of everything, to be copied."""
    return TestEnvironment.run(live)
