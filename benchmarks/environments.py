"""Environments of their own for the engines that Outlast is measured beside: installed, used, removed."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from rich.console import Console


def install(folder: Path, packages: list[str], console: Console) -> str | None:
    """The interpreter of a new environment with some packages; ``None`` where they can't be installed."""
    venv.create(folder, with_pip=True)
    interpreter = str(folder / "bin" / "python")
    command = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return interpreter
    console.print(f"{', '.join(packages)} can't be installed: the column stays empty")
    return None


def version_of(interpreter: str, package: str) -> str:
    """The version of a package there."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [interpreter, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
