"""``outlast upcoming``: what fires when, for people and for programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Callable

import pytest
from tests.cli.conftest import Command, Running, command_line, environment

from outlast import AlertPolicy, Client, Every, StartOptions


@pytest.fixture
def filled(url: str) -> None:
    async def work() -> None:
        async with Client.connect(url) as client:
            for number in range(3):
                options = StartOptions(run_timeout=3600 * (number + 1), alerts=AlertPolicy(at=[0.5]))
                await client.start("Order", "secret", id=f"order-{number}", options=options)
            await client.schedules.create("nightly", "Report", spec=Every(60), task_queue="slow")

    asyncio.run(work())


def test_people_see_what_fires_when(outlast: Command, filled: None) -> None:
    shown = outlast("upcoming").out
    assert shown.splitlines()[0].split()[:2] == ["WHEN", "WHAT"]
    assert (
        shown.index("nightly") < shown.index("alert at 50% of the run timeout") < shown.index("run-timeout")
    )
    assert "secret" not in shown
    assert outlast("upcoming", "--kind", "timer").out == "nothing is due\n"


def test_programs_page_through_it(outlast: Command, filled: None) -> None:
    whole = outlast("upcoming", "--json").json
    assert len(whole["due"]) == 7
    assert (whole["cursor"], whole["stopped"]) == (None, False)
    joined, cursor = [], None
    while True:
        page = outlast("upcoming", "--limit", "3", "--json", *(["--cursor", cursor] if cursor else [])).json
        joined += page["due"]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert joined == whole["due"]
    shown = outlast("upcoming", "--limit", "3").out
    assert outlast("upcoming", "--limit", "3", "--cursor", shown.split("--cursor ")[1].strip()).code == 0


def test_it_is_filtered(outlast: Command, filled: None) -> None:
    def kinds(*given: str) -> list[tuple[str, str]]:
        found = outlast("upcoming", "--json", *given).json["due"]
        return [(one["kind"], one["workflow_id"] or one["schedule_id"]) for one in found]

    assert kinds("--kind", "schedule", "--kind", "timer") == [("schedule", "nightly")]
    assert kinds("--type", "Report") == kinds("--task-queue", "slow") == [("schedule", "nightly")]
    assert kinds("--kind", "alert", "--within", "40m") == [("alert", "order-0")]


def test_programs_follow_it(url: str, filled: None, start_process: Callable[..., Running]) -> None:
    following = start_process("upcoming", "--follow", "--interval", "0.05", "--json", "--url", url)
    assert len(following.line()["due"]) == 7

    async def start() -> None:
        async with Client.connect(url) as client:
            await client.start("Order", id="order-3", options=StartOptions(run_timeout=7))

    asyncio.run(start())
    while len((seen := following.line())["due"]) == 7:
        pass
    assert "order-3" in [one["workflow_id"] for one in seen["due"]]
    done = following.stop(signal.SIGINT)
    assert done.code == 130
    assert "Traceback" not in done.err


def test_people_follow_it_on_a_terminal(sqlite_url: str) -> None:
    async def start(workflow_id: str) -> None:
        async with Client.connect(sqlite_url) as client:
            await client.start("Order", id=workflow_id, options=StartOptions(run_timeout=3600))

    asyncio.run(start("order-1"))
    ours, theirs = pty.openpty()
    following = subprocess.Popen(
        command_line("upcoming", "--follow", "--interval", "0.05", "--url", sqlite_url),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="120", LINES="40"),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen = b""
        while b"order-1" not in seen:
            seen += os.read(ours, 4096)
        asyncio.run(start("order-2"))
        while b"order-2" not in seen:
            seen += os.read(ours, 4096)
        following.send_signal(signal.SIGINT)
        # On Linux a terminal whose other end is closed is an error.
        with contextlib.suppress(OSError):
            while os.read(ours, 4096):
                pass
        assert following.wait(60) == 130
    finally:
        os.close(ours)
        if following.poll() is None:
            following.kill()
            following.wait()


def test_what_cannot_be_asked_is_refused(outlast: Command, filled: None) -> None:
    wrong: tuple[tuple[str, ...], ...] = (
        ("--kind", "tumor"),
        ("--limit", "0"),
        ("--within", "0"),
        ("--within", "soon"),
        ("--cursor", "x"),
    )
    for given in wrong:
        refused = outlast("upcoming", *given)
        assert (refused.code, refused.out) == (2, ""), given
