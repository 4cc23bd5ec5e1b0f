"""The demonstration as people run it: in processes of its own, with a worker that is really killed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Client
from outlast.demo import main as demo
from outlast.demo import stage as staging
from outlast.demo.checks import check_all
from outlast.demo.evidence import Evidence, collect
from outlast.demo.stage import Pace, Stage, Wishes

ROWS = 2_000
PATIENCE = 120


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outlast.demo", "--quick", "--rows", str(ROWS), *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def assert_it_held(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    assert report["ok"]
    assert (report["rows"], len(report["rejected"])) == (ROWS - 7, 7)
    assert [run["run"]["status"] for run in report["runs"]] == ["continued_as_new"] * 2 + ["completed"]
    deadlines = [run["run"]["execution_deadline_at"] for run in report["runs"]]
    assert len(set(deadlines)) == 1
    pids = {line["pid"] for line in report["executions"]}
    assert report["killed_pid"] in pids
    assert len(pids) == 2
    assert not any(map(is_running, pids))
    return report


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("played")
    return run("--json", "--keep", folder=folder), folder


def test_a_second_worker_finishes_what_the_first_began(
    played: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ended, folder = played
    report = assert_it_held(ended)
    assert Path(report["folder"]).parent == folder
    assert "killed worker 1" in ended.stderr
    assert "worker 2 took over" in ended.stderr


def test_it_holds_on_postgresql_too_and_leaves_nothing_behind(postgresql_url: str, tmp_path: Path) -> None:
    assert_it_held(run("--json", "--url", postgresql_url, folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_is_refused_before_anything_is_written(
    new_postgresql_url: Callable[..., str], tmp_path: Path
) -> None:
    for arguments, code, said in [
        (("--rows", "5"), 2, "--rows must be 100 to"),
        (("--chunk", "0"), 2, "--chunk must be 1 to"),
        (("--rows", "50000", "--chunk", "10"), 2, "--chunk must be at least 50"),
        (("--url", "mysql://there"), 2, "mysql"),
        (("--url", new_postgresql_url(migrated=False)), 4, "outlast migrate"),
    ]:
        ended = run(*arguments, folder=tmp_path)
        assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
    assert list(tmp_path.iterdir()) == []


# --- the checks are not for show ------------------------------------------------------------------------------------


@pytest.fixture
def stage(played: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path) -> Stage:
    """A copy of everything that the demonstration left, to be tampered with."""
    original = next(played[1].glob("outlast-demo-*"))
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    return replace(
        Stage.load(folder),
        folder=str(folder),
        url=f"sqlite:///{folder / 'outlast.db'}",
        warehouse=str(folder / "warehouse.db"),
    )


async def failing(stage: Stage) -> list[str]:
    async with Client.connect(stage.url) as client:
        evidence = await collect(client, stage)
    return [check.name for check in check_all(evidence, killed=True) if not check.ok]


async def test_untampered_everything_holds(stage: Stage) -> None:
    assert await failing(stage) == []


LOST_ROW = "DELETE FROM orders WHERE row = 777"
DAMAGED_AMOUNT = "UPDATE orders SET cents = cents + 1 WHERE row = 777"
UNREPORTED_ROW = "DELETE FROM rejected WHERE row = (SELECT MIN(row) FROM rejected)"
REDONE_CHUNK = (
    "INSERT INTO ledger SELECT 1, 2, 1, 7, 1, 1, 1, begun_at, finished_at FROM ledger WHERE chunk = 1"
)
REWRITTEN_ROWS = "UPDATE orders SET writes = 2 WHERE row < 10"
CHARGED_RESCUE = "UPDATE ledger SET attempt = 2 WHERE execution = 2"
FORGOTTEN_HEARTBEAT = (
    "UPDATE ledger SET from_row = (SELECT from_row FROM ledger WHERE chunk = 4 AND execution = 1) "
    "WHERE chunk = 4 AND execution = 2"
)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (LOST_ROW, ["every valid row arrived once", "the sums match to the cent"]),
        (DAMAGED_AMOUNT, ["the sums match to the cent"]),
        (UNREPORTED_ROW, ["every invalid row was reported"]),
        (REDONE_CHUNK, ["completed work was not redone"]),
        (REWRITTEN_ROWS, ["completed work was not redone"]),
        (CHARGED_RESCUE, ["the rescue was not counted as an attempt"]),
        (FORGOTTEN_HEARTBEAT, ["the interrupted chunk continued"]),
    ],
)
async def test_a_fault_in_the_warehouse_is_found(stage: Stage, statement: str, names: list[str]) -> None:
    with sqlite3.connect(stage.warehouse) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    assert await failing(stage) == names


MOVED_DEADLINE = (
    "UPDATE history_events SET payload = json_set(payload, '$.execution_deadline_at', '2099-01-01T00:00:00+00:00') "
    "WHERE type = 'WorkflowStarted' AND json_extract(payload, '$.run_number') = 2"
)
STALE_RUN_DEADLINE = (
    "UPDATE workflow_runs SET run_deadline_at = (SELECT MIN(run_deadline_at) FROM workflow_runs) "
    "WHERE run_number = 3"
)
UNCOUNTED_ATTEMPTS = (
    "UPDATE history_events SET payload = json_set(payload, '$.attempt', 1) WHERE type = 'ActivityCompleted'"
)
EARLY_TIMER = "UPDATE history_events SET recorded_at = recorded_at - 9000000 WHERE type = 'TimerFired'"
FORGOTTEN_FAILURES = "DELETE FROM workflow_failures"
LOST_END = "DELETE FROM history_events WHERE type = 'TimerFired'"
LEFT_OPEN = "INSERT INTO timers SELECT run_id, 99, 0, NULL FROM workflow_runs WHERE run_number = 3"


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        (MOVED_DEADLINE, "the execution deadline never moved"),
        (STALE_RUN_DEADLINE, "each run had a fresh run deadline"),
        (UNCOUNTED_ATTEMPTS, "the flaky step was retried, and it shows"),
        (FORGOTTEN_FAILURES, "the flaky step was retried, and it shows"),
        (EARLY_TIMER, "the durable sleeps were slept"),
        (LOST_END, "everything that was started has ended"),
        (LEFT_OPEN, "the database keeps every invariant"),
    ],
)
async def test_a_fault_in_the_engine_is_found(
    stage: Stage, statement: str, name: str, invariants: list[str]
) -> None:
    with sqlite3.connect(stage.url.removeprefix("sqlite:///")) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    assert name in await failing(stage)
    invariants.clear()  # of course


async def test_a_fault_makes_it_exit_with_one_and_keep_the_evidence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def tampered(client: Client, stage: Stage) -> Evidence:
        with sqlite3.connect(stage.warehouse) as connection:
            connection.execute("DELETE FROM orders WHERE row = 2")
        connection.close()
        return await collect(client, stage)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(staging, "QUICK", Pace(chunks=3, slices=1, loading=0, pause=0.01, lease=1))
    monkeypatch.setattr(demo, "collect", tampered)
    code = await demo.demonstrate(Wishes(rows=200, kill=False, quick=True))
    said = capsys.readouterr()
    assert code == 1
    assert "✗" in said.out
    assert "rows in the warehouse: 192, not 193" in said.out
    assert "2 of 11 checks failed" in said.err
    assert f"kept {tmp_path}" in said.out
