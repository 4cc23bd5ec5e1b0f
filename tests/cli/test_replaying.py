"""``outlast replay``: files and databases, and what it exits with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

CHANGED = """
from outlast import workflow

@workflow.defn
class Doubling:
    @workflow.run
    async def run(self, number: int, more: object = None) -> object:
        return None
"""


AUDITED = """
from tests.cli.programs import double
from outlast.interceptors import Interceptor

class Audited(Interceptor):
    async def run_workflow(self, call, next):
        await double(0)
        return await next(call)

class Named(Interceptor):
    def __init__(self, name):
        pass

several = [Audited(), Interceptor()]
neither = 7
"""


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder whose workflow has changed."""
    (tmp_path / "changed_doubling.py").write_text(CHANGED)
    monkeypatch.chdir(tmp_path)
    return "changed_doubling"


@pytest.fixture
def some_runs(worker: None, outlast: Command) -> None:
    for number in range(2):
        outlast("start", "Doubling", "--id", f"d-{number}", "--input", str(number), "--wait")
    outlast("start", "fail", "--id", "f", "--wait")


@pytest.mark.usefixtures("some_runs")
def test_a_database_replays(outlast: Command) -> None:
    done = outlast("replay", "tests.cli.programs")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("replayed 3 runs, ")
    one = outlast("replay", "tests.cli.programs:Doubling", "--limit", "1", "--json")
    assert (one.json["runs"], one.json["failures"], one.json["skipped"]) == (1, 0, {"fail": 1})
    assert "skipped 1 of fail" in outlast("replay", "tests.cli.programs:Doubling").out
    assert outlast("replay", "tests.cli.programs", "--type", "fail", "--json").json["runs"] == 1
    assert outlast("replay", "tests.cli.programs", "--status", "completed", "--json").json["runs"] == 2
    assert outlast("replay", "tests.cli.programs", "--open", "--json").json["runs"] == 0


@pytest.mark.usefixtures("some_runs")
def test_a_difference_exits_with_1_and_shows_both_sides(outlast: Command, changed: str) -> None:
    done = outlast("replay", changed)
    assert done.code == 1
    assert done.err.startswith("outlast: 2 of 2 histories no longer replay")
    assert "ActivityScheduled #1 double" in done.out
    assert "WorkflowCompleted" in done.out
    failed = outlast("replay", changed, "--json")
    assert failed.code == 1
    assert failed.json["failures"] == 2
    error = failed.json["failed"][0]["error"]
    assert error["type"] == "NonDeterminismError"
    assert error["actual"] == ["WorkflowCompleted"]


@pytest.mark.usefixtures("some_runs")
def test_files_replay_without_a_database(
    outlast: Command, bare: Command, changed: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    outlast("export", "d-0", "-o", str(first))
    outlast("export", "--type", "Doubling", "-o", str(second))
    done = bare("replay", "tests.cli.programs", str(first), str(second))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("replayed 3 runs, ")
    assert bare("replay", changed, str(second)).code == 1
    assert "cannot be read" in bare("replay", "tests.cli.programs", str(tmp_path / "none")).err


def test_what_holds_no_workflow_is_bad_usage(bare: Command) -> None:
    done = bare("replay", "tests.cli.programs:double", "some.jsonl")
    assert done.code == 2
    assert "holds no workflow" in done.err
    assert bare("replay", "tests.cli.programs").code == 2


@pytest.mark.usefixtures("some_runs")
def test_the_interceptors_of_the_worker_can_be_named(
    outlast: Command, bare: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audited.py").write_text(AUDITED)
    monkeypatch.chdir(tmp_path)
    replay = ("replay", "tests.cli.programs", "--type", "Doubling")
    assert outlast(*replay, "--interceptor", "outlast.interceptors:Interceptor").code == 0
    for name in ("Audited", "several"):
        # The worker had none: what this one calls is in no history.
        done = outlast(*replay, "--interceptor", f"audited:{name}", "--json")
        assert (done.code, done.json["failures"]) == (1, 2)
        assert done.json["failed"][0]["error"]["type"] == "NonDeterminismError"
    for name, words in (
        ("audited", "must be MODULE:NAME"),
        ("audited:Named", "cannot be made without arguments"),
        ("audited:neither", "must be objects whose class inherits from"),
        ("audited:nobody", "has no 'nobody'"),
    ):
        wrong = bare(*replay, "--interceptor", name)
        assert (wrong.code, words in wrong.err) == (2, True), wrong.err


READING = """
import os
from outlast import workflow

@workflow.defn
class Doubling:
    @workflow.run
    async def run(self, number: int, more: object = None) -> object:
        from tests.cli.programs import patient_double
        open(os.devnull).close()
        return {"doubled": await patient_double(number), "more": more}
"""


@pytest.mark.usefixtures("some_runs")
def test_the_runtime_guard_stands_unless_it_is_left_out(
    outlast: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reading_doubling.py").write_text(READING)
    monkeypatch.chdir(tmp_path)
    done = outlast("replay", "reading_doubling", "--json")
    assert (done.code, done.json["failures"]) == (1, 2)
    assert done.json["failed"][0]["error"]["type"] == "RestrictedWorkflowAccessError"
    assert outlast("replay", "reading_doubling", "--no-runtime-guard").code == 0
