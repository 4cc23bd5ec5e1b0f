"""A module made for a test that other processes can import too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest


def imported(folders: pytest.TempPathFactory, name: str, source: str) -> Iterator[ModuleType]:
    """Yield the module; child processes inherit the path that has it."""
    folder = folders.mktemp(name)
    (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
