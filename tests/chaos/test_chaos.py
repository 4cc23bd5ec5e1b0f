"""Real processes under fire: short campaigns here, long ones by ``make nightly`` or ``python -m tests.chaos``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.chaos.campaign import Plan, Report, campaign
from tests.chaos.stage import SqliteStage

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


def assert_nothing_was_lost(report: Report) -> None:
    found = json.dumps(report.to_document(), indent=2)
    assert report.verdict.wrong == [], found
    assert 0 < report.verdict.acknowledged["started"] == report.verdict.acknowledged["result"], found
    assert report.stopped_badly == 0, found


def at_least(database: str, *, workers: int, servers: int) -> dict[str, int]:
    """So many kills, of the server where there is one."""
    return {"kill_worker": workers, **({"kill_server": servers} if database == "postgresql" else {})}


@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_acknowledged_is_lost_whatever_is_killed(database: str) -> None:
    least = at_least(database, workers=1, servers=1)
    plan = Plan(database, seed=1, seconds=3, pause_s=0.1, workers=2, in_flight=8, at_least=least)
    plan.without = ("silence",)  # each takes seconds to be noticed
    report = await campaign(plan)
    assert_nothing_was_lost(report)
    assert all(report.faults[name] >= count for name, count in least.items())
    assert report.verdict.acknowledged["completed"] > 0, "nobody outside has completed an activity"


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_acknowledged_is_lost_in_a_long_war(database: str, seed: int) -> None:
    least = at_least(database, workers=60, servers=10)
    plan = Plan(database, seed=seed, seconds=120, pause_s=0.1, at_least=least)
    assert_nothing_was_lost(await campaign(plan))


async def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.stage._done", lambda command: False)  # `mount` is not permitted
    async with SqliteStage(tmp_path) as stage:
        assert list(stage.left_out) == ["disk_full"]
