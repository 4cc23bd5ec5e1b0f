"""The loads work: tiny sizes, results checked, figures written; nothing here looks at a clock."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.harness.figures import Figure
from benchmarks.harness.measuring import WrongResultError
from benchmarks.loads import command as loads
from benchmarks.loads import cpu as loads_cpu

from outlast.worker import tuning

TINY = loads.Sizes(
    items=3,
    published=50,
    timers=20,
    signals=20,
    updates=5,
    recovered=4,
    recoveries=1,
    lease=1.0,
    cached=20,
    stored=50,
    closed=(10, 50),
    open=(10, 50),
    growth_rounds=1,
    cpu_seconds=0.1,
    cpu_rounds=1,
    scaled=20,
    scaling_rounds=1,
    backlog=20,
    backlog_rounds=1,
    slots=6,
    rate=10,
    windows=2,
    admitted=200,
    line=(200, 800),
    tenants=(450, 900),
    line_rounds=1,
    foreign=(10, 50),
    foreign_rounds=1,
    idle_seconds=0.1,
    handed_over=3,
)


def run(folder: Path, database: str, *only: str) -> list[dict[str, Any]]:
    results = folder / "results"
    arguments = ["--folder", str(folder), "--results", str(results), "--database", database, "--untuned"]
    assert loads.main([*arguments, "--only", *only], TINY) == 0
    (file,) = results.iterdir()
    figures: list[dict[str, Any]] = json.loads(file.read_text())["figures"]
    return figures


@pytest.fixture(autouse=True)
def _threads_switch_soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A thread that computes would keep the interpreter for 5 ms each time."""
    monkeypatch.setattr(loads_cpu, "IN_FLIGHT", 3)
    before = sys.getswitchinterval()
    sys.setswitchinterval(tuning.SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(
    ("load", "figures"), [("d", 2), ("e", 6), ("g", 1), ("h", 5), ("j", 2), ("k", 7), ("m", 3), ("o", 3)]
)
def test_a_load_is_measured_on_sqlite(tmp_path: Path, load: str, figures: int) -> None:
    assert len(run(tmp_path, "sqlite", load)) == figures


@pytest.mark.postgresql
def test_loads_are_measured_on_postgresql(tmp_path: Path, invariants: list[str]) -> None:
    """All of them at once: each command starts a server of its own."""
    figures = run(tmp_path, "postgresql", "d", "e", "g", "i")
    assert Counter(one["load"] for one in figures) == {"d": 2, "e": 6, "g": 1, "i": 2}
    invariants.clear()  # the rows of the last were put there without a history


def test_a_workflow_costs_the_same_however_many_runs_there_are(tmp_path: Path, invariants: list[str]) -> None:
    figures = run(tmp_path, "sqlite", "i")
    assert len(figures) == 4
    counted = [one["details"] for one in figures if "statements" in one["what"]]
    assert [(one["statements"], one["rows"], one["bytes"], one["commits"]) for one in counted] == [
        (0, 0, 0, 0),
        (0, 0, 0, 0),
    ]
    invariants.clear()  # its rows were put there without a history


def test_a_look_at_a_queue_asks_the_same_however_much_waits(tmp_path: Path, invariants: list[str]) -> None:
    figures = run(tmp_path, "sqlite", "l")
    assert len(figures) == 6
    assert [one["value"] for one in figures if "statements" in one["what"]] == [0, 0]
    invariants.clear()  # most of its rows were put there without a history


def test_a_claim_asks_the_same_however_much_its_worker_lacks(tmp_path: Path, invariants: list[str]) -> None:
    figures = run(tmp_path, "sqlite", "n")
    assert len(figures) == 4
    assert [one["value"] for one in figures if "statements" in one["what"]] == [0, 0]
    invariants.clear()  # most of its rows were put there without a history


def test_a_target_is_the_most_or_the_least() -> None:
    assert Figure("g", "sqlite", "recovery", 7.0, "s", 7.0).met
    assert not Figure("g", "sqlite", "recovery", 7.1, "s", 7.0).met
    assert Figure("j", "postgresql", "two to one", 1.2, "×", 1.0, at_least=True).met
    assert Figure("d", "sqlite", "timers", 5.0, "/s").met is None


def test_a_wrong_result_makes_it_fail_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> list[Figure]:
        raise WrongResultError("runs that completed: 3, not 4")

    monkeypatch.setitem(loads.LOADS, "g", wrong)
    arguments = ["--folder", str(tmp_path), "--results", str(tmp_path), "--database", "sqlite", "--untuned"]
    assert loads.main([*arguments, "--only", "g", "d"], TINY) == 1
    (file,) = tmp_path.glob("loads-*.json")
    assert len(json.loads(file.read_text())["figures"]) == 2
