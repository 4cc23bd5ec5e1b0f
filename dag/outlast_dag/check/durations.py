"""How long a node takes at most: at one attempt, and at worst.

Waiting for a worker counts only where a schedule-to-start timeout bounds it.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Approval, Call, Child, Map, Node, Plan, Repeat, Sleep, WaitFor
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND

UNBOUNDED: Final = math.inf

MOST_WAITS: Final = 1_000
"""How many waits between attempts are added up one by one; later ones count as the longest that there may be."""


class Duration(NamedTuple):
    """In seconds: if nothing has to be tried again, and at worst."""

    once: float
    worst: float


def duration_of(spec: DagSpec, node: Node) -> Duration:
    """Return how long a node takes at most. A part without bounds of its own takes as long as the DAG may.

    Args:
        spec: The DAG.
        node: One of its nodes.
    """
    once, worst = _duration(spec, node)
    if node.on_failure is not None and node.on_failure in spec.graph.nodes:
        worst += duration_of(spec, spec.graph.nodes[node.on_failure]).worst
    whole = UNBOUNDED if spec.timeout is None else spec.timeout
    return Duration(min(once, whole) if once == UNBOUNDED else once, whole if worst == UNBOUNDED else worst)


def _duration(spec: DagSpec, node: Node) -> Duration:
    if isinstance(node, Map):
        waves, call = _waves(spec, node), _call(spec, node)
        return Duration(waves * call.once, waves * call.worst)
    if isinstance(node, Repeat):
        times = UNBOUNDED if node.max_iterations is None else node.max_iterations
        longest = UNBOUNDED if node.max_duration is None else node.max_duration
        call = _call(spec, node)
        return Duration(
            *(min(times * (each + node.delay), longest) if each or node.delay else 0 for each in call)
        )
    if isinstance(node, Call):
        call = _call(spec, node)
        planned = node.run_timeout or 0 if isinstance(node, Plan) else 0
        return Duration(call.once + planned, call.worst + planned)
    if isinstance(node, Sleep):
        seconds = node.seconds if node.seconds is not None else node.timeout
    elif isinstance(node, Child) and node.parent_close_policy == "abandon":
        seconds = 0
    else:
        assert isinstance(node, Child | WaitFor | Approval)
        seconds = node.timeout
    seconds = UNBOUNDED if seconds is None else seconds
    return Duration(seconds, seconds)


def limit_of(spec: DagSpec, node: Map) -> int:
    """Return how many items of a map run at once; 0 for all.

    Args:
        spec: The DAG.
        node: The map.
    """
    limits = [limit for limit in (node.concurrency, spec.max_parallel) if limit]
    return min(limits, default=0)


def children_at_once(spec: DagSpec, node: Map) -> int:
    """Return how many children of a divided map run at once, so that no more items do than may; 0 for all.

    Args:
        spec: The DAG.
        node: The map.
    """
    most = limit_of(spec, node)
    return max(1, most // (node.chunks_of or 1)) if most else 0


def _waves(spec: DagSpec, node: Map) -> int:
    """Return in how many waves the items of a map run at most, one after the other."""
    most = limit_of(spec, node) or node.max_items
    if not node.chunks_of:
        return math.ceil(node.max_items / most)
    children = math.ceil(node.max_items / node.chunks_of)
    at_once = children_at_once(spec, node) or children
    return math.ceil(children / at_once) * math.ceil(node.chunks_of / min(most, node.chunks_of))


def _call(spec: DagSpec, node: Call) -> Duration:
    options = spec.options_of(node)
    altogether = options.schedule_to_close_timeout
    attempt = options.start_to_close_timeout
    if attempt is None:
        # A step that heartbeats extend: silent for this long at most, and altogether as long as it may be.
        once = altogether if altogether is not None else options.heartbeat_timeout
        worst = UNBOUNDED
    else:
        once = attempt
        worst = attempts_seconds(
            options.policy, attempt + (options.schedule_to_start_timeout or 0), options.policy.max_attempts
        )
    if altogether is not None:
        worst = min(worst, altogether)
    return Duration(UNBOUNDED if once is None else once, worst)


def attempts_seconds(policy: RetryPolicy, attempt: float, attempts: int) -> float:
    """Return how long so many attempts take with the waits between them, each as long as jitter makes it.

    Args:
        policy: The retry policy.
        attempt: How long an attempt takes, its wait for a worker included.
        attempts: How many there are; 0 for no end of them.
    """
    if not attempts:
        return UNBOUNDED
    waits = 0
    for number in range(1, attempts):
        wait = policy.delay_us(number, 1.0)
        waits += wait
        if wait >= policy.max_us or policy.backoff_coefficient == 1:
            # All later waits are as long as this one.
            waits += (attempts - 1 - number) * wait
            break
        if number == MOST_WAITS:
            waits += (attempts - 1 - number) * policy.max_us
            break
    return attempts * attempt + waits / MICROSECONDS_PER_SECOND
