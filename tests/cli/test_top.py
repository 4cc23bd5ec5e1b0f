"""``outlast top``, and what a shell may complete."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import ROOT, Command

from outlast import Client, StartOptions


async def _begin(url: str) -> None:
    async with Client.connect(url) as client:
        await client.start("Nobody", id="n-1", task_queue="nowhere", options=StartOptions(run_timeout=30))


def test_it_shows_queues_deadlines_types_and_runs(url: str, outlast: Command) -> None:
    asyncio.run(_begin(url))
    shown = outlast("top", "--once", "--url", url)
    assert shown.code == 0, shown.err
    for words in ("1 open run", "nowhere", "run-timeout", "Nobody", "n-1", "pending"):
        assert words in shown.out
    found = outlast("top", "--once", "--json", "--url", url).json
    assert found["open_runs"] == 1
    assert found["watchdog"]["open"]["run_timeout"]["within_a_minute"] == 1
    (queue,) = found["task_queues"]
    assert (queue["task_queue"], queue["workers"], queue["waiting_runs"]) == ("nowhere", 0, 1)


def test_an_empty_database_is_a_quiet_screen(url: str, outlast: Command) -> None:
    assert outlast("migrate", "--url", url).code == 0
    assert "0 open runs" in outlast("top", "--once", "--url", url).out


def test_an_interval_that_can_not_be_is_refused(url: str, outlast: Command) -> None:
    refused = outlast("top", "--interval", "0", "--url", url)
    assert (refused.code, "interval must be positive" in refused.err) == (2, True)


def test_it_draws_on_a_terminal_until_it_is_interrupted(sqlite_url: str) -> None:
    asyncio.run(_begin(sqlite_url))
    ours, theirs = pty.openpty()
    made = subprocess.Popen(
        [sys.executable, "-m", "outlast", "top", "--interval", "0.05", "--url", sqlite_url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while seen.count(b"n-1") < 4:  # drawn more than once
        seen += os.read(ours, 4096)
    made.send_signal(2)
    while True:
        try:
            if not os.read(ours, 4096):
                break
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert made.wait(30) == 130


@pytest.mark.parametrize(
    ("typed", "expected"), [("outlast desc", "describe"), ("outlast list --att", "--attention")]
)
def test_a_shell_may_complete_commands_and_options(typed: str, expected: str, tmp_path: Path) -> None:
    asked = {
        "_OUTLAST_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "outlast"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **asked},
    )
    assert expected in done.stdout.split()
