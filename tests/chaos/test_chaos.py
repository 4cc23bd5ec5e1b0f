"""Real processes under fire: short campaigns here, long ones by ``make nightly`` or ``python -m tests.chaos``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.chaos import programs
from tests.chaos.campaign import Plan, Report, campaign
from tests.chaos.judge import judge
from tests.chaos.ledger import Ledger
from tests.chaos.load import LAPS

from holdfast.client import Client
from holdfast.worker import Worker
from holdfast_store.database import Database

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


def assert_nothing_was_lost(report: Report) -> None:
    found = json.dumps(report.to_document(), indent=2)
    assert report.verdict.wrong == [], found
    assert 0 < report.verdict.started == report.verdict.results, found
    assert report.faults["stopped_badly"] == 0, found


@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_acknowledged_is_lost_whatever_is_killed(database: str) -> None:
    report = await campaign(Plan(database, seed=1, seconds=6, pause_s=0.1, workers=2, in_flight=8))
    assert_nothing_was_lost(report)
    assert sum(report.faults.values()) >= 5


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_acknowledged_is_lost_in_a_long_war(database: str, seed: int) -> None:
    least = {"kill_worker": 60, **({"kill_server": 10} if database == "postgresql" else {})}
    plan = Plan(database, seed=seed, seconds=120, pause_s=0.1, at_least=least)
    assert_nothing_was_lost(await campaign(plan))


# --- the judge ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def peace(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Ledger, Path, str]:
    """A workflow that ran in peace: its ledger, its effects, its run id."""
    effects = tmp_path / "effects"
    monkeypatch.setenv(programs.EFFECTS, str(effects))
    monkeypatch.setattr("random.random", lambda: 0.5)
    ledger = Ledger(tmp_path / "ledger")
    url = str(database.url)
    async with Client.connect(url) as client:
        async with Worker(client, workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            handle = await client.start(programs.laps, LAPS, id="laps-1")
            ledger.note("started", "laps-1")
            ledger.note("result", "laps-1", await handle.result())
    return ledger, effects, programs.trace(effects)[0][0]


async def test_the_judge_sees_what_is_wrong(on_disk: Database, peace: tuple[Ledger, Path, str]) -> None:
    ledger, effects, run_id = peace

    def wrong() -> list[str]:
        with on_disk.reader() as connection:
            return judge(connection, ledger, effects).wrong

    assert wrong() == []
    told = effects.read_text()
    effects.write_text(told.split("\n", 1)[1])
    assert "which nobody ran" in "".join(wrong())
    effects.write_text(told + f"{run_id} 1 2\n")
    assert "was run by attempt 2 after it had ended with 1" in "".join(wrong())
    effects.write_text(told + f"{run_id} 1 1\n")
    assert "one claim was run twice" in "".join(wrong())
    effects.write_text(told + f"{run_id} 99 1\n")
    assert "no transaction ever asked for" in "".join(wrong())
    effects.write_text(told)
    ledger.note("started", "laps-2")
    ledger.note("signalled", "laps-1", 7)
    ledger.note("result", "laps-1", "something else")
    found = "\n".join(wrong())
    assert "laps-2 was acknowledged and is not there" in found
    assert "signal 7 of laps-1 was acknowledged and is there 0 times" in found
    assert "laps-1 was said to have returned something else" in found
