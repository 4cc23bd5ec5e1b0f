"""All scenarios, with a process that dies once, around commit k, for every k: see ``test_every_commit``."""

from __future__ import annotations

import pytest
from pytest_bdd import scenarios
from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.telling import FEATURES, Told, ToldAtEveryCommit

pytestmark = pytest.mark.nightly


@pytest.fixture
def told(modes: Modes) -> Told:
    """The story of this scenario."""
    return ToldAtEveryCommit(modes)


@pytest.fixture(autouse=True)
def on_each_database(modes: Modes) -> None:
    """What steps ask for is found too late for parameters."""


scenarios(FEATURES)
