"""``outlast ui``: what it refuses, and its tokens."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import orjson
import pytest

from outlast.cli import plugins
from outlast.cli.main import run
from outlast_dashboard import TokenFile


def test_it_is_not_served_beyond_this_machine_without_tokens(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com"):
        assert run(["ui", "--url", sqlite_url, "--host", host]) == 2
        assert "outlast ui token add" in capsys.readouterr().err


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ui", "--url", f"sqlite:///{tmp_path}/no.db"]) == 4
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "no.db").exists()


def test_options_that_can_not_be_are_usage_errors(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", "--url", sqlite_url, "--port", "70000"]) == 2
    assert "port must be from 0 to 65535" in capsys.readouterr().err
    assert run(["ui", "--nonsense"]) == 2
    assert "outlast ui --help" in capsys.readouterr().err
    assert run(["ui"]) == 2
    assert "OUTLAST_URL" in capsys.readouterr().err


def test_tokens_are_made_listed_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tokens.json")
    assert run(["ui", "token", "add", "ada", "--tokens", file, "--scope", "write", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["token"].startswith("outlast_")
    assert run(["ui", "token", "add", "bob", "--tokens", file]) == 0
    assert run(["ui", "token", "list", "--tokens", file, "--json"]) == 0
    listed = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed == [{"name": "ada", "scopes": ["write"]}, {"name": "bob", "scopes": ["read"]}]
    assert run(["ui", "token", "remove", "ada", "--tokens", file]) == 0
    assert [token.name for token in TokenFile(Path(file)).read()] == ["bob"]
    assert run(["ui", "token", "remove", "ada", "--tokens", file]) == 2
    capsys.readouterr()
    assert run(["ui", "token", "remove", "bob", "--tokens", file, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {"name": "bob", "removed": True}


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda **_: importlib.metadata.EntryPoints([]))
    assert run(["ui"]) == 1
    assert "pip install '.[web]'" in capsys.readouterr().err
