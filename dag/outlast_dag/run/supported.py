"""What a document may ask for, and this version cannot run."""

from __future__ import annotations

from collections.abc import Iterator

from outlast_dag.check.report import in_order, report
from outlast_dag.run.progress import RUNS
from outlast_dag.spec.dag import DagSpec
from outlast_workflow.errors.dags import Problem


def problems_of(spec: DagSpec) -> list[Problem]:
    """Return why a spec cannot be run."""
    return list(in_order([*report(spec).errors, *unsupported(spec)]))


def unsupported(spec: DagSpec) -> Iterator[Problem]:
    """Yield what a spec asks for that this version cannot run."""
    asked: list[tuple[str, str]] = []
    for index, node in enumerate(spec.nodes):
        place = f"nodes[{index}]"
        if node.kind not in RUNS:
            asked.append((place, f"kind {node.kind}"))
        asked += [
            (f"{place}.{name}", name) for name in ("chunks_of",) if getattr(node, name, None) is not None
        ]
    for place, what in asked:
        yield Problem(
            "not_supported",
            "",
            place,
            f"this version of Outlast cannot run {what}",
            "leave it out, or upgrade",
        )
