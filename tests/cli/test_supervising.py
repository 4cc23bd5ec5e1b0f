"""`outlast worker --processes N`: real processes that are killed, that end, that are told to stop."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command, Running
from tests.engine.process import until_so

from outlast.cli.processes import supervisor as supervising
from outlast.cli.processes.supervisor import Supervisor

PROGRAMS = "tests.cli.programs"
DEAF = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
PATIENT = "import time; print('here', flush=True); time.sleep(60)"


def supervisor(code: str, count: int = 1, *, grace_s: float = 0) -> Supervisor:
    return Supervisor([sys.executable, "-c", code], count, environment=os.environ, grace_s=grace_s)


class Told:
    """What was printed so far."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture
        self.out = self.err = ""

    def read(self) -> Told:
        out, err = self._capture.readouterr()
        self.out += out.decode()
        self.err += err.decode()
        return self

    async def until(self, text: str, times: int = 1) -> None:
        async def printed() -> bool:
            self.read()
            return (self.out + self.err).count(text) >= times

        await until_so(printed)


@pytest.fixture
def told(capsysbinary: pytest.CaptureFixture[bytes]) -> Told:
    return Told(capsysbinary)


def wait_until(ask: Callable[[], bool]) -> None:
    """Wait for what another process does; the command can't be run inside a running loop."""
    give_up_at = time.monotonic() + 30
    while not ask():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def pids(outlast: Command) -> dict[int, str]:
    return {row["pid"]: row["worker_id"] for row in outlast("workers", "--json").lines}


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_killed_process_is_replaced_and_all_stop_together(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    command = start_process(
        "worker", PROGRAMS, "--processes", "2", "--lease-duration", "1", "--json", "--url", url
    )
    assert sorted(command.line()["process"] for _ in range(2)) == [1, 2]
    done = outlast("start", "Doubling", "--input", "4", "--wait", "--timeout", "30s", "--json")
    assert done.json["result"]["doubled"] == 8
    before = pids(outlast)
    assert len(before) == 2
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    assert command.line()["event"] == "started"

    def replaced() -> bool:
        now = pids(outlast)
        return len(now) == 2 and killed not in now

    wait_until(replaced)
    ended = command.stop()
    assert ended.code == 0, ended.err
    assert sorted(line["process"] for line in ended.lines) == [1, 2]
    assert "was killed by SIGKILL" in ended.err
    assert "Traceback" not in ended.err
    assert pids(outlast) == {}


def test_processes_stop_in_good_order_when_their_supervisor_is_killed(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    command = start_process("worker", PROGRAMS, "--processes", "2", "--json", "--url", url)
    _ = [command.line() for _ in range(2)]
    command.process.kill()

    wait_until(lambda: pids(outlast) == {})


def test_a_process_that_is_told_to_stop_is_replaced_at_once(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    command = start_process(
        "worker", PROGRAMS, "--processes=1", "--task-queue", "a", "--task-queue", "b", "--json", "--url", url
    )
    first = command.line()
    assert first["task_queues"] == ["a", "b"]
    wait_until(lambda: len(pids(outlast)) == 1)
    os.kill(next(iter(pids(outlast))), signal.SIGTERM)
    assert command.line() == {"event": "stopped", "worker_id": first["worker_id"], "process": 1}
    second = command.line()
    assert second["event"] == "started"
    assert second["worker_id"] != first["worker_id"]
    assert command.stop(signal.SIGINT).code == 0


def test_bad_usage_is_not_tried_twice(process: Command, sqlite_url: str) -> None:
    done = process("worker", PROGRAMS, "--processes", "1", "--lease-duration", "0.5", OUTLAST_URL=sqlite_url)
    assert done.code == 2
    assert "[1] outlast: lease duration must be at least 1 second" in done.err
    assert "process 1 ended with exit code 2" in done.err
    assert "starts in" not in done.err


@pytest.mark.parametrize(
    ("options", "url_", "message"),
    [
        (["--processes", "0"], "sqlite:///x.db", "Invalid value for '--processes'"),
        (["--processes", "2"], "sqlite://", "names no file"),
        (["--processes", "2"], "nothing", "that is not a database URL"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_starts(
    bare: Command, options: list[str], url_: str, message: str
) -> None:
    done = bare("worker", PROGRAMS, *options, "--url", url_)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_second_signal_ends_a_worker_at_once(
    start_process: Callable[..., Running], outlast: Command, url: str
) -> None:
    worker = start_process(
        "worker",
        PROGRAMS,
        "--json",
        "--graceful-shutdown-timeout",
        "1h",
        "--url",
        url,
        "--log-level",
        "debug",
    )
    worker.line()
    outlast("start", "hanging", "--id", "w")
    wait_until(lambda: bool(outlast("describe", "w", "--json").json["pending_activities"]))
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: worker.said("another signal ends it at once"))
    assert worker.stop().code == -signal.SIGTERM


# --- the supervisor -------------------------------------------------------------------------------------------------


async def test_what_dies_at_once_again_and_again_ends_it_all(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.001)
    code = (
        "import os, sys, time; time.sleep(60) if os.environ['OUTLAST_WORKER_PROCESS'] == '1' else sys.exit(3)"
    )
    assert await supervisor(code, 2).run() == 3
    err = told.read().err
    assert err.count("process 2 ended with exit code 3 after") == supervising.MOST_EARLY_DEATHS - 1
    assert "process 2 ended with exit code 3 5 times within 10 s of its start: see its log above" in err
    assert "process 1" not in err


async def test_pauses_between_deaths_double(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.01)
    assert await supervisor("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").run() == 1
    assert [pause in told.read().err for pause in ("in 0.01 s", "in 0.02 s", "in 0.04 s", "in 0.08 s")] == [
        True
    ] * 4
    assert "was killed by SIGKILL" in told.err


@pytest.mark.parametrize("first", ["stay", "0"])
async def test_a_database_that_is_away_is_waited_for_once_it_was_there(
    told: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str
) -> None:
    """Who died, or was recycled, can't start again now: no reason to stop the others."""
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(supervising, "EARLY_S", 0.01 if first == "stay" else 3600)
    supervised = supervisor(lives(tmp_path / "lives", first, *["4"] * 7, "stay"))
    running = asyncio.ensure_future(supervised.run())
    if first == "stay":
        await until_so(partial(has_worked, supervised))
        await told.until("here")
        monkeypatch.setattr(supervising, "EARLY_S", 3600)
        os.kill(supervised._running[1].pid, signal.SIGKILL)
    await told.until("here", 2 if first == "stay" else 1)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert told.read().err.count("process 1 ended with exit code 4 after") == 7
    assert "another one starts in 0.064 s" in told.err


async def test_a_database_that_was_never_there_ends_it_all(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.001)
    assert await supervisor("raise SystemExit(4)").run() == 4
    assert "ended with exit code 4 5 times within 10 s of its start" in told.read().err


def lives(path: Path, *codes: str) -> str:
    """A process that ends with another code each time that it is started, or stays."""
    path.write_text(" ".join(codes))
    return (
        f"import pathlib, time; path = pathlib.Path({str(path)!r}); code, *others = path.read_text().split()\n"
        "path.write_text(' '.join(others))\n"
        "if code != 'stay': raise SystemExit(int(code))\n"
        "print('here', flush=True); time.sleep(60)"
    )


async def has_worked(supervised: Supervisor) -> bool:
    return supervised._worked


def test_pauses_grow_to_half_a_minute_and_no_further() -> None:
    assert [supervising._pause(before) for before in (0, 1, 5, 6, 10_000)] == [0.5, 1, 16, 30, 30]


async def test_a_system_short_of_processes_is_asked_again(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.001)
    start, short, open_files = asyncio.create_subprocess_exec, [errno.EAGAIN, errno.ENOMEM], len(files())

    async def start_or_not(*command: Any, **options: Any) -> Any:
        if short:
            number = short.pop(0)
            raise OSError(number, os.strerror(number))
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_or_not)
    assert await supervisor("raise SystemExit(2)").run() == 2
    assert (
        "cannot be started (Resource temporarily unavailable); the start is retried in 0.001 s"
        in told.read().err
    )
    assert "the start is retried in 0.002 s" in told.err
    assert "process 1 ended with exit code 2" in told.err
    assert len(files()) == open_files


def files() -> list[str]:
    """What this process has open."""
    return os.listdir("/proc/self/fd")


async def test_a_signal_while_it_waits_to_start_another_ends_the_wait(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 3600)
    running = asyncio.ensure_future(supervisor("raise SystemExit(1)").run())
    await told.until("starts in 30 s")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


async def test_a_second_signal_kills_what_does_not_listen(told: Told) -> None:
    running = asyncio.ensure_future(supervisor(DEAF, 2, grace_s=3600).run())
    await told.until("deaf", 2)
    os.kill(os.getpid(), signal.SIGINT)
    await told.until("stopping 2 processes; another signal kills them")
    os.kill(os.getpid(), signal.SIGINT)
    assert await running == 130


async def test_what_is_not_done_after_its_grace_is_killed(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "PATIENCE_S", 0.05)
    running = asyncio.ensure_future(supervisor(DEAF).run())
    await told.until("deaf")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert "process 1 did not stop within 0.05 s; it is killed" in told.read().err


async def test_each_line_bears_the_number_of_its_process(told: Told) -> None:
    code = "import sys; print('a\\nb', file=sys.stderr); print('x' * 3_000_000); print('end', end=''); sys.exit(2)"
    assert await supervisor(code).run() == 2
    told.read()
    assert "[1] a\n[1] b\n" in told.err
    assert told.out.endswith("[1] end\n")
    assert told.out.replace("[1] ", "").replace("\n", "") == "x" * 3_000_000 + "end"


async def test_what_a_process_leaves_behind_ends_with_it(told: Told) -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True); sys.exit(2)"
    )
    assert await supervisor(code).run() == 2
    left = int(told.read().out.removeprefix("[1] "))
    wait_until(lambda: is_gone(left))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; nobody here may be there to reap it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
