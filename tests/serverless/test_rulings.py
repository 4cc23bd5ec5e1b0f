"""Each ruling has a line in the docs and a test: see ``rulings.yaml``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.serverless.cases import HERE

PAGES = Path(__file__).parents[2] / "docs" / "serverless"
OPEN = "specification.md, what the specification leaves open"
RULINGS: dict[str, dict[str, list[str]]] = YAML(typ="safe", pure=True).load(
    (HERE / "rulings.yaml").read_bytes()
)
SCENARIO = re.compile(r"^\s*Scenario(?: Outline)?: (.+?)\s*$", re.M)
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.M)


def page(name: str) -> str:
    return " ".join((PAGES / name).read_text().split())


def rows() -> list[str]:
    """Return the first column of the table of what is left open."""
    table = (PAGES / "specification.md").read_text().partition("## What the specification leaves open")[2]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[1:]]


@cache
def known() -> frozenset[str]:
    """Return all scenarios by their names, and all tests as files and names."""
    found: set[str] = set()
    for feature in (HERE / "features").glob("*.feature"):
        found.update(SCENARIO.findall(feature.read_text()))
    for file in HERE.rglob("test_*.py"):
        found.update(f"{file.relative_to(HERE)}::{name}" for name in TEST.findall(file.read_text()))
    return frozenset(found)


def test_every_row_of_the_table_is_tested() -> None:
    assert rows() == list(RULINGS[OPEN])


@pytest.mark.parametrize("name", [name for name in RULINGS if name != OPEN])
def test_the_pages_say_so(name: str) -> None:
    said = page(name).lower()
    assert [words for words in RULINGS[name] if words.lower() not in said] == []


def test_the_tests_are_there() -> None:
    named = {test for found in RULINGS.values() for each in found.values() for test in each}
    assert named - known() == set()
    assert all(each for found in RULINGS.values() for each in found.values())


def test_no_two_scenarios_have_one_name() -> None:
    names = [
        name for file in (HERE / "features").glob("*.feature") for name in SCENARIO.findall(file.read_text())
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []
