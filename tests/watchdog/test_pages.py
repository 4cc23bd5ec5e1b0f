"""The code of the page on timeouts runs as it stands, from top to bottom, in virtual time."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

from outlast_workflow.primitives.enums import RetryState, TimeoutKind

PAGE = Path(__file__).parents[2] / "docs" / "timeouts.md"


def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("timeouts_page")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 7
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), vars(module))  # that is what it is for


def test_the_page_names_each_kind_and_each_retry_state() -> None:
    text = PAGE.read_text()
    for kind in TimeoutKind:
        assert kind.value in text
    for state in RetryState:
        assert f"`{state.value}`" in text
