"""What can be wrong with nodes that wait, that start a child, or that repeat a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any, Final

from outlast_dag.check.critical_path import words
from outlast_dag.check.findings import Finding
from outlast_dag.spec.dag import ANY_DAG, DagSpec
from outlast_dag.spec.nodes import MAX_PLANNED, Approval, Child, Node, Plan, Repeat, Sleep, WaitFor
from outlast_dag.spec.values import references
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import (
    priority,
    timeout_seconds,
    validate_name,
    validate_task_queue,
    validate_workflow_type,
)

_NO_END: Final = ("missing_timeout", "nothing bounds the wait", "give it a timeout")


def kind_findings(spec: DagSpec) -> Iterator[Finding]:
    """Yield what is wrong with nodes that are more than one call of an activity.

    Args:
        spec: The DAG.
    """
    for index, node in enumerate(spec.nodes):
        if isinstance(node, Sleep):
            found = _sleep(node)
        elif isinstance(node, Child):
            found = _child(node)
        elif isinstance(node, WaitFor):
            found = _wait(node)
        elif isinstance(node, Approval):
            found = iter(()) if node.timeout else iter((_NO_END,))
        elif isinstance(node, Repeat):
            found = _repeat(node)
        elif isinstance(node, Plan):
            found = _plan(node)
        else:
            continue
        for kind, message, advice in found:
            yield Finding(kind, index, message, advice)


def _sleep(node: Sleep) -> Iterator[tuple[str, str, str]]:
    if (node.seconds is None) == (node.until is None):
        yield "bad_option", "sleeps for seconds or until an instant", "give one of them"
    elif node.until is not None and not node.timeout:
        yield _NO_END


def _child(node: Child) -> Iterator[tuple[str, str, str]]:
    if not node.timeout:
        yield (
            "missing_timeout",
            "nothing bounds the child",
            "give it a timeout, or its workflow a run_timeout",
        )
    else:
        # Starts take no shorter one.
        check = partial(timeout_seconds, "timeout", minimum_seconds=1)
        yield from _refused("timeout_out_of_range", check, node.timeout)
    if node.type != ANY_DAG:
        yield from _refused("bad_option", partial(validate_workflow_type, "workflow"), node.type)
    yield from _refused("bad_option", validate_task_queue, node.task_queue)
    yield from _refused("bad_option", priority, node.priority)


def _wait(node: WaitFor) -> Iterator[tuple[str, str, str]]:
    if not node.timeout:
        yield _NO_END
    yield from _refused("bad_option", partial(validate_name, "signal name", segment=True), node.event)


def _repeat(node: Repeat) -> Iterator[tuple[str, str, str]]:
    if node.max_iterations is None and node.max_duration is None:
        yield "missing_timeout", "repeats without end", "give it max_iterations or max_duration"
    elif node.max_iterations is None and not node.delay:
        yield (
            "history_too_long",
            "repeats without a pause, and nothing bounds how often",
            "give it max_iterations, or a delay",
        )
    if node.max_iterations is not None and node.max_iterations < 1:
        yield "bad_repeat", "max_iterations must be at least 1", ""
    if node.max_duration is not None and node.max_duration <= 0:
        yield "timeout_out_of_range", "max_duration must be positive", ""
    for value in node.args:
        if _needs_result(value):
            yield (
                "data_may_be_missing",
                "is given what the call before returned, and before the first call there is none",
                "say what the first call is given: last(first), in a document or_else",
            )


def _plan(node: Plan) -> Iterator[tuple[str, str, str]]:
    if not node.run_timeout:
        yield "missing_timeout", "nothing bounds what it plans", "give it a run_timeout"
    else:
        check = partial(timeout_seconds, "run_timeout", minimum_seconds=1)
        yield from _refused("timeout_out_of_range", check, node.run_timeout)
    if not node.allow:
        yield "bad_plan", "may plan nothing", "name what it may call with allow=[…]"
    if not 1 <= node.max_nodes <= MAX_PLANNED:
        yield "bad_plan", f"max_nodes must be from 1 to {MAX_PLANNED}", "plan in parts"


def _needs_result(value: Any) -> bool:
    return any(
        ref.root == "bound" and ref.name == "result" and not optional for ref, optional in references(value)
    )


def _refused(kind: str, check: Callable[[Any], Any], value: Any) -> Iterator[tuple[str, str, str]]:
    if value is not None:
        try:
            check(value)
        except InvalidOptionError as error:
            yield kind, error.message, ""


def calls_of(node: Repeat) -> float:
    """Return how many calls a node that repeats makes at most."""
    by_time = inf
    if node.max_duration is not None and node.delay:
        by_time = node.max_duration // node.delay + 1
    return min(inf if node.max_iterations is None else node.max_iterations, by_time)


def child_findings(spec: DagSpec) -> Iterator[Finding]:
    """Yield the children that may take longer than the DAG, which waits for them.

    Args:
        spec: The DAG.
    """
    for index, node in enumerate(spec.nodes):
        if _outlives(spec, node):
            assert isinstance(node, Child)
            assert node.timeout is not None
            assert spec.timeout is not None
            yield Finding(
                "child_outlives_deadline",
                index,
                f"the child may take {words(node.timeout)}, and the DAG has {words(spec.timeout - spec.reserve)}",
                'give it a shorter timeout, or parent_close_policy="abandon"',
            )


def _outlives(spec: DagSpec, node: Node) -> bool:
    return (
        isinstance(node, Child)
        and node.parent_close_policy != "abandon"
        and node.timeout is not None
        and spec.timeout is not None
        and node.timeout > spec.timeout - spec.reserve
    )
