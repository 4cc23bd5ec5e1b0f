"""The benchmark of scale works: tiny sizes, results checked, figures written; nothing here looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import scale
from benchmarks.harness.databases import Backend
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import WrongResultError


@pytest.fixture
def invariants() -> list[str]:
    """The runs that only stand there have no history."""
    return []


def test_both_parts_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "ORIGINALS", 20)
    monkeypatch.setattr(scale, "PASSES", 2)
    sizes = scale.Sizes(open=20, due=10, set_a_second=5, events=240, alone=2)
    given = ["--results", str(tmp_path), "--untuned", "--backend", "sqlite"]
    assert scale.main(given, sizes) == 0
    (file,) = tmp_path.iterdir()
    figures = json.loads(file.read_text())["figures"]
    assert [one["load"] for one in figures] == ["storm"] * 3 + ["retention"] * 2


def test_a_wrong_result_ends_it_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(url: str, backend: Backend, sizes: scale.Sizes) -> list[Figure]:
        raise WrongResultError("one is left")

    monkeypatch.setitem(scale.PARTS, "storm", wrong)
    given = ["--results", str(tmp_path), "--untuned", "--only", "storm", "--backend", "sqlite"]
    assert scale.main(given, scale.QUICK) == 1
