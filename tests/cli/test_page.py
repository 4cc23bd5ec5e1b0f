"""The page and the command agree: each command, each option, each exit code, both ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from outlast.cli.common.exit_codes import Exit
from outlast.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SECTIONS = dict(re.findall(r"^## outlast (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
TREE: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: TREE.get_command(None, name).load() for name in TREE.list_commands(None)}


def options_of(command: Any) -> set[str]:
    found = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    found = found.union(*(options_of(one) for one in getattr(command, "commands", {}).values()))
    return {name for name in found if name.startswith("--")} - {"--help"}


def options_on_the_page(text: str) -> set[str]:
    return set(re.findall(r"`(--[a-z][a-z-]*)`", text))


def test_each_command_has_its_section_and_its_line() -> None:
    assert set(SECTIONS) == set(COMMANDS)
    for name in COMMANDS:
        assert re.search(rf"^\| \[`outlast {name}\b", PAGE, re.M), name


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"demo"}))
def test_each_option_is_on_the_page_and_none_is_invented(name: str) -> None:
    assert options_on_the_page(SECTIONS[name]) == options_of(COMMANDS[name])


def test_the_demonstration_has_the_options_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    from outlast.demo.main import parse

    with pytest.raises(SystemExit):
        parse(["--help"])
    there = set(re.findall(r"(--[a-z-]+)", capsys.readouterr().out.partition("options:")[2])) - {"--help"}
    assert options_on_the_page(SECTIONS["demo"]) == there


def test_the_options_of_all_commands_are_on_the_page() -> None:
    introduction = PAGE.partition("## outlast")[0]
    for name in {name for option in TREE.params for name in option.opts if name.startswith("--")} - {
        "--help"
    }:
        assert name in introduction


def test_each_exit_code_is_on_the_page() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)}
    assert listed == {int(code) for code in Exit}


def test_each_option_says_what_it_does() -> None:
    for name, command in COMMANDS.items():
        assert name == "demo" or command.help
        for option in command.params:
            assert option.help, f"{name} {option.name}"


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"demo"}))
def test_each_command_takes_a_url_and_speaks_json(name: str) -> None:
    assert ({"--json"} if name in ("check", "dag", "serverless") else {"--url", "--json"}) <= options_of(
        COMMANDS[name]
    )
