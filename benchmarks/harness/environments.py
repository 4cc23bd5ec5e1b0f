"""Environments for the engines that Outlast is compared with: installed, used, removed."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from rich.console import Console


def install(folder: Path, packages: list[str], console: Console) -> str | None:
    """Yield the interpreter of a new environment with some packages; ``None`` if they cannot be installed."""
    venv.create(folder, with_pip=True)
    interpreter = str(folder / "bin" / "python")
    command = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return interpreter
    console.print(f"{', '.join(packages)} cannot be installed: the column stays empty")
    return None


def version_of(interpreter: str, package: str) -> str:
    """Return the version of a package in an environment."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [interpreter, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
