"""The quickstart: one program in three places, which survives what the page does to it, and says so."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.blocking import Client
from outlast_migrations import HEAD

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "quickstart.py"
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
COMMANDS = [
    "pip install '.[web]'",
    "python examples/quickstart.py &",
    "outlast ui --url sqlite:///quickstart.db",
]


@contextmanager
def running(folder: Path) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


def until(process: subprocess.Popen[str], *words: str) -> str:
    """Read what it says until each of the words was said."""
    assert process.stdout is not None
    said = ""
    while not all(word in said for word in words):
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


def until_its_timer_is_recorded(folder: Path) -> None:
    """The code has said that it sleeps; the commit of that may be a moment later."""
    with Client.connect(f"sqlite:///{folder}/quickstart.db") as client:
        while not client.describe("order-1").pending_timers:
            pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_shows_the_program_and_the_way_to_the_browser(page: Path) -> None:
    text = page.read_text()
    (shown,) = re.findall(r'^```python title="examples/quickstart.py"\n(.*?)^```', text, re.M | re.S)
    assert shown == EXAMPLE.read_text()
    commands = re.findall(r"^\$ (.+?)(?:\s+#.*)?$", text, re.M)
    assert any(commands[at : at + 3] == COMMANDS for at in range(len(commands)))


def test_the_page_shows_the_nightly_import_as_it_stands() -> None:
    program = (ROOT / "examples" / "nightly_import.py").read_text()
    (shown,) = re.findall(
        r'^```python title="examples/nightly_import.py"\n(.*?)^```', PAGES[1].read_text(), re.M | re.S
    )
    assert shown == program
    assert len([line for line in program.splitlines() if line]) <= 30


def test_both_pages_show_the_same_output() -> None:
    shown = [
        re.findall(r"^\$ python examples/quickstart.py\n\d.*?^```", page.read_text(), re.M | re.S)
        for page in PAGES
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 1
    assert f"was migrated from no schema to version {HEAD}\n" in shown[0][0]


def test_the_order_outlives_a_kill(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        said = until(first, "sleeping", "kill -9")
        assert f"sqlite:///quickstart.db was migrated from no schema to version {HEAD}" in said
        assert "serves task queue default on sqlite:///quickstart.db" in said
        assert "charging 5 for o-1" in said
        assert f"order-1 has started; kill me with: kill -9 {first.pid}" in said
        assert "alembic" not in said
        until_its_timer_is_recorded(tmp_path)
        first.kill()
    # Nobody can end the order before the second process lives, however long that takes to start.
    with running(tmp_path) as second:
        said = until(second, "is done")
        assert "is lost" in said
        assert "order-1 continues" in said
        assert "shipping o-1" in said
        assert "order-1 is done: receipt-o-1-5" in said
        assert "charging" not in said
        assert second.wait() == 0


def test_control_c_ends_it_in_good_order(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        until(process, "sleeping")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode not in (0, -signal.SIGKILL)
