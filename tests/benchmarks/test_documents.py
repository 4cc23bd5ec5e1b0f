"""The benchmark of documents works: tiny sizes, results checked, figures written; nothing here looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.documents import command as documents
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import WrongResultError

TINY = documents.Sizes(
    calls=3,
    turns=1,
    tasks=20,
    runs=1,
    paths=10,
    programs=3,
    replays=1,
    files=2,
    waiting=(10, 20),
    events=100,
    deadlines=30,
)


def test_every_part_is_measured(tmp_path: Path) -> None:
    assert documents.main(["--results", str(tmp_path), "--untuned"], TINY) == 0
    (file,) = tmp_path.iterdir()
    figures = json.loads(file.read_text())["figures"]
    assert [one["load"] for one in figures] == [
        "call", "task", "replay", "path", "program", "validate", "events", "events", "deadlines", "deadlines",
    ]  # fmt: skip
    assert all(one["target"] for one in figures)


def test_a_wrong_result_ends_it_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(sizes: documents.Sizes) -> list[Figure]:
        raise WrongResultError("nothing came")

    monkeypatch.setitem(documents.PARTS, "call", wrong)
    assert documents.main(["--results", str(tmp_path), "--untuned", "--only", "call"], TINY) == 1
