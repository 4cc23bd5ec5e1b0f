"""What is wrong with nodes that run for another one: because that one has failed, or to undo it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from outlast_dag.check.critical_path import words
from outlast_dag.check.durations import duration_of
from outlast_dag.check.findings import Finding
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Call, Map, Node, WaitFor

MOST_NESTED: Final = 20
"""How many steps may run for each other in a row: on the failure of what runs on the failure of …."""


def auxiliary_findings(spec: DagSpec) -> Iterator[Finding]:
    """Yield what is wrong with the nodes that run for another one."""
    places = {node.id: index for index, node in reversed(list(enumerate(spec.nodes)))}
    owners: dict[str, str] = {}
    for index, node in enumerate(spec.nodes):
        if isinstance(node, WaitFor) and node.event == spec.cancel_on:
            yield Finding(
                "bad_option",
                index,
                f"waits for the signal {node.event!r}, which cancels the run",
                "give one of them another name",
            )
        if isinstance(node, Map) and node.chunks_of is not None and node.compensate is not None:
            yield Finding(
                "bad_option",
                index,
                "is divided among children, and what a child has done that failed could not be undone",
                "take chunks_of away, or let its activity undo what it does",
            )
        for name in (node.on_failure, node.compensate):
            if name is None:
                continue
            if name not in places:
                yield Finding(
                    "unknown_dependency", index, f"names {name!r}, which is not there", "correct the id"
                )
                continue
            place = places[name]
            if name in owners or name == node.id:
                yield Finding("auxiliary_has_dependencies", place, "serves two steps", "write it twice")
                continue
            owners[name] = node.id
            yield from _wrong_helper(spec, place, node)
    for name in owners:
        way = [name]
        while way[-1] in owners and owners[way[-1]] not in way and len(way) <= MOST_NESTED:
            way.append(owners[way[-1]])
        if len(way) > MOST_NESTED:
            yield Finding(
                "too_large",
                places[name],
                f"runs for a step that runs for another one, and so on through more than {MOST_NESTED} steps",
                "let an activity try one way after the other",
            )
        elif way[-1] in owners and owners[way[-1]] == name == min(way, key=places.__getitem__):
            yield Finding(
                "cycle",
                places[name],
                f"only runs for itself, by way of {' -> '.join([*way, name])}",
                "let it run for a step that runs by itself",
            )


def _wrong_helper(spec: DagSpec, place: int, owner: Node) -> Iterator[Finding]:
    helper = spec.nodes[place]
    data = {ref.name for ref, _ in helper.references() if ref.root == "of"}
    if (
        helper.after
        or helper.skip_when is not None
        or helper.rule != "all_succeeded"
        or not data <= _reach(spec, helper.id)
    ):
        yield Finding(
            "auxiliary_has_dependencies",
            place,
            f"runs when {owner.id!r} fails or is undone, and has dependencies of its own",
            "give it only what that step could be given too, and no after, trigger or skip_when",
        )
    if helper.id != owner.compensate:
        return
    if helper.compensate is not None:
        yield Finding(
            "bad_option", place, "undoes a step, and cannot be undone itself", "take compensate away"
        )
    if isinstance(helper, Call):
        options = spec.options_of(helper)
        if options.schedule_to_close_timeout is None:
            if options.start_to_close_timeout is None and options.heartbeat_timeout is not None:
                yield Finding(
                    "missing_timeout",
                    place,
                    "undoes a step, and heartbeats extend it without end",
                    "give it schedule_to_close_timeout",
                )
            if options.policy.max_attempts == 0:
                yield Finding(
                    "unbounded_retries",
                    place,
                    "undoes a step, and is tried again without end: the steps before it would not be undone",
                    "limit its attempts, or give it schedule_to_close_timeout",
                )
    if owner.compensate_when == "started" and not isinstance(owner, Map):
        for ref, optional in helper.references():
            if ref.name == owner.id and ref.root == "of" and ref.path and not optional:
                yield Finding(
                    "data_may_be_missing",
                    place,
                    f"undoes {owner.id!r} also where that has not completed, and takes a part of what it returned",
                    "take all of it, which is null then, or say what it is given then, with or_else",
                )


def depends_on_auxiliary(index: int | None, name: str) -> Finding:
    """Return what is wrong with a node that depends on one that runs for another.

    Args:
        index: The node; ``None`` for the result of the DAG.
        name: What it depends on.
    """
    return Finding(
        "auxiliary_has_dependencies",
        index,
        f"depends on {name!r}, which runs only when another step fails or is undone",
        "depend on that other step",
    )


def _reach(spec: DagSpec, name: str) -> set[str]:
    """Return the nodes whose output an auxiliary node may be given: they have ended whenever it runs."""
    found: set[str] = set()
    seen = {name}
    while name in spec.graph.auxiliary:
        owner = spec.graph.auxiliary[name]
        if spec.graph.nodes[owner].compensate == name:
            found.add(owner)
        if owner in seen:
            break
        seen.add(owner)
        name = owner
    left = list(spec.graph.producers.get(name, ()))
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += spec.graph.producers.get(one, ())
    return found


def compensation_findings(spec: DagSpec) -> Iterator[Finding]:
    """Yield that a run which reaches its deadline has no time to undo what it has done."""
    undoing = {node.compensate for node in spec.nodes if node.compensate is not None}
    durations = [duration_of(spec, spec.graph.nodes[name]) for name in sorted(undoing)]
    if not undoing or spec.timeout is None:
        return
    once, worst = (sum(one[place] for one in durations) for place in (0, 1))
    if not spec.reserve:
        yield Finding(
            "no_time_to_compensate",
            None,
            "a run that reaches its deadline ends at once, and nothing is undone",
            f"give it reserve={worst:g} or more: so long before its deadline it is stopped and undone",
        )
    elif once > spec.reserve:
        yield Finding(
            "no_time_to_compensate",
            None,
            f"undoing takes {words(once)} at one attempt, one step after the other, and the reserve is "
            f"{words(spec.reserve)}",
            f"give it reserve={worst:g} or more",
        )
    elif worst > spec.reserve:
        yield Finding(
            "no_time_to_compensate",
            None,
            f"undoing takes {words(worst)} at worst, with all attempts, and the reserve is {words(spec.reserve)}",
            f"give it reserve={worst:g} or more, or the steps that undo fewer attempts",
        )
