"""The critical path: the chain of nodes that takes longest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outlast_dag.check.durations import Duration, attempts_seconds, duration_of
from outlast_dag.check.findings import Finding
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Call, Map, Node, Sleep


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The longest chains of nodes, in seconds.

    Waiting for a worker counts only where a schedule-to-start timeout bounds it, and ``max_parallel`` only within maps.

    Attributes:
        nodes: The chain that takes longest if each node's first attempt succeeds, as late as it may.
        seconds: How long it takes.
        worst_nodes: The chain that takes longest if each node needs all its attempts, and all waits between them.
        worst_seconds: How long that takes.
    """

    nodes: tuple[str, ...]
    seconds: float
    worst_nodes: tuple[str, ...]
    worst_seconds: float

    def __str__(self) -> str:
        return (
            f"{words(self.seconds)} at one attempt ({' -> '.join(self.nodes)}), {words(self.worst_seconds)} at worst "
            f"({' -> '.join(self.worst_nodes)}), without waiting for workers that no schedule-to-start timeout bounds"
        )


def critical_path(spec: DagSpec) -> CriticalPath:
    """Return the critical path of a DAG without cycles."""
    durations = {name: duration_of(spec, spec.graph.nodes[name]) for name in spec.graph.order}
    nodes, seconds = longest(spec, {name: one.once for name, one in durations.items()})
    worst_nodes, worst_seconds = longest(spec, {name: one.worst for name, one in durations.items()})
    return CriticalPath(nodes, seconds, worst_nodes, worst_seconds)


def longest(spec: DagSpec, durations: dict[str, float]) -> tuple[tuple[str, ...], float]:
    """Return the longest chain, and how long it takes. Of equally long ones, that of the nodes declared first.

    Args:
        spec: The DAG.
        durations: How long each node takes, in seconds, by id, in topological order.
    """
    ends: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for name, duration in durations.items():
        latest = max(spec.graph.producers[name], key=lambda producer: ends[producer], default=None)
        before[name] = latest
        ends[name] = (ends[latest] if latest is not None else 0) + duration
    last = max(ends, key=lambda name: ends[name], default=None)
    way: list[str] = []
    at = last
    while at is not None:
        way.append(at)
        at = before[at]
    return tuple(reversed(way)), _tidy(ends[last]) if last is not None else 0


def deadline_findings(spec: DagSpec, path: CriticalPath) -> Iterator[Finding]:
    """Yield what is wrong with a DAG's timeout, and what may be too short about it.

    Args:
        spec: The DAG.
        path: Its critical path.
    """
    if spec.timeout is None:
        return
    deadline = spec.timeout - spec.reserve
    sleeps = {
        name: float(node.seconds or 0) if isinstance(node := spec.graph.nodes[name], Sleep) else 0.0
        for name in spec.graph.order
    }
    asleep = longest(spec, sleeps)[1]
    if deadline <= 0:
        yield Finding(
            "deadline_never_holds",
            None,
            f"the reserve takes all of its {words(spec.timeout)}, and nothing could begin",
            "give it a longer timeout, or a shorter reserve",
        )
    elif asleep >= deadline:
        yield Finding(
            "deadline_never_holds",
            None,
            f"its sleeps alone take {words(asleep)}, and {words(deadline)} are there",
            "give it a longer timeout",
        )
    elif path.seconds > deadline:
        yield Finding(
            "deadline_below_critical_path",
            None,
            f"{words(deadline)} are there, and the critical path takes {words(path.seconds)} at one attempt "
            f"({' -> '.join(path.nodes)})",
            f"give it a longer timeout, or its steps shorter ones{_lists(spec, path.nodes)}",
        )
    elif path.worst_seconds > deadline:
        yield Finding(
            "deadline_below_worst_case",
            None,
            f"{words(deadline)} are there, and the critical path takes {words(path.worst_seconds)} at worst: "
            f"{_first_misfit(spec, path, deadline)}",
            f"give it a longer timeout, or its steps fewer attempts{_lists(spec, path.worst_nodes)}",
        )


def _lists(spec: DagSpec, names: tuple[str, ...]) -> str:
    """Return how many items each map of a chain counts with, in words."""
    maps = [node for name in names if isinstance(node := spec.graph.nodes[name], Map)]
    return "".join(f"; {node.id!r} counts with max_items={node.max_items}" for node in maps)


def _first_misfit(spec: DagSpec, path: CriticalPath, deadline: float) -> str:
    """Return the first attempt on the worst path that ends after the deadline, in words."""
    begun = 0.0
    for name in path.worst_nodes:
        node = spec.graph.nodes[name]
        duration = duration_of(spec, node)
        if begun + duration.worst > deadline:
            return f"from {name!r} on{_misfit_of(spec, node, duration, deadline - begun)}"
        begun += duration.worst
    raise AssertionError("the worst path fits")


def _misfit_of(spec: DagSpec, node: Node, duration: Duration, left: float) -> str:
    if not isinstance(node, Call) or isinstance(node, Map):
        return ", not everything fits"
    options = spec.options_of(node)
    attempt = options.start_to_close_timeout
    if attempt is None or not options.policy.max_attempts:
        return ", not everything fits"
    attempt += options.schedule_to_start_timeout or 0
    if attempts_seconds(options.policy, attempt, options.policy.max_attempts) <= left:
        return ", what runs in its place if it fails no longer fits"
    number = 1
    while attempts_seconds(options.policy, attempt, number) <= left and number < options.policy.max_attempts:
        number += 1
    return f", attempt {number} of {options.policy.max_attempts} no longer fits"


def words(seconds: float) -> str:
    """Return a duration in words: ``90 s``, ``2 h 30 min``."""
    if seconds == float("inf"):
        return "no end of time"
    if seconds < 120:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h" + (f" {minutes} min" if minutes else "")
    days, hours = divmod(hours, 24)
    return f"{days} d" + (f" {hours} h" if hours else "")


def _tidy(seconds: float) -> float:
    """Return a sum of seconds as an int if it is whole, and without the dust of floats."""
    if seconds == float("inf"):
        return seconds
    near = round(float(seconds), 6)
    return int(near) if near.is_integer() else near
