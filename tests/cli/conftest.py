"""The command, run in this process (quick) or in one of its own (where signals, streams and imports matter)."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli import programs
from tests.worker_thread import worker_in_a_thread

from outlast.cli.main import run

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Its documents, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Done]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that run in this process set logging up for themselves."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OUTLAST_URL", "OUTLAST_CODEC", "OUTLAST_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    return call


@pytest.fixture
def outlast(bare: Command, url: str) -> Command:
    """Runs a command on the database."""
    return lambda *arguments: bare(*arguments, "--url", url)


@pytest.fixture
def worker(url: str) -> Iterator[None]:
    """A worker for all programs, in a thread of its own."""
    options = {"workflows": programs.WORKFLOWS, "activities": programs.ACTIVITIES}
    with worker_in_a_thread(url, graceful_shutdown_timeout=0.1, **options):
        yield


def environment(**more: str) -> dict[str, str]:
    """The environment of a command's process, in which the programs can be imported."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **more}


def command_line(*arguments: str) -> list[str]:
    """The real command."""
    return [str(Path(sys.executable).with_name("outlast")), *arguments]


@pytest.fixture
def process() -> Command:
    """Runs the real command in a process of its own."""

    def call(*arguments: str, cwd: Path | None = None, stdin: str | None = None, **env: str) -> Done:
        done = subprocess.run(
            command_line(*arguments),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=cwd,
            input=stdin,
            env=environment(**env),
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return call


class Running:
    """A command that runs until it is told to stop."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            command_line(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._err: list[str] = []
        self._readers = [threading.Thread(target=self._read_out), threading.Thread(target=self._read_err)]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            for line in stdout:
                self._lines.put(line)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                self._err.append(line)

    def line(self) -> Any:
        """Its next document."""
        try:
            return json.loads(self._lines.get(timeout=30))
        except queue.Empty:
            pytest.fail("the command printed nothing:\n" + "".join(self._err))

    def said(self, text: str) -> bool:
        """Whether it has said so on stderr."""
        return any(text in line for line in self._err)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> Done:
        """Send it a signal, and wait for its end; what it printed since the last line is its output."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        for reader in self._readers:
            reader.join()
        rest: list[str] = []
        while not self._lines.empty():
            rest.append(self._lines.get())
        return Done(code, "".join(rest), "".join(self._err))


@pytest.fixture
def start_process() -> Iterator[Callable[..., Running]]:
    """Starts the real command; whatever still runs at the end is killed."""
    running: list[Running] = []

    def start(*arguments: str) -> Running:
        running.append(Running(*arguments))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)
