"""Everything that can be wrong with a spec. One that passes has a finite worst case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

import orjson

from outlast_dag.check.auxiliaries import auxiliary_findings, depends_on_auxiliary
from outlast_dag.check.findings import NO_TIMEOUT, Finding
from outlast_dag.check.kinds import calls_of, kind_findings
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Call, Map, Node, Plan, Repeat, WaitFor
from outlast_dag.spec.values import Ref, references
from outlast_workflow.data.writing import MOST_LEVELS, is_deep
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import MAX_SUMMARY_LENGTH, validate_workflow_type

MAX_NODES: Final = 2_000
MAX_BYTES: Final = 512 * 1024
MAX_LEVELS: Final = MOST_LEVELS - 10
"""How deep its JSON may be nested: what records it, or starts a run of it, puts it into other values."""
MIN_TIMEOUT_S: Final = 1
"""The shortest run timeout, in seconds."""
MAX_ITEMS: Final = 10_000
"""How many items a map has at most, if it is not divided among children."""
MAX_EVENTS: Final = 45_000
"""How long a history may get at worst: a tenth below where the engine ends the run."""
EVENTS_PER_CALL: Final = 3
"""Scheduled, ended, and the workflow task that saw the end."""
MAX_ID: Final = MAX_SUMMARY_LENGTH - len(f"[{MAX_ITEMS - 1}]")
"""How long the id of a node is at most, its groups included: it labels the node's calls, with the item's position."""
MAX_SEGMENT: Final = 64
"""How long each part of it is at most: the name of a group, or what comes after the groups."""

_SEGMENT: Final = re.compile(f"[A-Za-z0-9_-]{{1,{MAX_SEGMENT}}}")

_RUNS_WITHOUT: Final = ("all_done", "one_succeeded", "one_failed", "all_failed")
"""Rules under which a node runs although something that it depends on has no output."""


def findings(spec: DagSpec) -> list[Finding]:
    """Return everything that is wrong with a spec."""
    return [found for check in _CHECKS for found in check(spec)]


def _whole(spec: DagSpec) -> Iterator[Finding]:
    try:
        validate_workflow_type("name", spec.name)
    except InvalidOptionError as error:
        yield Finding("bad_option", None, error.message, "")
    if not spec.nodes:
        yield Finding("no_nodes", None, "has no step", "add one")
    if len(spec.nodes) > MAX_NODES:
        yield Finding(
            "too_large",
            None,
            f"has {len(spec.nodes):,} nodes, more than {MAX_NODES:,}",
            "divide it, or use a map",
        )
    else:
        yield from _json(spec)
    if spec.timeout is not None and spec.timeout < MIN_TIMEOUT_S:
        yield Finding(
            "timeout_out_of_range", None, f"its timeout must be at least {MIN_TIMEOUT_S} second", ""
        )
    if spec.reserve and spec.timeout is None:
        yield Finding(
            "bad_option", None, "has a reserve, and no timeout that it counts from", "give it a timeout"
        )
    names = [parameter.name for parameter in spec.params]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding("bad_option", None, f"has two parameters {name!r}", "rename one")
    for ref in _references_of_output(spec):
        yield from _unknown(spec, ref, None)


def _json(spec: DagSpec) -> Iterator[Finding]:
    """Yield why a run could not record the spec."""
    try:
        text = spec.json
    except orjson.JSONEncodeError:
        deep = True
    else:
        deep = is_deep(text, MAX_LEVELS)
        if len(text) > MAX_BYTES:
            yield Finding(
                "too_large",
                None,
                f"its JSON has {len(text):,} bytes, more than {MAX_BYTES:,}",
                "give large constants to the run as its input",
            )
    if deep:
        yield Finding(
            "too_large",
            None,
            f"its JSON is nested deeper than {MAX_LEVELS} levels",
            "make its values flatter",
        )


def _references_of_output(spec: DagSpec) -> Iterable[Ref]:
    return (ref for ref, _ in references(spec.output)) if spec.output is not None else ()


def _ids(spec: DagSpec) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, node in enumerate(spec.nodes):
        if len(node.id) > MAX_ID:
            yield Finding(
                "bad_id",
                index,
                f"its id has {len(node.id)} characters, more than {MAX_ID}",
                "shorten it, or the names of its groups",
            )
        elif not all(map(_SEGMENT.fullmatch, node.id.split("/"))):
            yield Finding(
                "bad_id", index, "its id cannot be used", "use 1 to 64 of the letters A-Z, a-z, 0-9, _ and -"
            )
        if node.id in seen:
            yield Finding(
                "duplicate_id", index, f"node {seen[node.id] + 1} has the same id", "rename one of them"
            )
        seen.setdefault(node.id, index)


def _dependencies(spec: DagSpec) -> Iterator[Finding]:
    nodes = spec.graph.nodes
    for index, node in enumerate(spec.nodes):
        for name in node.after:
            if name not in nodes:
                yield Finding(
                    "unknown_dependency", index, f"comes after {name!r}, which is not there", "correct the id"
                )
            elif name in spec.graph.auxiliary:
                yield depends_on_auxiliary(index, name)
        for ref, _ in node.references():
            yield from _unknown(spec, ref, index)
        named = {*node.after, *(ref.name for ref, _ in node.references() if ref.root == "of")}
        if node.id in named and node.id not in spec.graph.auxiliary:
            yield Finding("self_dependency", index, "depends on itself", "take that dependency away")


def _unknown(spec: DagSpec, ref: Ref, index: int | None) -> Iterator[Finding]:
    if ref.root == "of" and ref.name not in spec.graph.nodes:
        yield Finding(
            "unknown_dependency", index, f"takes data from {ref.name!r}, which is not there", "correct the id"
        )
    elif ref.root == "of" and ref.name in spec.graph.auxiliary:
        # Of auxiliary nodes among each other this is said elsewhere: what undoes one is given its output.
        if index is None or spec.nodes[index].id not in spec.graph.auxiliary:
            yield depends_on_auxiliary(index, ref.name)
    elif ref.root == "param" and ref.name not in {parameter.name for parameter in spec.params}:
        yield Finding(
            "unknown_dependency", index, f"takes the parameter {ref.name!r}, which is not there", "declare it"
        )
    elif ref.root == "bound" and (index is None or ref.name not in _bound(spec, spec.nodes[index])):
        yield Finding("unknown_dependency", index, f"refers to {ref.name!r}, which nothing gives it", "")


def _bound(spec: DagSpec, node: Node) -> set[str]:
    """Return the names that may stand in a node."""
    names = set()
    if isinstance(node, Map):
        names.add("item")
    if isinstance(node, Repeat):
        names.add("result")
    if isinstance(node, WaitFor):
        names.add("event")
    owner = spec.graph.nodes.get(spec.graph.auxiliary.get(node.id, ""))
    if owner is not None and owner.on_failure == node.id:
        names.add("failure")
    return names


def _cycles(spec: DagSpec) -> Iterator[Finding]:
    places = {node.id: index for index, node in reversed(list(enumerate(spec.nodes)))}
    for cycle in spec.graph.cycles:
        if len(cycle) == 1:
            continue
        first = min(range(len(cycle)), key=lambda at: places[cycle[at]])
        way = [*cycle[first:], *cycle[:first]]
        yield Finding(
            "cycle",
            places[way[0]],
            f"a step waits for itself by way of {' -> '.join([*way, way[0]])}",
            "take one of these dependencies away",
        )


def _data(spec: DagSpec) -> Iterator[Finding]:
    for index, node in enumerate(spec.nodes):
        if node.rule not in _RUNS_WITHOUT:
            continue
        missing = {ref.name: None for ref, optional in node.references() if ref.root == "of" and not optional}
        for name in missing:
            yield Finding(
                "data_may_be_missing",
                index,
                f"runs under {node.rule} also when {name!r} has no output, which it is given",
                "say what it is given then, with or_else",
            )


def _timeouts(spec: DagSpec) -> Iterator[Finding]:
    for index, node in enumerate(spec.nodes):
        if isinstance(node, Call):
            options = spec.options_of(node)
            if options.start_to_close_timeout is None and options.schedule_to_close_timeout is None:
                if options.heartbeat_timeout is None:
                    yield Finding("missing_timeout", index, *NO_TIMEOUT)
                elif spec.timeout is None:
                    yield Finding(
                        "missing_timeout",
                        index,
                        "heartbeats extend it without end",
                        "give it schedule_to_close_timeout, or the DAG a timeout",
                    )
            if (
                options.policy.max_attempts == 0
                and options.schedule_to_close_timeout is None
                and spec.timeout is None
            ):
                yield Finding(
                    "unbounded_retries",
                    index,
                    "is tried again without end",
                    "limit its attempts, or give it schedule_to_close_timeout, or the DAG a timeout",
                )


def _maps(spec: DagSpec) -> Iterator[Finding]:
    for index, node in enumerate(spec.nodes):
        if not isinstance(node, Map):
            continue
        size = node.chunks_of
        if size is not None and not 1 <= size <= MAX_ITEMS:
            yield Finding("bad_map", index, f"chunks_of must be from 1 to {MAX_ITEMS:,}", "")
        elif not 1 <= node.max_items <= MAX_ITEMS * (size or 1):
            advice = "map in parts" if size else "divide the list among children: chunks_of=500"
            yield Finding(
                "bad_map", index, f"max_items must be from 1 to {MAX_ITEMS * (size or 1):,}", advice
            )


def _history(spec: DagSpec) -> Iterator[Finding]:
    calls: float = 0
    for node in spec.nodes:
        if isinstance(node, Map):
            calls += -(-node.max_items // node.chunks_of) if node.chunks_of else node.max_items
        elif isinstance(node, Repeat) and calls_of(node) < inf:
            # A call, and the pause before the next one.
            calls += 2 * min(calls_of(node), MAX_EVENTS)
        else:
            calls += 2 if isinstance(node, Plan) else 1
    events = calls * EVENTS_PER_CALL
    if events > MAX_EVENTS:
        yield Finding(
            "history_too_long",
            None,
            f"a run may have {events:,.0f} events, more than {MAX_EVENTS:,}",
            "lower max_items of its maps and max_iterations of its repeated steps, or divide it",
        )


_CHECKS: Final = (
    _whole,
    _ids,
    _dependencies,
    auxiliary_findings,
    _cycles,
    _data,
    _timeouts,
    kind_findings,
    _maps,
    _history,
)
