"""The benchmarks work: tiny sizes, results checked, figures written; nothing here looks at a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.harness.databases import Databases
from benchmarks.harness.floor import bare_commits, check, floor
from benchmarks.harness.measuring import WrongResultError, expect
from benchmarks.throughput import command as throughput
from benchmarks.throughput.rounds import Sizes

ROOT = Path(__file__).parents[2]
TINY = Sizes(
    rounds=1,
    in_flight=(4, 1),
    orders=8,
    orders_alone=2,
    steps=4,
    replayed_events=(30,),
    growth_events=60,
    growth_rounds=1,
    written_rounds=1,
)


def run(folder: Path, database: str) -> dict[str, object]:
    results = folder / "results"
    arguments = ["--folder", str(folder), "--results", str(results), "--database", database, "--untuned"]
    assert throughput.main(arguments, TINY) == 0
    (file,) = results.iterdir()
    document: dict[str, object] = json.loads(file.read_text())
    return document


def test_throughput_measures_on_sqlite(tmp_path: Path) -> None:
    document = run(tmp_path, "sqlite")
    assert isinstance(document["measures"], list)
    assert len(document["measures"]) == 4
    assert isinstance(document["growth"], dict)
    assert isinstance(document["as_written"], list)
    for compared in document["as_written"]:
        assert set(compared["shares"]) == {"as written", "as written, tuned", "fastest"}
        assert all(share > 0 for share in compared["shares"].values())


@pytest.mark.postgresql
def test_throughput_measures_on_postgresql(tmp_path: Path) -> None:
    document = run(tmp_path, "postgresql")
    assert document["growth"] is None


def test_wrong_results_and_nothing_else_make_it_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        expect("a workflow's result", "charged nothing", "charged order-000001")

    monkeypatch.setattr(throughput, "measure", wrong)
    arguments = ["--folder", str(tmp_path), "--results", str(tmp_path), "--database", "sqlite", "--untuned"]
    assert throughput.main(arguments, TINY) == 1


def test_the_floor_is_checked(tmp_path: Path) -> None:
    with Databases(tmp_path) as databases, databases.fresh("sqlite") as url:
        assert floor(url, 7, 3).count == 7
        with pytest.raises(WrongResultError, match="rows"):
            check(url, 8)
    with Databases(tmp_path) as databases, databases.fresh("sqlite") as url:
        assert bare_commits(url, 5).count == 5


def test_the_profile_is_printed(tmp_path: Path) -> None:
    """In a process of its own: CPython 3.11.2 spins now and then when a profiler starts beside other threads."""
    few = ["--workflows", "4", "--in-flight", "2", "--top", "3", "--untuned"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.profile_workflow", "--folder", str(tmp_path), *few],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "own time per workflow" in done.stdout
