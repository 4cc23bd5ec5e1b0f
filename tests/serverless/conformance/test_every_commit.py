"""A process dies once, just before or just after commit k, or the answer to that is lost: for every k, nothing changes.

These scenarios are played so by ``make test``, all of them at night.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_bdd import scenario
from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.telling import Told, ToldAtEveryCommit

FEATURES = Path(__file__).parents[1] / "features"
SOME = {
    "call": "Content is deserialised",
    "emit": "A subflow's event reaches its parent",
    "fork": "End in a branch ends the workflow",
    "listen": "Correlation with the first value that was seen",
    "run": "The error of another document is that of the task",
    "timeout": "The second attempt is in time",
    "try": "Linear retries",
    "wait": "A wait survives its workers",
}


@pytest.fixture
def told(modes: Modes) -> Told:
    """The story of this scenario."""
    return ToldAtEveryCommit(modes)


@pytest.fixture(autouse=True)
def on_each_database(modes: Modes) -> None:
    """What steps ask for is found too late for parameters."""


for _feature, _name in SOME.items():
    _test = scenario(str(FEATURES / f"{_feature}.feature"), _name)(lambda: None)
    globals()[f"test_{_feature}"] = _test
