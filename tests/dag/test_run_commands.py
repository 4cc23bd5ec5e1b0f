"""`outlast dag show` and `list`, the picture of `draw`, and the section of `outlast describe`."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Done
from tests.dag import flows

from outlast import Client, Worker, workflow
from outlast.cli.main import run
from outlast_dag import DagBuilder

PLAIN_ID = "plain"


@workflow.defn
async def plain() -> str:
    return "plain"


@pytest.fixture
def outlast(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str) -> Done:
        code = run(list(arguments))
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return command


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a run of a DAG and another workflow, and no worker."""
    made = f"sqlite:///{tmp_path}/outlast.db"

    async def fill() -> None:
        activities = [flows.fetch, flows.parse, flows.clean]
        async with (
            Client.connect(made) as client,
            Worker(client, workflows=[flows.nightly, plain], activities=activities),
        ):
            await client.execute(flows.nightly, "a", id="nightly-1")
            await client.execute(plain, id=PLAIN_ID)

    asyncio.run(fill())
    return made


def test_a_run_is_shown_without_a_worker(outlast: Any, url: str) -> None:
    done = outlast("dag", "show", "nightly-1", "--url", url)
    assert done.code == 0, done.err
    assert done.out.startswith(f"DAG nightly, {flows.nightly.hash[:12]}: 3 completed")
    assert "load/parse" in done.out
    assert "1 of 1 items" in done.out
    (found,) = outlast("dag", "show", "nightly-1", "--url", url, "--json").lines
    assert [(node["id"], node["state"]) for node in found["nodes"]] == [
        ("fetch", "completed"),
        ("load/clean", "completed"),
        ("load/parse", "completed"),
    ]
    assert outlast("dag", "show", "nightly-1", "--run-id", found["run_id"], "--url", url).code == 0


def test_what_is_not_a_run_of_a_dag_is_refused(outlast: Any, url: str) -> None:
    done = outlast("dag", "show", PLAIN_ID, "--url", url)
    assert done.code != 0
    assert "is not a run of a DAG" in done.err


def test_describe_shows_the_nodes_of_a_dag_and_of_nothing_else(outlast: Any, url: str) -> None:
    done = outlast("describe", "nightly-1", "--url", url)
    assert "DAG nightly" in done.out
    assert "load/clean" in done.out
    (found,) = outlast("describe", "nightly-1", "--url", url, "--json").lines
    assert found["dag"]["name"] == "nightly"
    assert "DAG" not in outlast("describe", PLAIN_ID, "--url", url).out
    (other,) = outlast("describe", PLAIN_ID, "--url", url, "--json").lines
    assert "dag" not in other


def test_served_dags_are_listed_and_workers_that_differ_are_told(outlast: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/outlast.db"
    other = DagBuilder("nightly", timeout=60)
    other.task("fetch", flows.fetch, "a")
    newer = other.build()

    async def look() -> tuple[Done, Done]:
        async with (
            Client.connect(url) as client,
            Worker(client, workflows=[flows.nightly, plain], activities=[flows.fetch]),
            Worker(client, workflows=[newer], activities=[flows.fetch]),
        ):
            listed = await asyncio.to_thread(outlast, "dag", "list", "--url", url)
            return listed, await asyncio.to_thread(outlast, "dag", "list", "--url", url, "--json")

    listed, document = asyncio.run(look())
    assert "nightly: workers differ" in listed.out
    assert newer.hash[:12] in listed.out
    assert {(one["name"], one["hash"], one["differs"]) for one in document.lines} == {
        ("nightly", flows.nightly.hash, True),
        ("nightly", newer.hash, True),
    }
    assert "no live worker serves a DAG" in outlast("dag", "list", "--url", url).out


def test_a_dag_is_drawn_as_a_picture(outlast: Any) -> None:
    done = outlast("dag", "draw", "--svg", "tests.dag.flows:nightly")
    assert done.code == 0
    assert ElementTree.fromstring(done.out).tag.endswith("svg")
    found = json.loads(outlast("dag", "draw", "--svg", "--json", "tests.dag.flows:nightly").out)
    assert found == {"name": "nightly", "svg": flows.nightly.svg()}
    several = outlast("dag", "draw", "--svg", "tests.dag.flows:nightly", "tests.dag.flows:hasty")
    assert several.code != 0
    assert "a picture shows one DAG, and 2 are named" in several.err


@pytest.mark.parametrize("given", [[], ["1", "2"]])
def test_a_document_is_started_with_the_arguments_that_it_takes(
    outlast: Any, url: str, tmp_path: Path, given: list[str]
) -> None:
    file = tmp_path / "one.json"
    node = {"id": "a", "kind": "task", "type": "fetch", "args": [{"param": "x"}]}
    options = {"start_to_close_timeout": 5}
    file.write_text(json.dumps({"name": "one", "params": ["x"], "options": options, "nodes": [node]}))
    inputs = [word for one in given for word in ("--input", one)]
    done = outlast("dag", "start", str(file), "--id", "one-1", *inputs, "--url", url)
    assert done.code == 1
    assert f"wrong_arguments: one() takes 1 argument (x), {len(given)} given" in done.err
    assert outlast("describe", "one-1", "--url", url).code == 3
