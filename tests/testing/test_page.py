"""What docs/testing.md shows runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_first_example_of_the_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)[0]
    module = ModuleType("page_of_testing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, str(PAGE), "exec"), module.__dict__)
    module.__dict__["test_the_reminder_comes_after_a_month"]()
