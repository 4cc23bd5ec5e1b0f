"""A DAG as a Mermaid flowchart."""

from __future__ import annotations

from typing import Final

from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.nodes import Call, Map, Node

_SHAPES: Final = {
    "task": ("[", "]"),
    "map": ("[[", "]]"),
    "child": ("[[", "]]"),
    "sleep": ("([", "])"),
    "wait_for": ("{{", "}}"),
    "approval": ("{{", "}}"),
    "repeat": ("[[", "]]"),
    "plan": ("[/", "/]"),
}


def mermaid(spec: DagSpec) -> str:
    """Return the graph of a DAG as a Mermaid flowchart: groups are subgraphs, dotted edges run if something fails."""
    names = {node.id: f"n{index}" for index, node in enumerate(spec.nodes)}
    lines = ["flowchart TD"]
    lines += _members(spec.nodes, names, "", 1)
    for name, producers in spec.graph.producers.items():
        conditional = spec.graph.nodes[name].skip_when is not None
        lines += [
            f"    {names[producer]} -->{'|unless skipped|' if conditional else ''} {names[name]}"
            for producer in producers
        ]
    for node in spec.nodes:
        for word, other in (("on failure", node.on_failure), ("undo", node.compensate)):
            if other in names:
                lines.append(f"    {names[node.id]} -.->|{word}| {names[other]}")
    return "\n".join(lines) + "\n"


def _members(nodes: tuple[Node, ...], names: dict[str, str], prefix: str, depth: int) -> list[str]:
    """Return the lines of the nodes under a prefix, each group in a subgraph, in the order of declaration."""
    lines: list[str] = []
    groups: set[str] = set()
    indent = "    " * depth
    for node in nodes:
        if not node.id.startswith(prefix):
            continue
        group, slash, _ = node.id[len(prefix) :].partition("/")
        if not slash:
            lines.append(f"{indent}{names[node.id]}{_box(node, node.id[len(prefix) :])}")
        elif group not in groups:
            groups.add(group)
            lines.append(f"{indent}subgraph {_text(group)}")
            lines += _members(nodes, names, f"{prefix}{group}/", depth + 1)
            lines.append(f"{indent}end")
    return lines


def _box(node: Node, name: str) -> str:
    begin, end = _SHAPES[node.kind]
    label = name
    if isinstance(node, Call) and node.type != name:
        label += f"<br/>{node.type}"
    if isinstance(node, Map):
        label += " × items"
    return f"{begin}{_text(label)}{end}"


def _text(label: str) -> str:
    return '"' + label.replace('"', "#quot;") + '"'
