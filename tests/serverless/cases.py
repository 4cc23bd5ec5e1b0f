"""The cases of ``refused.txt``: texts, and where what is wrong with each is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast_serverless.interpreter import pace

HERE = Path(__file__).parent
HEAD = "document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}\n"


class Case(NamedTuple):
    """A text, and the code, pointer and line of each thing that is told about it."""

    title: str
    text: str
    told: frozenset[tuple[str, str, int]]


def whole(text: str) -> str:
    """Return a document of a list of tasks, or of a document's parts."""
    if text.startswith("- "):
        text = "do:\n" + "".join(f"  {line}\n" if line != "---" else "---\n" for line in text.splitlines())
        text = re.sub(r"^  (--- )", r"\1", text, flags=re.M)
    return text if re.search(r"^document:", text, re.M) else HEAD + text


def cases() -> list[Case]:
    """Return all cases."""
    found = []
    for part in (HERE / "refused.txt").read_text().split("\n=== ")[1:]:
        title, _, text = part.partition("\n")
        text = whole(text)
        told = frozenset(
            (code, pointer, number)
            for number, line in enumerate(text.splitlines(), 1)
            for code, pointer in re.findall(r"#! (\w+) ?(\S*)", line)
        )
        found.append(Case(title, text, told))
    return found


def continue_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of documents in this process continue as new at every safe point: results are those of one long run.

    A safe point is before each task of a list and before each event of a listen, outside of forks. In between a run
    always does something. Another process sets ``outlast_serverless.interpreter.pace.TASKS_A_RUN = 1`` by itself.
    """
    monkeypatch.setattr(pace, "TASKS_A_RUN", 1)
