"""DAGs of a simulation: drawn with every kind of node, and activities and children that end as was drawn for them.

What a call returns follows from the workflow and the node, so that whoever dies and is called again ends likewise.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from tests.dag.random_dags import draw_outcome, draw_spec, oracle_of, with_auxiliaries, with_waits
from tests.dag.recorded_dags import without_words

from outlast import ApplicationError, RetryPolicy, activity, workflow
from outlast_activities.context import CURRENT
from outlast_dag import DagDefinition, any_dag
from outlast_dag.check.critical_path import CriticalPath
from outlast_dag.run.actions import Completed, Failed, Outcome
from outlast_dag.spec.dag import DagSpec, Parameter
from outlast_dag.spec.nodes import Approval, Call, Child, Map, Node, Plan, Repeat, Sleep, Task, WaitFor
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.options.activity import ActivityOptions

ATTEMPT_S, PATIENT_ATTEMPT_S = 2, 15
PLANNED = ("a", "b")
"""The nodes of what a planner plans."""
FOREVER_S = 1_000_000
RETRY = RetryPolicy(initial_interval=0.1, max_interval=0.5, max_attempts=2)
OPTIONS = ActivityOptions(start_to_close_timeout=ATTEMPT_S, retry_policy=RETRY)
PATIENT = ActivityOptions(start_to_close_timeout=PATIENT_ATTEMPT_S, retry_policy=RetryPolicy(max_attempts=3))


def _whose(workflow_id: str, given: tuple[Any, ...]) -> str:
    """The DAG that a call is a part of. What a planner has planned runs under an id of its own."""
    first = given[0] if given else None
    return first["whose"] if isinstance(first, dict) and "whose" in first else workflow_id


# --- what it calls ----------------------------------------------------------------------------------------------------


@activity.defn
async def dag_work(*given: Any) -> Any:
    """Ends as was drawn for its node and item; now and then in the second attempt."""
    return await _end(given)


@activity.defn
async def dag_plan(*given: Any) -> Any:
    """Plans two calls, one after the other."""
    whose = {"is": {"whose": activity.info().workflow_id}}
    options = {"start_to_close_timeout": PATIENT_ATTEMPT_S, "retry_policy": {"max_attempts": 3}}
    nodes = [
        {"id": "a", "kind": "task", "type": "dag_work", "args": [whose], "options": options},
        {"id": "b", "kind": "task", "type": "dag_work", "args": [whose, {"of": "a"}], "options": options},
    ]
    await asyncio.sleep(0.1)
    return {"nodes": nodes}


@workflow.defn
async def dag_child(*given: Any) -> Any:
    """Ends as was drawn for what it is given."""
    await workflow.sleep(0.3)
    return _raised(child_outcome(given))


def outcome_of(whose: str, key: Any) -> Outcome:
    """How a call of a DAG ends: it fails less often than where nothing but failures is of interest."""
    drawn: Outcome = draw_outcome(whose, key)
    rng = random.Random(f"{whose} {key} again")
    return Completed({"x": 1, "rows": [1, 2]}) if isinstance(drawn, Failed) and rng.random() < 0.5 else drawn


def child_outcome(given: Any) -> Outcome:
    """How a child ends."""
    return replace_timeout(outcome_of("child", orjson.dumps(without_words(given)).decode()))


def replace_timeout(outcome: Outcome) -> Outcome:
    """The same, but for a timeout, which is a failure as others are."""
    return replace(outcome, timed_out=False) if isinstance(outcome, Failed) else outcome


async def _end(given: tuple[Any, ...]) -> Any:
    info, running = activity.info(), CURRENT.get()
    assert running is not None
    whose, label = _whose(info.workflow_id, given), running.task.row.summary
    name, _, index = (label or "").partition("[")
    rng = random.Random(f"{whose} {label} takes")
    await asyncio.sleep(rng.choice((0, 0.05, 0.4, 1)))
    outcome = outcome_of(whose, (name, int(index[:-1]) if index else None))
    if isinstance(outcome, Failed) and outcome.timed_out:
        await asyncio.sleep(FOREVER_S)
    if info.attempt == 1 and rng.random() < 0.2:
        raise ConnectionError("simulated")
    return _raised(outcome)


def _raised(outcome: Outcome) -> Any:
    if isinstance(outcome, Completed):
        return outcome.value
    assert isinstance(outcome, Failed)
    raise ApplicationError(outcome.message, type=outcome.type, non_retryable=True)


ACTIVITIES = [dag_work, dag_plan]
WORKFLOWS = [dag_child, any_dag]
TYPES = frozenset(one.__name__ for one in (dag_work, dag_plan))
"""The types of the activities."""


# --- drawing ----------------------------------------------------------------------------------------------------------


@dataclass
class DrawnDag:
    """A DAG, and what is told to its run.

    Attributes:
        id: The workflow's id.
        spec: The DAG.
        later: Another version of it, which workers serve as well.
        signals: What is sent, by the name of the signal.
        decisions: Which approvals are decided, and how.
        cancelled_after: How long after its start it is cancelled, in seconds.
    """

    id: str
    spec: DagSpec
    later: DagSpec
    signals: list[tuple[str, Any]] = field(default_factory=list)
    decisions: dict[str, bool] = field(default_factory=dict)
    cancelled_after: float | None = None

    @property
    def arguments(self) -> list[Any]:
        """Its input."""
        return [{"x": 3}]


def draw_dag(rng: random.Random, id: str, *, patient: bool) -> DrawnDag:
    """Draw a DAG.

    Args:
        rng: Draws.
        id: The id of its workflow.
        patient: Whether no wait ends by its timeout that somebody ends otherwise, however long things take.
    """
    specs = _spec(rng, id, patient=patient), _spec(rng, id, patient=patient)
    drawn = DrawnDag(id, *specs)
    for spec in specs:
        for node in spec.nodes:
            if isinstance(node, WaitFor) and rng.random() < 0.7:
                drawn.signals += [(node.event, event) for event in (1, {"x": 2}, {"x": 1, "rows": [1]})]
            if isinstance(node, Approval) and rng.random() < 0.7:
                drawn.decisions[node.id] = rng.random() < 0.7
    if patient:
        drawn.spec, drawn.later = _patient(specs[0], drawn), _patient(specs[1], drawn)
    elif rng.random() < 0.15:
        drawn.cancelled_after = rng.choice((0.2, 1, 3))
    return drawn


def _spec(rng: random.Random, id: str, *, patient: bool) -> DagSpec:
    spec = draw_spec(rng)
    if rng.random() < 0.6:
        spec = with_auxiliaries(rng, spec)
    if rng.random() < 0.7:
        spec = with_waits(rng, spec)
    reserve = 0 if patient else rng.choice((0, 0, 0, 20, 38))
    return replace(
        spec,
        name=id,
        timeout=FOREVER_S if patient else 40,
        reserve=reserve,
        options=PATIENT if patient else OPTIONS,
        params=(Parameter("p"), Parameter("q", False, [1, 2])),
        nodes=tuple(_served(rng, node) for node in spec.nodes),
    )


def _served(rng: random.Random, node: Node) -> Node:
    """The same node with a type that workers of the simulation serve."""
    if isinstance(node, Task) and rng.random() < 0.15:
        common = {
            name: getattr(node, name) for name in ("id", "after", "rule", "skip_when", "on_failure", "args")
        }
        common |= {name: getattr(node, name) for name in ("compensate", "compensate_when")}
        return Plan(**common, type="dag_plan", allow=("dag_work",), run_timeout=60)
    if isinstance(node, Child):
        return replace(node, type="dag_child")
    return replace(node, type="dag_work") if isinstance(node, Call) else node


def _patient(spec: DagSpec, drawn: DrawnDag) -> DagSpec:
    """The same DAG, in which only those waits time out that nobody ends."""

    def one(node: Node) -> Node:
        if isinstance(node, WaitFor):
            if node.match is not None or not drawn.signals:
                return replace(node, event="silence")
            drawn.signals.append((f"e-{node.id}", {"x": 2}))
            return replace(node, event=f"e-{node.id}", timeout=FOREVER_S / 2)
        if isinstance(node, Approval) and node.id in drawn.decisions:
            return replace(node, timeout=FOREVER_S / 2)
        if isinstance(node, Repeat):
            return replace(node, max_duration=None)
        if isinstance(node, Child):
            return replace(node, timeout=FOREVER_S / 2)
        if isinstance(node, Plan):
            return replace(node, run_timeout=FOREVER_S / 2)
        return node

    return replace(spec, nodes=tuple(map(one, spec.nodes)))


def definition_of_dag(spec: DagSpec) -> DagDefinition[..., Any]:
    """Make a workflow of a spec that was never built."""
    signature = CallSignature(spec.name, (), (), var_positional="args")
    path = CriticalPath((), 0, (), 0)
    return DagDefinition(spec, signature, "drawn", sources={}, critical_path=path)


# --- what is expected -------------------------------------------------------------------------------------------------


def is_certain(spec: DagSpec) -> bool:
    """Whether the order in which things end makes no difference to how the DAG ends."""
    partly = any(
        isinstance(node, Map) and node.compensate and node.on_item_failure == "fail" and node.concurrency != 1
        for node in spec.nodes
    )
    return spec.failure == "finish" and not partly


def expected(drawn: DrawnDag, spec: DagSpec) -> Any:
    """Return the oracle of a patient DAG that nothing disturbs, at its end."""
    oracle = oracle_of(spec, drawn.arguments)
    oracle.settle()
    while True:
        running = sorted((key for key, how in oracle.asked.items() if how == "running"), key=str)
        timers = sorted(oracle.timers())
        if running:
            key = running[0]
            args = oracle.calls[key[0]][key[1] or 0]
            oracle.take(key, _outcome(drawn, oracle.nodes[key[0]], key, args))
        elif timers:
            oracle.elapse(*timers[0])
        else:
            return oracle


def _outcome(drawn: DrawnDag, node: Node, key: Any, args: Any) -> Outcome:
    late = Failed("TimeoutError", "", timed_out=True)
    if isinstance(node, Sleep):
        return Completed(None)
    if isinstance(node, WaitFor):
        fitting = [value for name, value in drawn.signals if name == node.event]
        return Completed(fitting[0]) if fitting else late
    if isinstance(node, Approval):
        if node.id not in drawn.decisions:
            return late
        return Completed({"approved": drawn.decisions[node.id], "comment": None, "by": None})
    if isinstance(node, Child):
        return child_outcome(args)
    if isinstance(node, Plan):
        ends = [outcome_of(drawn.id, (name, None)) for name in PLANNED]
        return replace_timeout(next((end for end in ends if isinstance(end, Failed)), ends[-1]))
    return outcome_of(drawn.id, key)
