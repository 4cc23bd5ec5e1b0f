"""Code on the page of patterns is a part of the examples, which tests/examples runs in virtual time."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lines(code: str) -> str:
    """The lines without their indentation: a formatter moves the blocks of a page to the left."""
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


def test_each_block_is_a_part_of_its_example() -> None:
    page = (ROOT / "docs" / "patterns.md").read_text()
    blocks = re.findall(r'^```py title="(.+?)"\n(.*?)^```', page, re.M | re.S)
    assert len(blocks) == page.count("```py")
    for example, code in blocks:
        assert lines(code) in lines((ROOT / example).read_text()), f"{example} no longer has:\n{code}"


def test_every_pattern_has_an_example() -> None:
    page = (ROOT / "docs" / "patterns.md").read_text()
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    assert [section.partition(":")[0] for section in sections] == [
        "Saga",
        "Approval",
        "Fan-out",
        "Polling",
        "Agents",
    ]
    assert all("examples/" in section for section in sections)
