"""From commands to a workflow task: what of it starts here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.worker.cached import cached
from tests.worker.fakes import Notes

from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.task_builder import Decider
from outlast_workflow.history.events import (
    ActivityScheduled,
    ChildWorkflowScheduled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
)
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.payloads import Payload

OPTIONS = ActivityOptions(start_to_close_timeout=60).snapshot


def activity(number: int) -> ActivityScheduled:
    return ActivityScheduled(number, "add", "default", Payload.of([]), OPTIONS, 5)


def child(number: int, kind: str = "Order") -> ChildWorkflowScheduled:
    return ChildWorkflowScheduled(
        number, f"c-{number}", kind, "default", Payload.of([]), Payload.of({}), "terminate", 5
    )


class Decided:
    """A decider with so many free slots, which serves the type ``Order``."""

    def __init__(self, slots: int = 10) -> None:
        self.slots = slots
        served: Any = SimpleNamespace(
            settings=SimpleNamespace(worker_id="me", build_id="v1"),
            serves=lambda kind, queue: (kind, queue) == ("Order", "default"),
        )
        dispatcher: Any = SimpleNamespace(reserve_slot=self._reserve)
        runtime: Any = Notes()
        self.decider = Decider(runtime, served, dispatcher)
        self.given: dict[str, Any] = {}

    def _reserve(self, command: ActivityScheduled) -> bool:
        self.slots -= 1
        return self.slots >= 0

    def __call__(self, *commands: Any, eager: bool = True) -> dict[str, Any]:
        run: Any = cached()
        run.machine.terminal = commands[-1] if commands and commands[-1].terminal else None
        deciding: Any = SimpleNamespace(run=run.run, machine=run.machine, decide=self._note)
        as_run: CachedRun = deciding
        self.decider.decide(as_run, list(commands), [], 1, eager=eager)
        return self.given

    def _note(self, commands: Any, own: Any, seen_seq: int, **given: Any) -> None:
        self.given = given


@given(slots=st.integers(0, 5), count=st.integers(0, 8), ends=st.booleans(), eager=st.booleans())
def test_as_many_activities_start_here_as_there_are_slots_unless_the_run_ends(
    slots: int, count: int, ends: bool, eager: bool
) -> None:
    commands: list[Any] = [activity(number) for number in range(1, count + 1)]
    if ends:
        commands.append(WorkflowCompleted(Payload.of(None)))
    found = Decided(slots)(*commands, eager=eager)["eager"]
    expected = 0 if ends or not eager else min(slots, count)
    assert list(found) == list(range(1, expected + 1))
    assert all(options.start_to_close_timeout == 60 for options in found.values())


def test_children_that_are_served_here_begin_here() -> None:
    found = Decided()(child(1), child(2, "Other"))["children"]
    assert {number: one.owner_id for number, one in found.items()} == {1: "me", 2: None}
    assert all(one.run_id == "next-run" for one in found.values())


def continued(**given: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"workflow_type": "Order", "input": Payload.of([])} | given
    return Decided()(WorkflowContinuedAsNew(**wanted))


def test_the_next_run_begins_here_if_it_is_served_and_need_not_wait() -> None:
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({}, "me"),
        ({"task_queue": "elsewhere"}, None),
        ({"start_delay_seconds": 5}, None),
    ]
    for given_options, owner in cases:
        found = continued(**given_options)
        assert (found["next_run_id"], found["next_owner_id"]) == ("next-run", owner)


def test_a_run_that_goes_on_has_no_next_one() -> None:
    found = Decided()(activity(1))
    assert (found["next_run_id"], found["next_owner_id"]) == (None, None)
    assert (found["worker_id"], found["build_id"]) == ("me", "v1")
