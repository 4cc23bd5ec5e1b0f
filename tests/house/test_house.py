"""The house rules that no other tool holds: folders, floors, file sizes, and documents that name real things."""

import ast
import graphlib
import inspect
import os
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = [
    "dashboard",
    "serverless",
    "dag",
    "engine",
    "watchdog",
    "schedules",
    "runs",
    "activities",
    "store",
    "workflow",
    "migrations",
]
PACKAGES = [ROOT / path for path in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# A feel turned into a fence: most files are far under it, and one that nears it wants splitting by noun.
LONGEST_FILE = 600

# A folder is a room: with more modules than this it holds more than one noun.
MOST_MODULES = 20


def makefile_targets() -> dict[str, str]:
    text = (ROOT / "Makefile").read_text()
    return dict(re.findall(r"^([a-z-]+):[^\n]*?## (.+)$", text, re.M))


def test_each_folder_holds_one_package_and_nothing_else() -> None:
    assert [path.parent.name for path in PACKAGES] == FOLDERS
    for path in PACKAGES:
        # Tools leave caches where they were started; those are hidden.
        visible = {entry.name for entry in path.parent.iterdir() if not entry.name.startswith((".", "__"))}
        assert visible == {path.name}


def test_each_package_is_typed_and_has_a_docstring() -> None:
    for path in PACKAGES:
        assert (path / "py.typed").is_file()
        assert ast.get_docstring(ast.parse((path / "__init__.py").read_text()))


def test_all_tools_know_the_same_packages() -> None:
    tool = PYPROJECT["tool"]
    names = [path.name for path in PACKAGES]
    assert tool["hatch"]["build"]["dev-mode-dirs"] == FOLDERS
    assert tool["importlinter"]["root_packages"] == names
    assert tool["ruff"]["src"] == FOLDERS
    assert tool["mypy"]["mypy_path"] == FOLDERS
    assert tool["pyright"]["extraPaths"] == FOLDERS
    assert set(tool["mypy"]["files"]) >= set(FOLDERS)
    assert set(tool["pyright"]["include"]) >= set(FOLDERS)


def test_no_module_imports_itself_by_a_detour() -> None:
    """Circles through a package's `__init__` and across packages too, which siblings alone do not show."""
    graph = grimp.build_graph(*(path.name for path in PACKAGES), cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        pytest.fail("an import circle: " + " -> ".join(reversed(error.args[1])))


def test_no_file_is_a_god_file() -> None:
    sizes = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for package in PACKAGES
        for file in package.rglob("*.py")
    }
    assert not {name: lines for name, lines in sizes.items() if lines > LONGEST_FILE}


def test_no_folder_is_a_heap_of_modules() -> None:
    counts = {
        str(folder.relative_to(ROOT)): len([file for file in folder.glob("*.py") if file.stem != "__init__"])
        for package in PACKAGES
        for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]
    }
    assert not {name: modules for name, modules in counts.items() if modules > MOST_MODULES}


def test_no_module_of_the_face_hides_a_public_function() -> None:
    """``outlast.name`` would be the module once somebody has imported it, and the function before."""
    import outlast

    functions = {name for name in outlast.__all__ if inspect.isfunction(getattr(outlast, name))}
    modules = {module.name for module in pkgutil.iter_modules(outlast.__path__)}
    assert not functions & modules


def test_each_make_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", text, re.M)
    assert phony is not None
    assert set(phony[1].split()) == set(makefile_targets())
    assert {"help", "demo", "check", "test", "bench", "nightly"} <= set(makefile_targets())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_make_command_in_a_page_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text(), re.M))
    assert named <= set(makefile_targets())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_python_block_in_a_page_is_python(page: Path) -> None:
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S):
        compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_name_imported_in_a_page_is_public(page: Path) -> None:
    import outlast

    public = outlast.__all__
    for names in re.findall(r"^from outlast import (.+)$", page.read_text(), re.M):
        assert set(names.split(", ")) <= set(public)


def test_the_two_commands_of_the_readme_come_first() -> None:
    commands = re.findall(r"^\$ (.+?)(?:\s+#.*)?$", (ROOT / "README.md").read_text(), re.M)
    assert commands[:2] == ["make demo", "make test"]


def test_ci_checks_and_then_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert [line for line in script.read_text().splitlines() if line.startswith("make ")] == [
        "make check",
        "make test",
    ]


def test_the_changelog_has_a_place_for_the_next_line() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_each_promise_names_a_test_that_would_fail_without_it() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    promises = {
        title.rstrip(".")
        for title in re.findall(r"^\*\*(.+?)\*\*", text.partition("## What would fail")[0], re.M)
    }
    rows = dict(re.findall(r"^\| ([A-Z].+?) \| (.+) \|$", text.partition("## What would fail")[2], re.M))
    assert set(rows) == promises
    for promise, cell in rows.items():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", cell)
        assert named or "benchmarks/" in cell, promise
        for file, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.M), f"{file}::{name}"
