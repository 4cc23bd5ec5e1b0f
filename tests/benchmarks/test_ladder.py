"""The ladder works: tiny sizes, every rung writes the engine's rows; nothing here looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import ladder
from benchmarks.harness.measuring import WrongResultError


def test_every_rung_is_measured(tmp_path: Path) -> None:
    given = ["--rounds", "1", "--count", "12", "--in-flight", "5", "0", "--results", str(tmp_path)]
    assert ladder.main(given) == 0
    (file,) = tmp_path.iterdir()
    figures = json.loads(file.read_text())["figures"]
    rungs = [(one["load"], one["what"]) for one in figures]
    assert rungs == [("5 in flight", rung) for rung in ladder.RUNGS] + [
        ("in sequence", rung) for rung in ladder.IN_SEQUENCE
    ]


def test_a_wrong_result_ends_it_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> list[object]:
        raise WrongResultError("a row is missing")

    monkeypatch.setattr(ladder, "compare", wrong)
    assert ladder.main(["--results", str(tmp_path)]) == 1
