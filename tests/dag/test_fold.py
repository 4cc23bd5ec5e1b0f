"""The fold of a history says at each event what the interpreter has decided, and goes on where it stood."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.dag.random_dags import draw_outcome, draw_spec, with_auxiliaries
from tests.dag.test_counts import calls_of

from outlast_dag.description.fold import DagFold
from outlast_dag.run.actions import Completed, Failed, NodeState
from outlast_dag.run.approvals import HANDLERS, Approvals
from outlast_dag.run.interpreter import follow, record_of
from outlast_dag.run.progress import Progress
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Map
from outlast_dag.spec.values import Constant
from outlast_workflow.api.markers import side_effect
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import NonDeterminismError
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    Event,
    WorkflowCancelRequested,
    WorkflowStarted,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import task_record

CONVERTER = DataConverter()
INPUT = {"x": 3}


class Live:
    """A run of a DAG that writes its history: the interpreter on a live machine, with outcomes that are drawn."""

    def __init__(self, spec: DagSpec, seed: int, interceptor: bool = False) -> None:
        self.seed = seed
        self.rows: list[tuple[int, str, bytes]] = []
        self.at = 0
        self.through = 0
        self.open: dict[int, str] = {}
        self.cancelled: set[int] = set()
        self.progress: Progress | None = None

        async def code(approvals: Approvals, *arguments: Any) -> Any:
            side_effect(lambda: record_of(spec), result_type=dict[str, Any])
            if interceptor:
                side_effect(lambda: 1, result_type=int)
            return await follow(approvals, spec, arguments, self.watch)

        signature = CallSignature(spec.name, (), (), var_positional="args")
        definition = WorkflowDefinition(
            spec.name, Approvals, code, signature, "here", HANDLERS, plain_input=True
        )
        self.machine = WorkflowMachine(definition, "run", converter=CONVERTER, limits=StructuralLimits())
        self.pending: list[Event] = []
        started = WorkflowStarted("w", spec.name, "default", Payload.of([INPUT]), "run", 1, 1, 7, 5)
        started.run_timeout_seconds, started.run_deadline_at = 60, "2126-01-01T00:00:00+00:00"
        self.arrive(started)

    def watch(self, progress: Progress) -> None:
        self.progress = progress

    @property
    def states(self) -> dict[str, NodeState]:
        return dict(self.progress.states) if self.progress is not None else {}

    def write(self, event: Event) -> None:
        self.rows.append((len(self.rows) + 1, event.type, event.to_json()))

    def arrive(self, event: Event) -> None:
        self.write(event)
        self.pending.append(event)

    def task(self) -> None:
        """Run a workflow task over what has arrived."""
        self.at += 1_000_000
        commands = self.machine.run_workflow_task(
            self.pending, self.at, history_events=len(self.rows), history_bytes=0
        )
        record = task_record(self.machine, commands, through=len(self.rows), own=0, python=11)
        assert record is not None
        self.write(record)
        for command in commands:
            self.write(command)
            if isinstance(command, ActivityScheduled):
                self.open[command.command_id] = command.summary or ""
            elif isinstance(command, ActivityCancelRequested):
                self.cancelled.add(command.command_id)
        self.pending = []

    def end_one(self, rng: random.Random) -> str:
        """Let an open call end, and return its label."""
        id = rng.choice(sorted(self.open))
        label = self.open.pop(id)
        name, _, index = label.partition("[")
        outcome = draw_outcome(self.seed, (name, int(index[:-1]) if index else None))
        failure = {"category": "application", "type": "Broken", "message": label}
        if id in self.cancelled and rng.random() < 0.7:
            self.arrive(ActivityCancelled(id))
        elif isinstance(outcome, Completed):
            self.arrive(ActivityCompleted(id, CONVERTER.encode(outcome.value), 1))
        elif isinstance(outcome, Failed) and not outcome.timed_out:
            self.arrive(ActivityFailed(id, failure, 1, "maximum_attempts_reached"))
        else:
            timed_out = {**failure, "category": "timeout", "timeout_kind": "start_to_close"}
            at = "2026-01-01T00:00:00+00:00"
            timed_out["deadline_at"] = at
            self.arrive(ActivityTimedOut(id, "start_to_close", at, timed_out, 1, "maximum_attempts_reached"))
        return label


def compare(seed: int) -> None:
    rng = random.Random(seed)
    spec = draw_spec(rng)
    if rng.random() < 0.5:
        spec = with_auxiliaries(rng, spec)
    live = Live(spec, seed)
    fold = DagFold("run", "drawn", CONVERTER)
    fed = 0
    fresh: set[str] = set()
    cancel_after = rng.choice((None, None, None, rng.randint(0, 5)))
    steps = 0

    def look() -> None:
        nonlocal fed
        while fed < len(live.rows):
            fold.feed(live.rows[fed : fed + 1])
            fed += 1
        assert fold.states == live.states, seed
        assert fold.ended.keys() == fresh, seed
        assert fold.seq == len(live.rows)

    live.task()
    look()
    while live.machine.terminal is None:
        for _ in range(min(len(live.open), rng.choice((1, 1, 1, 2, 3)))):
            fresh.add(live.end_one(rng))
            # Nothing is decided by what has only arrived.
            look()
        if steps == cancel_after or not live.pending:
            live.arrive(WorkflowCancelRequested())
        live.task()
        fresh.clear()
        look()
        steps += 1
    again = DagFold("run", "drawn", CONVERTER)
    again.feed(live.rows)
    assert again.states == live.states
    for one in (fold, again):
        one.close()
    live.machine.evict()


def test_the_fold_says_what_the_interpreter_has_decided() -> None:
    for seed in range(1_000):
        compare(seed)


@pytest.mark.nightly
def test_the_fold_says_what_the_interpreter_has_decided_at_length() -> None:
    for seed in range(1_000, 5_000):
        compare(seed)


def test_calls_that_the_dag_does_not_make_are_told() -> None:
    live = Live(draw_spec(random.Random(3)), 3, interceptor=True)
    live.task()
    fold = DagFold("run", "drawn", CONVERTER)
    with pytest.raises(NonDeterminismError):
        fold.feed(live.rows)
    fold.close()
    live.machine.evict()


def mapped(items: int) -> Live:
    """A run of a list of which all items but one have ended."""
    over = Constant(list(range(items)))
    node = Map(id="each", type="work", over=over, max_items=items, concurrency=5)
    live = Live(DagSpec(name="drawn", timeout=60, nodes=(node,)), 1)
    live.task()
    for _ in range(items - 2):
        id = min(live.open)
        del live.open[id]
        live.arrive(ActivityCompleted(id, CONVERTER.encode(1), 1))
        live.task()
    return live


def test_a_look_costs_what_is_new_however_much_there_was() -> None:
    def refreshed(items: int) -> int:
        live = mapped(items)
        fold = DagFold("run", "drawn", CONVERTER)
        fold.feed(live.rows)
        seen = len(live.rows)
        live.arrive(ActivityCompleted(min(live.open), CONVERTER.encode(1), 1))
        live.task()
        calls = calls_of(lambda: fold.feed(live.rows[seen:]))
        assert fold.progress is not None
        found = fold.progress.items_of("each")
        assert found is not None
        assert found.completed == items - 1
        fold.close()
        live.machine.evict()
        return calls

    few, many = refreshed(20), refreshed(500)
    assert many <= few + 5
