"""`outlast dag`: what it prints, and what it exits with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cli.conftest import Done
from tests.dag import flows

from outlast.cli.main import run
from outlast_dag.spec.schema import SCHEMA


@pytest.fixture
def outlast(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str) -> Done:
        code = run(["dag", *arguments])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return command


def test_a_dag_is_checked_with_its_critical_path(outlast: Any) -> None:
    done = outlast("check", "tests.dag.flows:nightly")
    assert done.code == 0
    first, path = done.out.splitlines()
    assert first == f"nightly {flows.nightly.hash[:12]}, 3 nodes: no problems, no warnings"
    assert path.startswith("  critical path: 36 s at one attempt (fetch -> load/parse), 114 s at worst")


def test_warnings_are_told_and_fail_only_a_strict_check(outlast: Any) -> None:
    done = outlast("check", "tests.dag.flows:hasty")
    assert done.code == 0
    assert "warning: tests/dag/flows.py:" in done.out
    assert "deadline_below_critical_path: 20 s are there" in done.out
    assert outlast("check", "--strict", "tests.dag.flows:hasty").code == 1


def test_all_dags_of_a_module_are_checked(outlast: Any) -> None:
    done = outlast("check", "tests.dag.flows", "--json")
    assert done.code == 1
    found = {one["name"]: one for one in done.lines}
    assert set(found) == {"nightly", "hasty", "unbounded"}
    assert found["nightly"]["critical_path"]["nodes"] == ["fetch", "load/parse"]
    assert found["nightly"]["hash"] == flows.nightly.hash
    (problem,) = found["unbounded"]["problems"]
    assert set(problem) == {"kind", "node", "source", "message", "advice"}
    assert problem["kind"] == "missing_timeout"
    assert found["unbounded"]["hash"] is None


def test_a_module_with_a_dag_that_cannot_be_built_is_told_line_by_line(outlast: Any) -> None:
    done = outlast("check", "tests.dag.unbuildable")
    assert done.code == 1
    first, missing, below = done.out.splitlines()
    assert first == "unbuildable: 2 problems, no warnings"
    assert missing.startswith("  tests/dag/unbuildable.py:10  http-fetch  missing_timeout: ")
    assert below.startswith("  tests/dag/unbuildable.py:11  http-fetch_2  timeout_out_of_range: ")


def test_a_builder_and_what_it_has_built_are_one_dag(outlast: Any) -> None:
    done = outlast("check", "tests.dag.built_twice")
    assert [line.partition(" ")[0] for line in done.out.splitlines() if not line.startswith(" ")] == ["twice"]
    assert "1 node: no problems, 1 warning\n" in done.out


def test_a_warning_is_printed_and_not_logged(outlast: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert "1 warning\n" in outlast("check", "tests.dag.flows:hasty").out
    assert not caplog.records
    hasty_again = flows.hasty.build()
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert hasty_again.warnings


def test_a_document_is_checked(outlast: Any, tmp_path: Path) -> None:
    file = tmp_path / "nightly.json"
    file.write_bytes(flows.nightly.spec.json)
    done = outlast("check", str(file), "--json")
    assert (done.code, done.json["hash"]) == (0, flows.nightly.hash)
    document = orjson.loads(flows.nightly.spec.json)
    del document["nodes"][0]["options"]
    document["nodes"][1]["after"] = ["nobody"]
    file.write_bytes(orjson.dumps(document))
    done = outlast("check", str(file), "--json")
    assert done.code == 1
    assert {(one["kind"], one["source"]) for one in done.json["problems"]} == {
        ("missing_timeout", "nodes[0]"),
        ("unknown_dependency", "nodes[1]"),
    }
    document["nodes"][1]["afetr"] = []
    file.write_bytes(orjson.dumps(document))
    assert outlast("check", str(file), "--json").json["problems"][0]["source"] == "nodes[1].afetr"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tests.dag.flows:nobody", "has no 'nobody'"),
        ("tests.dag.test_page", "has no DAG"),
        ("no.such.module", "there is no module"),
        ("nowhere.json", "cannot be read"),
    ],
)
def test_what_is_no_dag_is_bad_usage(outlast: Any, target: str, said: str) -> None:
    done = outlast("check", target)
    assert done.code == 2
    assert said in done.err


def test_what_is_no_json_is_bad_usage(outlast: Any, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{")
    done = outlast("check", str(file))
    assert (done.code, "is not JSON" in done.err) == (2, True)


@pytest.mark.parametrize("command", ["check", "draw", "start"])
def test_what_is_nested_too_deeply_is_bad_usage(outlast: Any, tmp_path: Path, command: str) -> None:
    file = tmp_path / "x.json"
    deep = orjson.loads("[" * 240 + "]" * 240)
    node = {"id": "a", "kind": "task", "type": "t", "args": [{"is": deep}]}
    file.write_bytes(orjson.dumps({"name": "x", "nodes": [node]}))
    done = outlast(command, str(file))
    assert (done.code, "is nested deeper than 190 levels" in done.err) == (2, True)


def test_a_dag_is_drawn(outlast: Any) -> None:
    assert outlast("draw", "tests.dag.flows:nightly").out == (
        "flowchart TD\n"
        '    n0["fetch"]\n'
        '    subgraph "load"\n'
        '        n1["clean"]\n'
        '        n2[["parse × items"]]\n'
        "    end\n"
        "    n0 -->|unless skipped| n1\n"
        "    n0 --> n2\n"
    )
    assert outlast("draw", "tests.dag.flows:nightly", "--json").json["mermaid"] == flows.nightly.mermaid()
    done = outlast("draw", "tests.dag.flows:unbounded")
    assert (done.code, "`outlast dag check` says what is wrong" in done.err) == (1, True)


def test_the_schema_is_printed(outlast: Any) -> None:
    assert json.loads(outlast("schema").out) == json.loads(orjson.dumps(SCHEMA))


def test_a_document_is_started_unless_it_is_wrong(outlast: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    assert run(["migrate", "--url", url]) == 0
    good, wrong = tmp_path / "good.json", tmp_path / "wrong.json"
    good.write_bytes(orjson.dumps(flows.nightly.spec.document))
    node = {"id": "a", "kind": "task", "type": "fetch", "after": ["b"]}
    wrong.write_bytes(orjson.dumps({"name": "wrong", "nodes": [node]}))
    refused = outlast("start", str(wrong), "--url", url)
    assert refused.code != 0
    assert "missing_timeout" in refused.err
    assert "unknown_dependency" in refused.err
    done = outlast("start", str(good), "--id", "n-1", "--input", '"https://a"', "--url", url, "--json")
    assert done.code == 0, done.err
    assert orjson.loads(done.out)["dag"] == "nightly"
    assert run(["describe", "n-1", "--url", url, "--json"]) == 0
    assert outlast("start", str(good), "--timeout", "5s", "--url", url).code == 2
