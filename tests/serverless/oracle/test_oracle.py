"""Random documents come out as the oracle says: plain, always replayed, continued as new everywhere, and killed.

``python -m tests.serverless.oracle.playing --first 10000 --seeds 5000`` plays others.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.serverless.oracle import oracle
from tests.serverless.oracle.playing import SEEDS_A_DATABASE, players

SEEDS, AT_A_TIME, SEEDS_AT_NIGHT = 75, 25, 10_000


@pytest.fixture
def invariants() -> list[str]:
    """The stages look at their databases by themselves when they end."""
    return []


def wrong(first: int, seeds: int) -> list[str]:
    with players() as playing:
        found = [what for seed in range(first, first + seeds) for what in playing.play(seed)]
        found += playing.close()
    assert playing.counts["uncertain"] < seeds / 5
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_random_documents_come_out_as_the_oracle_says(first: int) -> None:
    assert wrong(first, AT_A_TIME) == []


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_AT_NIGHT, SEEDS_A_DATABASE))
def test_ten_thousand_random_documents(first: int) -> None:
    assert wrong(first, min(SEEDS_A_DATABASE, SEEDS_AT_NIGHT - first)) == []


def test_an_oracle_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared depends on both: one that takes zero for false is found out."""

    def truth_of_python(self: Any, *asked: Any) -> bool:
        return bool(self._asked(*asked))

    monkeypatch.setattr(oracle.Oracle, "_true", truth_of_python)
    assert any("the oracle says" in what for what in wrong(506, 1))
