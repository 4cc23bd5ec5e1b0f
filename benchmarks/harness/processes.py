"""Measuring in another process, whose memory and threads are then those of the measured code alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.measuring import WrongResultError

ROOT = Path(__file__).parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_mib() -> float:
    """Return the memory of this process in MiB; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * PAGE / 2**20


def threads() -> int:
    """Return the number of threads of this process, with those of libraries if the system reports them."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return threading.active_count()


def measured(module: str, *arguments: object) -> dict[str, Any]:
    """Run ``python -m module arguments``, and return the JSON document that it prints last."""
    return answer_of([sys.executable, "-m", module, *map(str, arguments)])


def answer_of(command: Sequence[str], *, timeout_s: float = 600) -> dict[str, Any]:
    """Run a command, and return the JSON document that it prints last.

    Raises:
        WrongResultError: It failed, or printed nothing.
    """
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise WrongResultError(f"{command[1:4]} ended with {done.returncode}: {done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return document
