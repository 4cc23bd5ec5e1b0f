"""The list of commands is made without importing a command, and says what the commands say themselves."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Command, environment

from outlast.cli import plugins
from outlast.cli.commands import COMMANDS
from outlast.cli.common.examples import EXAMPLES
from outlast.cli.common.exit_codes import Exit
from outlast.cli.main import app

TREE: Any = typer.main.get_command(app)
HEAVY = {"sqlalchemy", "pydantic", "fastapi", "orjson", "alembic", "apscheduler", "psycopg", "opentelemetry"}


def imported_by(*arguments: str) -> set[str]:
    """The modules that a process of the command imports."""
    script = f"import sys; from outlast.cli.main import run; run({list(arguments)!r}); print(*sys.modules, sep=chr(10))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment()
    )
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"]], ids=" ".join)
def test_the_list_of_commands_imports_no_command(arguments: list[str]) -> None:
    modules = imported_by(*arguments)
    assert "outlast.cli.main" in modules
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert not {listed.module for listed in COMMANDS.values()} & modules
    assert not {name for name in modules if name.startswith("outlast_dashboard")}


def test_a_command_imports_only_its_own_module() -> None:
    modules = imported_by("count", "--help")
    assert {listed.module for listed in COMMANDS.values()} & modules == {"outlast.cli.workflows.listing"}


@pytest.mark.parametrize("name", TREE.list_commands(None))
def test_each_line_of_the_list_is_what_the_command_says_of_itself(name: str) -> None:
    stub = TREE.get_command(None, name)
    assert stub.load().help.partition("\n")[0] == stub.help


def used() -> dict[str, Any]:
    """The commands of this package and the verbs of its groups, by their words; the demonstration is no tool."""
    found: dict[str, Any] = {}
    for name in set(COMMANDS) - {"demo"}:
        command = TREE.get_command(None, name).load()
        verbs = getattr(command, "commands", {})
        found |= {f"{name} {verb}": one for verb, one in verbs.items()} or {name: command}
    return found


def test_each_command_ends_its_help_with_an_example_that_it_takes_and_the_exit_codes() -> None:
    commands = used()
    assert set(EXAMPLES) == set(commands)
    for words, example in EXAMPLES.items():
        program, *arguments = shlex.split(example)
        assert program == "outlast"
        assert arguments[: len(words.split())] == words.split()
        command = commands[words]
        with command.make_context(words, arguments[len(words.split()) :]):
            shown = " ".join(command.epilog.split())
        assert example in shown
        codes = {int(code) for code in re.findall(r"\b\d+\b", shown.partition("Exit codes:")[2])}
        assert codes == {*Exit}


def test_an_example_is_shown_as_it_is_typed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outlast", "queue", "define", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**environment(), "COLUMNS": "200"},
    )
    assert EXAMPLES["queue define"] in done.stdout
    assert "Exit codes: 0 done" in done.stdout


def test_a_command_of_another_package_is_listed_by_its_entry_point(
    bare: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.metadata.entry_points

    def with_another(**wanted: Any) -> EntryPoints:
        more = EntryPoint("extra", "no.such.module:app", plugins.GROUP)
        return EntryPoints([*found(**wanted), *EntryPoints([more]).select(**wanted)])

    monkeypatch.setattr(plugins, "entry_points", with_another)
    assert " extra " in bare("--help").out
    assert (
        bare("extra").err
        == "outlast: ModuleNotFoundError: No module named 'no' (OUTLAST_DEBUG=1 shows where)\n"
    )


def test_an_extra_that_is_missing_is_told_once(
    bare: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "half_installed.py").write_text(
        "raise ModuleNotFoundError(\"documents need the extra 'serverless': install it\", name='jq')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def half(**_: Any) -> EntryPoints:
        return EntryPoints([EntryPoint("serverless", "half_installed:app", plugins.GROUP)])

    monkeypatch.setattr(plugins, "entry_points", half)
    told = bare("serverless", "list").err
    assert (
        told
        == "outlast: `outlast serverless` needs the extra 'serverless': in a clone, pip install '.[serverless]'\n"
    )


def test_a_mistyped_command_names_the_one_that_was_meant(bare: Command) -> None:
    done = bare("lst")
    assert (done.code, done.out) == (2, "")
    assert "Did you mean 'list'" in done.err
