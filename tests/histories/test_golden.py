"""The golden histories replay, in each way there is."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.recorded import ROOT, check_line

from outlast import Client
from outlast.testing import Replayer
from outlast_workflow.history.events import REGISTRY

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("programs*.jsonl"))


def programs_of(path: Path) -> Any:
    return import_module(f"tests.histories.{path.stem}")


def documents_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def all_events() -> list[dict[str, Any]]:
    return [event for path in FILES for one in documents_of(path) for event in one["events"]]


def test_each_module_of_programs_has_its_histories() -> None:
    modules = [path.stem for path in sorted(HERE.glob("programs*.py"))]
    assert modules == [path.stem for path in FILES]


def test_every_type_of_event_is_in_some_history() -> None:
    assert {event["type"] for event in all_events()} == REGISTRY.keys()


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("WorkflowStarted", "reset"),
        ("WorkflowStarted", "headers"),
        ("WorkflowStarted", "last_failure"),
        ("WorkflowStarted", "last_result"),
        ("WorkflowContinuedAsNew", "headers"),
        ("WorkflowContinuedAsNew", "retry_policy"),
        ("WorkflowContinuedAsNew", "start_delay_seconds"),
        ("SignalReceived", "headers"),
        ("UpdateAccepted", "headers"),
        ("ChildWorkflowScheduled", "headers"),
        ("ExternalSignalRequested", "headers"),
        ("ActivityScheduled", "headers"),
        ("ActivityScheduled", "local"),
        ("ActivityScheduled", "summary"),
        ("ActivityScheduled", "queue"),
        ("ActivityScheduled", "partition_key"),
        ("ChildWorkflowScheduled", "summary"),
        ("TimerScheduled", "summary"),
        ("WorkflowStarted", "summary"),
        ("WorkflowStarted", "schedule"),
        ("WorkflowStarted", "queue"),
        ("WorkflowStarted", "partition_key"),
        ("WorkflowStarted", "debounce_key"),
        ("WorkflowStartChanged", "input"),
        ("WorkflowDequeued", "run_deadline_at"),
        ("WorkflowStartChanged", "run_deadline_at"),
        ("WorkflowTaskCompleted", "receiving"),
        ("WorkflowDeadlineLowered", "timeout_seconds"),
    ],
)
def test_what_events_may_say_is_in_some_history(kind: str, field: str) -> None:
    assert any(event["type"] == kind and event["payload"].get(field) for event in all_events())


def test_what_a_declaration_says_is_in_some_history() -> None:
    called = [event["payload"] for event in all_events() if event["type"] == "ActivityScheduled"]
    assert {
        bool(one["options"].get("transactional")) for one in called if one["activity_type"] == "book"
    } == {
        True,
        False,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_replay(path: Path) -> None:
    programs = programs_of(path)
    # Those that only write headers may be left out: headers are not compared.
    for around in ((), getattr(programs, "INTERCEPTORS", ())):
        report = Replayer(programs.WORKFLOWS, interceptors=around).replay(path)
        assert report.runs == len(documents_of(path))


EACH_BY_THE_COMMAND = """
import sys
from pathlib import Path
from outlast.cli.main import run
for path in map(Path, sys.argv[1:]):
    code = run(["replay", f"tests.histories.{path.stem}:WORKFLOWS", str(path), "--json"])
    if code:
        sys.exit(f"{path}: {code}")
"""


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_they_replay_in_a_fresh_process_with_another_hash_seed(seed: str) -> None:
    """One process for all of them: what it takes to start one is twenty times what its replay takes."""
    done = subprocess.run(
        [sys.executable, "-c", EACH_BY_THE_COMMAND, *map(str, FILES)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    replayed = [orjson.loads(line)["runs"] for line in done.stdout.splitlines()]
    assert replayed == [len(documents_of(path)) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_prefix_of_them_leads_to_the_same_commands(path: Path) -> None:
    for one in documents_of(path):
        rows = [
            (event["seq"], event["type"], orjson.dumps(event["payload"]).decode()) for event in one["events"]
        ]
        # A workflow's name is that of its code here.
        target = f"tests.histories.{path.stem}:{one['run']['workflow_type']}"
        line = orjson.dumps([target, one["run"]["run_id"], rows])
        assert list(check_line(line, most_by_prefix=len(rows))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_they_can_be_imported(path: Path) -> None:
    async with Client.connect("sqlite://") as client:
        found = await client.import_histories(path)
        assert found.runs == len(documents_of(path)) == await client.count()
