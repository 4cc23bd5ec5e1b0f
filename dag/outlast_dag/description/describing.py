"""Describing a run of a DAG: what history says, joined with the work that is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from math import isinf
from typing import Any, Final

from outlast.client.workflows.run_reader import RunReader
from outlast.runtime.runtime import Runtime
from outlast.visibility.dags import (
    DagDescription,
    DagNode,
    FiringKind,
    ItemCounts,
    NodeFiring,
    NodeState,
    NodeWait,
)
from outlast.visibility.views import FailureCause, PendingActivity, PendingTimer, WorkflowDescription
from outlast_dag.check.critical_path import critical_path, longest
from outlast_dag.check.durations import duration_of
from outlast_dag.description.fold import DagFold
from outlast_dag.description.folds import folds_of
from outlast_dag.run.actions import Failed
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Map, Node
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import ActivityStatus, FailureCategory
from outlast_workflow.primitives.times import to_datetime

OPEN: Final = frozenset({"waiting", "running", "backing_off"})
"""The states of a node that has not ended."""

ONE_CALL: Final = frozenset({"task", "child"})
"""The kinds of nodes that end with their one call."""

WAITS: Final[Mapping[str, Callable[[Any], NodeWait]]] = {
    "sleep": lambda node: NodeWait(kind="timer"),
    "wait_for": lambda node: NodeWait(kind="event", name=node.event),
    "approval": lambda node: NodeWait(kind="approval", name=node.id),
}
"""What a node of a kind waits for while it runs, if that is no activity and no child."""


async def describe(handle: RunReader[Any]) -> DagDescription:
    """Describe a run of a DAG: how each node stands, what it waits for, and what fires when. No worker is needed.

    Args:
        handle: The workflow, as ``client.start`` or ``client.handle`` returns it.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        InvalidOptionError: It is not a run of a DAG, or it has not begun.
        PayloadCodecError: Its payloads need another codec.
        NonDeterminismError: It has made calls that its DAG does not make: an interceptor's, for example.
    """
    found = await handle.describe()
    described = await describe_run(handle.runtime, handle.converter, found)
    if described is None:
        raise InvalidOptionError(
            f"workflow {handle.workflow_id!r} is not a run of a DAG, or has not begun yet",
            field="workflow_id",
        )
    return described


async def describe_run(
    runtime: Runtime, converter: DataConverter, found: WorkflowDescription
) -> DagDescription | None:
    """Return the description of a run of a DAG; ``None`` if the run is not one, or has not begun.

    Args:
        runtime: The database.
        converter: Decodes what it has recorded.
        found: The run.

    Raises:
        OutlastError: As for :func:`describe`.
    """
    fold = await folds_of(runtime).of(found.run.run_id, found.workflow_type, converter)
    if fold is None or fold.spec is None:
        return None
    return _Run(fold, fold.spec, found).described()


class _Run:
    """One run: its history, and what is open of it."""

    def __init__(self, fold: DagFold, spec: DagSpec, found: WorkflowDescription) -> None:
        self.fold = fold
        self.spec = spec
        self.found = found
        self.nodes = spec.graph.nodes
        self.work = _OpenWork(found)
        self.ended = fold.ended
        self.failures: dict[str, Failed] = dict(fold.progress.failures) if fold.progress is not None else {}
        self.states: dict[str, NodeState] = {name: self._state(name) for name in spec.graph.whole_order}
        self.items = self._items()

    def described(self) -> DagDescription:
        """Return the description."""
        found, spec, run = self.found, self.spec, self.found.run
        deadline = min(filter(None, (run.run_deadline_at, run.execution_deadline_at)), default=None)
        left = slack = None
        if run.closed_at is None:
            chain, left = longest(spec, {name: self._left(name) for name in spec.graph.order})
            if deadline is not None and not isinf(left):
                slack = round((deadline - found.described_at).total_seconds() - spec.reserve - left, 3)
        else:
            chain = critical_path(spec).nodes
        return DagDescription(
            workflow_id=found.workflow_id,
            run_id=run.run_id,
            status=run.status,
            name=spec.name,
            version=spec.version,
            hash=spec.hash,
            nodes=tuple(self._node(name, critical=name in set(chain)) for name in self.states),
            deadline_at=deadline,
            left_seconds=None if left is None or isinf(left) else round(left, 3),
            slack_seconds=slack,
            at_risk=slack is not None and slack < 0,
            described_at=found.described_at,
        )

    def _state(self, name: str) -> NodeState:
        node = self.nodes[name]
        state: NodeState = self.fold.states.get(name, "waiting")
        over = self.ended.get(name)
        # Where another node deals with a failure, it takes a workflow task to say so.
        if (
            state == "running"
            and node.kind in ONE_CALL
            and over is not None
            and (over == "completed" or node.on_failure is None)
        ):
            state = over
        if self.found.run.closed_at is not None and state in OPEN:
            # The engine has ended the run, without a workflow task that could have said so.
            return "skipped" if name in self.spec.graph.auxiliary else "cancelled"
        return state

    def _items(self) -> dict[str, ItemCounts]:
        found: dict[str, ItemCounts] = {}
        fresh: dict[str, list[NodeState]] = defaultdict(list)
        for label, state in self.ended.items():
            fresh[node_of(label)].append(state)
        for name in self.states:
            items = self.fold.progress.items_of(name) if self.fold.progress is not None else None
            if items is None:
                continue
            over = fresh[name]
            found[name] = ItemCounts(
                total=items.count,
                completed=items.completed + over.count("completed"),
                failed=items.failed + over.count("failed") + over.count("timed_out"),
                running=max(0, len(items.open) - len(over)),
                left=items.count - items.next,
            )
        return found

    def _left(self, name: str) -> float:
        """Return how long a node still takes, if each first attempt succeeds as late as it may."""
        state, items, node = self.states[name], self.items.get(name), self.nodes[name]
        if state not in OPEN:
            return 0.0
        if items is not None and isinstance(node, Map):
            # What is divided among children counts their parts.
            left = (items.running + items.left) * (node.chunks_of or 1)
            return duration_of(self.spec, replace(node, max_items=left)).once if left else 0.0
        began = self.fold.began(name)
        elapsed = 0.0 if began is None else (self.work.now - to_datetime(began)).total_seconds()
        return max(0.0, duration_of(self.spec, node).once - elapsed)

    def _node(self, name: str, *, critical: bool) -> DagNode:
        node, state = self.nodes[name], self.states[name]
        activities = self.work.activities.get(name, []) if state == "running" else []
        backs_off = bool(activities) and all(map(self.work.backs_off, activities))
        tried = max(activities, key=lambda one: one.attempt, default=None)
        began, over = self.fold.began(name), self.fold.over(name)
        return DagNode(
            id=name,
            kind=node.kind,
            type=getattr(node, "type", None) or getattr(node, "event", None),
            depends_on=self.spec.graph.producers.get(name, ()),
            rule=node.rule,
            conditional=node.skip_when is not None,
            on_failure=node.on_failure,
            compensate=node.compensate,
            critical=critical,
            state="backing_off" if backs_off else state,
            attempt=tried.attempt if tried is not None else None,
            max_attempts=tried.max_attempts if tried is not None else None,
            began_at=None if began is None else to_datetime(began),
            ended_at=None if over is None or state in OPEN else to_datetime(over),
            items=self.items.get(name),
            iterations=self.fold.progress.iterations_of(name) if self.fold.progress is not None else None,
            waits_for=tuple(self._waits(node, activities)),
            fires=min(self.work.firings(name), key=lambda one: one.at, default=None)
            if state in OPEN
            else None,
            last_failure=self._failure(name, activities),
        )

    def _waits(self, node: Node, activities: list[PendingActivity]) -> Iterator[NodeWait]:
        """Yield what a node waits for, each once."""
        name, graph = node.id, self.spec.graph
        if self.states[name] == "waiting" and name in graph.auxiliary:
            owner = graph.auxiliary[name]
            undoes = self.nodes[owner].compensate == name
            yield NodeWait(kind="undoing" if undoes else "failure", name=owner)
        elif self.states[name] == "waiting":
            unmet = list(filter(None, map(self._unmet, graph.producers[name])))
            for one in unmet:
                yield NodeWait(kind="node", name=one)
            if not unmet:
                yield NodeWait(kind="decision")
        elif self.states[name] == "running":
            yield from dict.fromkeys(wait for one in activities if (wait := self.work.waits(one)) is not None)
            children = self.work.children.get(name, ())
            for child in children:
                yield NodeWait(kind="child", name=child)
            if node.kind in WAITS:
                yield WAITS[node.kind](node)
            elif not activities and not children:
                if self.work.timers.get(name):
                    yield NodeWait(kind="timer")
                else:
                    yield NodeWait(kind="room" if self.spec.max_parallel else "decision")

    def _unmet(self, name: str) -> str | None:
        """Return what has not ended of a node that another one waits for: itself, or what takes its place."""
        if self.states[name] in OPEN:
            return name
        instead = self.nodes[name].on_failure
        failed = self.states[name] in ("failed", "timed_out") and name not in self.failures
        return self._unmet(instead) if instead is not None and failed else None

    def _failure(self, name: str, activities: list[PendingActivity]) -> FailureCause | None:
        """Return why a node has failed for good, or why an attempt of it did."""
        failure = self.failures.get(name)
        if failure is not None:
            category = FailureCategory.TIMEOUT if failure.timed_out else FailureCategory.APPLICATION
            return FailureCause(category=category, exception_class=failure.type, message=failure.message)
        return next((one.last_failure for one in reversed(activities) if one.last_failure is not None), None)


class _OpenWork:
    """What is open of a run, by the node that its label names."""

    def __init__(self, found: WorkflowDescription) -> None:
        self.now = found.described_at
        self.activities: dict[str, list[PendingActivity]] = defaultdict(list)
        self.timers: dict[str, list[PendingTimer]] = defaultdict(list)
        for activity in found.pending_activities:
            self.activities[node_of(activity.summary)].append(activity)
        for timer in found.pending_timers:
            self.timers[node_of(timer.summary)].append(timer)
        self.children: dict[str, list[str]] = defaultdict(list)
        for child in found.pending_children:
            self.children[node_of(child.summary)].append(child.workflow_id)

    def firings(self, name: str) -> Iterator[NodeFiring]:
        """Yield what is to fire of a node."""
        for one in self.activities.get(name, ()):
            kinds: tuple[tuple[FiringKind, datetime | None], ...] = (
                ("schedule_to_start", one.schedule_to_start_deadline_at),
                ("start_to_close", one.start_to_close_deadline_at),
                ("schedule_to_close", one.schedule_to_close_deadline_at),
                ("heartbeat", one.heartbeat_deadline_at),
                ("next_attempt", one.available_at if self.backs_off(one) else None),
            )
            for kind, at in kinds:
                if at is not None:
                    yield NodeFiring(kind=kind, at=at)
        for timer in self.timers.get(name, ()):
            yield NodeFiring(kind="timer", at=timer.fire_at)

    def backs_off(self, one: PendingActivity) -> bool:
        """Return whether an activity waits for its next attempt."""
        pending = one.status == ActivityStatus.PENDING
        return pending and one.available_at is not None and one.available_at > self.now

    def waits(self, one: PendingActivity) -> NodeWait | None:
        """Return what an activity waits for, if it does not run."""
        if one.status != ActivityStatus.PENDING:
            return None
        if self.backs_off(one):
            return NodeWait(kind="backoff")
        if one.queue is not None and not one.queue.holds_slot:
            return NodeWait(kind="queue", name=one.queue.name)
        return NodeWait(kind="worker", name=one.task_queue)


def node_of(label: str | None) -> str:
    """Return the node that the label of a call names: ``parse`` of ``parse[17]``."""
    return (label or "").partition("[")[0]
