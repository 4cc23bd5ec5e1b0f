"""Outlast's side of the comparison with its peers works, and its results are checked; the peers are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import beside
from benchmarks.harness.databases import Databases
from benchmarks.harness.measuring import WrongResultError


@pytest.mark.parametrize("name", ["in_flight", "queued", "sequence", "fan_out", "messages"])
def test_a_workload_is_measured(tmp_path: Path, name: str) -> None:
    with Databases(tmp_path) as databases:
        work = beside.Workload("some", name, 20, 20, 5)
        (found,) = beside.compare(databases, "sqlite", work, peer=None, rounds=1, folder=tmp_path)
    for side in (found.ours, found.written):
        (measured,) = side
        assert measured["per_second"] > 0
    assert len(found.bare) == (1 if name in beside.FLOORS else 0)
    assert (found.theirs, found.ratio, found.written_ratio, found.bare_ratio) == ([], None, None, None)


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    sides = [
        [{"per_second": rate} for rate in rates] for rates in ((8, 9, 40), (4, 6, 20), (2, 3, 4), (8, 30, 20))
    ]
    ours, written, theirs, bare = sides
    found = beside.Comparison("sqlite", "some", "dbos", ours, written, theirs, bare)
    assert (found.ratio, found.written_ratio, found.bare_ratio) == (4, 2, 5)


def test_what_fails_is_no_figure() -> None:
    with pytest.raises(WrongResultError, match="KeyError"):
        beside.run_side(
            [sys.executable, str(beside.PEERS / "work.py"), "outlast", "sqlite://", "nonsense", "1", "1"],
            own_path=True,
        )


def test_temporal_s_server_takes_part_on_sqlite_where_its_command_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beside, "TEMPORAL_BIN", None)
    assert beside.peers_on("sqlite") == beside.peers_on("postgresql") == ["dbos"]
    monkeypatch.setattr(beside, "TEMPORAL_BIN", "/somewhere/temporal")
    assert beside.peers_on("sqlite") == ["dbos", "temporal", "temporal-sandboxed"]
    assert beside.peers_on("postgresql") == ["dbos"]
