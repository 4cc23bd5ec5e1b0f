"""The features: each scenario, in each mode, on each database. Those of another folder by ``OUTLAST_FEATURES``."""

from __future__ import annotations

import pytest
from pytest_bdd import scenarios
from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.telling import FEATURES


@pytest.fixture(autouse=True)
def on_each_database(modes: Modes) -> None:
    """What steps ask for is found too late for parameters."""


scenarios(FEATURES)
