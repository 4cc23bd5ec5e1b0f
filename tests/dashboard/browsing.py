"""Real processes and a real browser: a worker, `outlast ui`, and Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from outlast import Client
from outlast_dashboard import TokenFile

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *(
        "dashboard",
        "serverless",
        "dag",
        "engine",
        "watchdog",
        "schedules",
        "runs",
        "activities",
        "store",
        "workflow",
    ),
    "migrations",
)


def chromium() -> str:
    """Where the browser is."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise AssertionError("there is no Chromium: `make browser` installs Debian's (package chromium)")


def environment(**more: str) -> dict[str, str]:
    """The environment of a process of ours: this checkout's packages first."""
    paths = [str(ROOT), *(str(ROOT / name) for name in PACKAGES)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


@contextmanager
def process(*arguments: str, log: Path | None = None, **more: str) -> Generator[subprocess.Popen[str]]:
    """A Python process that is told to stop at the end. A file for its log can take more of it than a pipe."""
    with contextlib.ExitStack() as stack:
        errors = subprocess.STDOUT if log is None else stack.enter_context(log.open("wb"))
        made = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield made
    finally:
        made.send_signal(signal.SIGTERM)
        try:
            made.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            made.kill()
            made.communicate()


def first_line(made: subprocess.Popen[str], holding: str) -> str:
    """The first line that holds something."""
    assert made.stdout is not None
    seen: list[str] = []
    for line in made.stdout:
        seen.append(line)
        if holding in line:
            return line
    raise AssertionError("".join(["the process ended:\n", *seen]))


@contextmanager
def served(url: str, folder: Path, *, tokens: bool, log: Path | None = None) -> Generator[tuple[str, str]]:
    """`outlast ui` on a free port: its address, and a token that may do everything (or none)."""
    options: list[str] = []
    secret = ""
    if tokens:
        file = TokenFile(folder / "tokens.json")
        secret = file.add("tester", ["write", "payloads"])
        options = ["--tokens", str(file.path)]
    code = "import sys; from outlast_dashboard.command import app; app(sys.argv[1:])"
    with process("-c", code, "--url", url, "--port", "0", *options, log=log) as made:
        (address,) = re.findall(r"http://[\d.:]+\d", first_line(made, "http://"))[:1]
        yield address, secret


@contextmanager
def working(
    url: str, control: Path, *options: str, module: str = "tests.dashboard.journey"
) -> Generator[None]:
    """A worker with the programs of a module."""
    arguments = ("-m", "outlast", "worker", module, "--url", url, *options)
    with process(*arguments, CONTROL=str(control)) as made:
        first_line(made, "worker")
        yield


def ask(url: str, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Ask the engine, past the browser."""

    async def asking() -> T:
        async with Client.connect(url) as client:
            return await question(client)

    # The browser's own loop runs in this thread: the engine gets another.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(asking())).result()
