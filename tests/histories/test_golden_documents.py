"""Documents by version 1 of the rulings: every command is what was recorded, with all that it says.

A replay compares kinds and names of commands alone. What else the rulings decide, such as how long a backoff is, what a
call is given, how a task is named in ``describe`` and what a run gives, is compared here.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.histories import programs_documents as programs
from tests.histories.test_golden import HERE, documents_of

from outlast_serverless.interpreter import pace
from outlast_serverless.interpreter.tasks import tries
from outlast_serverless.plan.compiler import compile_plan
from outlast_serverless.plan.kinds import KINDS
from outlast_serverless.plan.model import Task, TryTask
from outlast_serverless.plan.walking import tasks_of
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_for, definition_of
from outlast_workflow.errors import NonDeterminismError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Replay

HISTORIES = documents_of(HERE / "programs_documents.jsonl")
DEFINITIONS = {one.name: one for one in map(definition_of, programs.WORKFLOWS)}
NOT_RULED = {"options", "stack", "message", "detail", "next_run_id", "jq"}
"""What no ruling decides: options of activities, lines of code, the words of an error, and what the engine adds."""


class Compared(Replay):
    """A replay that keeps the commands that are others now."""

    def __init__(self, machine: WorkflowMachine) -> None:
        super().__init__(machine)
        self._recorded: list[tuple[str, Any]] = []
        self.differing: list[tuple[Any, Any]] = []

    def command(self, cls: Any, document: dict[str, Any]) -> None:
        if document.get("by") is None:
            self._recorded.append(told(cls.type, document))
        super().command(cls, document)

    def run_workflow_task(self) -> None:
        # While it replays, code does not work out what nobody compares.
        self.machine.replaying = False
        super().run_workflow_task()
        self.machine.replaying = True
        asked = [told(one.type, orjson.loads(one.to_json())) for one in self.asked]
        self.differing += [pair for pair in zip(self._recorded, asked, strict=True) if not is_said(*pair)]
        self._recorded = []


def told(kind: str, document: dict[str, Any]) -> tuple[str, Any]:
    """Return what a command says, as far as rulings decide it."""
    if kind == "SideEffectRecorded":
        return kind, document["command_id"]
    # A child begins with the newest rulings.
    left = {"input"} if kind == "ChildWorkflowScheduled" else set()
    return kind, ruled({name: value for name, value in document.items() if name not in left})


def ruled(value: Any) -> Any:
    """Return a value without what no ruling decides."""
    if isinstance(value, dict):
        return {name: ruled(inner) for name, inner in value.items() if name not in NOT_RULED}
    return [ruled(inner) for inner in value] if isinstance(value, list) else value


def is_said(recorded: Any, now: Any, *, more: bool = False) -> bool:
    """Return whether what was recorded is said now. What a run hands to the next one may say more by now."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return (recorded.keys() <= now.keys() if more else recorded.keys() == now.keys()) and all(
            is_said(value, now[name], more=more or name == "state") for name, value in recorded.items()
        )
    if isinstance(recorded, list | tuple) and isinstance(now, list | tuple):
        return len(recorded) == len(now) and all(
            is_said(*pair, more=more) for pair in zip(recorded, now, strict=True)
        )
    return bool(recorded == now)


def differing(document: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Replay a history; return the commands that are others now, as recorded and as they are."""
    run = document["run"]
    definition = definition_for(DEFINITIONS, run["workflow_type"])
    assert definition is not None
    machine = WorkflowMachine(definition, run["run_id"], converter=DataConverter(), limits=StructuralLimits())
    walk = Compared(machine)
    try:
        walk.feed((one["seq"], one["type"], orjson.dumps(one["payload"])) for one in document["events"])
        walk.finish()
    finally:
        machine.evict()
    return walk.differing


def history_of(workflow_id: str) -> dict[str, Any]:
    return next(one for one in HISTORIES if one["run"]["workflow_id"] == workflow_id)


def tasks() -> list[Task]:
    started = [one["events"][0]["payload"]["input"][0] for one in HISTORIES]
    return [
        task for one in started if "definition" in one for task in tasks_of(compile_plan(one["definition"]))
    ]


def test_every_command_says_what_was_recorded() -> None:
    for document in HISTORIES:
        assert differing(document) == [], document["run"]["workflow_id"]


def test_all_kinds_of_tasks_are_among_them() -> None:
    assert {kind for task in tasks() for kind in KINDS if kind in task.definition} == set(KINDS)
    retries = [task.catch.retry for task in tasks() if isinstance(task, TryTask) and task.catch.retry]
    assert {one.backoff for one in retries} == {"constant", "linear", "exponential"}
    assert any(one.jitter for one in retries)
    assert any(one.duration for one in retries)
    assert any(one.attempt_duration for one in retries)


def test_all_that_a_task_waits_for_is_among_them() -> None:
    summaries = [
        event["payload"].get("summary") or ""
        for document in HISTORIES
        for event in document["events"]
        if event["type"] in ("TimerScheduled", "ActivityScheduled", "ChildWorkflowScheduled")
    ]
    assert {one.partition(" ")[0] for one in summaries if one} == {
        *("wait", "timeout", "attempt", "retry", "backoff", "breath", "after"),
        *("call", "run", "emit", "fetch", "resolve", "subscribe", "narrow", "unsubscribe", "start"),
    }
    marks = {mark.partition("=")[0] for one in summaries for mark in one.partition("#")[2].split(",")}
    assert marks == {"", "it", "att", "visit", "call", "of", "event", "message", "catch"}


def test_what_goes_on_in_the_next_run_is_among_them() -> None:
    states = [
        one["events"][0]["payload"]["input"][0]["state"]
        for one in HISTORIES
        if "state" in one["events"][0]["payload"]["input"][0]
    ]
    frames = [frame for state in states for frame in state["frames"]]
    assert {frame["of"] for frame in frames} == {"list", "task", "extensions", "try", "for", "listen"}
    assert any("deadline" in frame for frame in frames if frame["of"] == "task")
    assert any(state["inbox"] for state in states)


def test_another_backoff_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "_delay", lambda *_: 1.0)
    assert differing(history_of("retries-1")) != []


def test_another_command_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "TASKS_A_BREATH", 10_000)
    with pytest.raises(NonDeterminismError):
        differing(history_of("breathless-1"))
