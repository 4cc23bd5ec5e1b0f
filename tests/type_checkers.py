"""What mypy and pyright find in a snippet: each line marked ``# error`` must be refused by both, and no other line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

FLOORS = ("dag", "engine", "watchdog", "schedules", "runs", "activities", "store", "workflow", "migrations")


def assert_mypy_finds(snippet: str, folder: Path) -> None:
    """Check the snippet with mypy, in a file of the folder."""
    path = _written(snippet, folder)
    output = _run("mypy", "--strict", "--no-error-summary", str(path))
    found = {int(number) for number in re.findall(rf"{path.name}:(\d+): error", output)}
    assert sorted(found) == _marked(snippet), output


def assert_pyright_finds(snippet: str, folder: Path) -> None:
    """Check the snippet with pyright, in a file of the folder."""
    settings = {
        "include": [str(_written(snippet, folder))],
        "extraPaths": [str(ROOT / name) for name in FLOORS],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    output = _run("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder))
    diagnostics: list[dict[str, Any]] = json.loads(output)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in diagnostics if one["severity"] == "error"}
    assert sorted(found) == _marked(snippet), json.dumps(diagnostics, indent=1)


def _written(snippet: str, folder: Path) -> Path:
    path = folder / "typing_snippet.py"
    path.write_text(snippet)
    return path


def _marked(snippet: str) -> list[int]:
    return [number for number, line in enumerate(snippet.splitlines(), 1) if line.endswith("# error")]


def _run(*command: str) -> str:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True).stdout
