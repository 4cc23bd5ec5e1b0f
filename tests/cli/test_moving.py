"""Histories as files: ``outlast export`` and ``import``."""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def some_runs(worker: None, outlast: Command) -> None:
    for number in range(3):
        outlast("start", "Doubling", "--id", f"d-{number}", "--input", str(number), "--wait")
    outlast("start", "sleep_long", "--id", "open")


@pytest.mark.usefixtures("some_runs")
def test_a_run_goes_to_stdout_or_into_a_file(outlast: Command, tmp_path: Path) -> None:
    printed = outlast("export", "d-1")
    assert (printed.code, printed.err) == (0, "")
    (document,) = printed.lines
    assert document["format"] == "outlast-history"
    assert document["run"]["workflow_id"] == "d-1"
    file = tmp_path / "one.jsonl"
    done = outlast("export", "d-1", "--chain", "-o", str(file), "--json")
    assert lines_of(file) == [document]
    assert done.json == {"file": str(file), "runs": 1, "bytes": file.stat().st_size}
    assert outlast("export", "d-1", "--output", str(file)).out == f"exported 1 run to {file}\n"
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("some_runs")
def test_runs_that_match_go_into_another_database(outlast: Command, bare: Command, tmp_path: Path) -> None:
    file, other = tmp_path / "closed.jsonl", f"sqlite:///{tmp_path / 'other.db'}"
    assert outlast("export", "--type", "Doubling", "--closed", "--chain", "-o", str(file)).code == 0
    assert len(lines_of(file)) == 3
    done = bare("import", str(file), "--url", other)
    assert done.out.startswith("imported 3 runs of 3 workflows, ")
    assert (
        bare("result", "d-2", "--url", other).out.replace(" ", "").replace("\n", "")
        == '{"doubled":4,"more":null}'
    )
    again = bare("import", str(file), "--url", other, "--json")
    assert again.code == 1
    assert again.err.startswith("outlast: the database has d-0, d-1, d-2 already")
    third = bare("import", str(file), "--url", f"sqlite:///{tmp_path / 'third.db'}", "--json")
    assert third.json["runs"] == third.json["workflows"] == 3


@pytest.mark.usefixtures("some_runs")
def test_what_can_not_be_exported_or_imported_is_one_line(
    outlast: Command, bare: Command, tmp_path: Path
) -> None:
    assert outlast("export", "nobody").code == 3
    assert outlast("export", "d-1", "--run-id", "none").code == 3
    assert outlast("export", "--run-id", "r").err == "outlast: run id needs the workflow's ID\n"
    assert "exclude each other" in outlast("export", "d-1", "--status", "failed").err
    assert outlast("export", "d-1", "-o", str(tmp_path / "no" / "where")).code == 1
    file, other = tmp_path / "open.jsonl", tmp_path / "other.db"
    outlast("export", "-o", str(file))
    done = bare("import", str(file), "--url", f"sqlite:///{other}")
    assert done.code == 1
    assert ": only closed runs are imported" in done.err
    missing = bare("import", str(tmp_path / "none"), "--url", f"sqlite:///{tmp_path / 'new.db'}")
    assert "cannot be read: No such file" in missing.err
    assert not (tmp_path / "new.db").exists()


def test_stdin_is_a_file_too(outlast: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    done = outlast("import", "-")
    assert done.code == 1
    assert done.err.startswith("outlast: stdin line 1: this is not an exported history")


GOLDEN = "tests.histories.programs_talk_and_reset"


def test_a_chain_that_was_reset_goes_there_and_back_again(bare: Command, tmp_path: Path) -> None:
    made = Path(str(import_module(GOLDEN).__file__)).with_suffix(".jsonl")
    first, second = (f"sqlite:///{tmp_path / name}.db" for name in ("first", "second"))
    assert bare("import", str(made), "--url", first, "--json").json["runs"] == len(lines_of(made))
    chain = tmp_path / "chain.jsonl"
    assert bare("export", "order", "--chain", "-o", str(chain), "--url", first, "--json").json["runs"] == 4
    assert lines_of(chain) == [one for one in lines_of(made) if one["run"]["workflow_id"] == "order"]
    assert bare("import", str(chain), "--url", second, "--json").json["workflows"] == 1
    assert bare("export", "order", "--chain", "--url", second).lines == lines_of(chain)
    for source in ([str(chain)], ["--url", second]):
        replayed = bare("replay", GOLDEN, *source, "--interceptor", f"{GOLDEN}:INTERCEPTORS", "--json")
        assert (replayed.code, replayed.json["runs"]) == (0, 4)
    last = lines_of(chain)[:-1]
    (tmp_path / "part.jsonl").write_text("\n".join(json.dumps(one) for one in last))
    refused = bare("import", str(tmp_path / "part.jsonl"), "--url", f"sqlite:///{tmp_path / 'third'}.db")
    assert (refused.code, "export all of it" in refused.err) == (1, True)
