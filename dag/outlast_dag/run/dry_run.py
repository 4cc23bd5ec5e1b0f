"""A run of a DAG without an engine: what would begin, with what, and how it would end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from outlast_dag.run.actions import (
    Cancel,
    Cancelled,
    ClearTimer,
    Completed,
    Failed,
    Finish,
    NodeState,
    Outcome,
    SetTimer,
    Start,
)
from outlast_dag.run.progress import Progress
from outlast_dag.run.waits import decided
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Approval
from outlast_workflow.errors import ApplicationError, InvalidOptionError


class Built(Protocol):
    """A DAG that was built."""

    spec: DagSpec


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run found.

    Attributes:
        status: How the DAG ended: ``completed`` or ``failed``.
        result: What it returned.
        states: The state of each node, by id, in topological order.
        calls: What began, in order: ``fetch``, ``parse[17]``, each with its arguments. Waits are among them.
        failures: The nodes that failed, in the order in which they did.
    """

    status: str
    result: Any
    states: dict[str, NodeState]
    calls: list[tuple[str, tuple[Any, ...]]]
    failures: list[str]


def dry_run(flow: Built | DagSpec, *args: Any, outcomes: Mapping[str, Any] | None = None) -> DryRun:
    """Run a DAG with outcomes that you give, by the rules of the engine, and say what happens. Nothing is called.

    Calls end in the order in which they begin. The activities' own retries are over by then: an exception stands for an
    activity that has failed for good.

    Args:
        flow: The DAG, or its spec.
        *args: Its input, as JSON values.
        outcomes: By node (``fetch``), or item or repeated call (``parse[17]``, which wins): what it returns, as a JSON
            value, an exception that it raises, or a function of its arguments that returns one of the two. Of a wait
            that is the signal or the decision; a ``TimeoutError`` ends it as its timeout would. ``None`` is returned by
            the others, and other approvals are approved.

    Raises:
        InvalidOptionError: An outcome belongs to no node, or there are too many or too few arguments.
    """
    spec = flow if isinstance(flow, DagSpec) else flow.spec
    given = dict(outcomes or {})
    for name in given:
        if name.partition("[")[0] not in spec.graph.nodes:
            raise InvalidOptionError(f"outcomes: the DAG {spec.name} has no node {name!r}", field="outcomes")
    required = sum(parameter.required for parameter in spec.params)
    if not required <= len(args) <= len(spec.params):
        names = ", ".join(parameter.name for parameter in spec.params) or "nothing"
        raise InvalidOptionError(f"the DAG {spec.name} takes {names}: {len(args)} given", field="args")
    progress = Progress(spec, args)
    calls: list[tuple[str, tuple[Any, ...]]] = []
    running: deque[Start | SetTimer] = deque()
    stopped: set[tuple[str, int | None]] = set()
    actions = progress.begin()
    while True:
        for action in actions:
            if isinstance(action, Start):
                calls.append((_label(action), action.args))
                running.append(action)
            elif isinstance(action, SetTimer):
                # Time passes only where nothing else happens, so no duration is ever used up.
                running += [action] if action.timer == "delay" else []
            elif isinstance(action, ClearTimer):
                running = deque(one for one in running if not _is_timer(one, action))
            elif isinstance(action, Cancel):
                stopped.add((action.node, action.index))
            else:
                return _found(action, progress, calls)
        call = running.popleft()
        if isinstance(call, SetTimer):
            actions = progress.elapsed(call.node, call.timer)
            continue
        key = (call.node, call.index)
        outcome = Cancelled() if key in stopped else _outcome(spec, given, call)
        actions = progress.offer(*key, outcome)


def _is_timer(one: Start | SetTimer, cleared: ClearTimer) -> bool:
    return isinstance(one, SetTimer) and (one.node, one.timer) == (cleared.node, cleared.timer)


def _label(call: Start) -> str:
    return call.node if call.index is None else f"{call.node}[{call.index}]"


def _outcome(spec: DagSpec, given: Mapping[str, Any], call: Start) -> Outcome:
    label = _label(call)
    approved = decided(approved=True) if isinstance(spec.graph.nodes[call.node], Approval) else None
    found = given[label] if label in given else given.get(call.node, approved)
    if callable(found) and not isinstance(found, type):
        compute: Callable[..., Any] = found
        try:
            found = compute(*call.args)
        except Exception as error:
            found = error
    if isinstance(found, Exception):
        name = found.type if isinstance(found, ApplicationError) else type(found).__name__
        return Failed(name, str(found), isinstance(found, TimeoutError), cause=found)
    return Completed(found)


def _found(finish: Finish, progress: Progress, calls: list[tuple[str, tuple[Any, ...]]]) -> DryRun:
    failures = [name for name, _ in finish.failures]
    return DryRun(finish.status, finish.result, dict(progress.states), calls, failures)
