"""What is wrong with a spec, and what somebody should look at, with the places where it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast_dag.check.auxiliaries import compensation_findings
from outlast_dag.check.checks import findings
from outlast_dag.check.critical_path import CriticalPath, critical_path, deadline_findings
from outlast_dag.check.findings import Finding
from outlast_dag.check.kinds import child_findings
from outlast_dag.spec.dag import DagSpec
from outlast_workflow.errors.documents import Problem


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a spec.

    Attributes:
        errors: What must be corrected.
        warnings: What somebody should look at.
        critical_path: Its longest chains; ``None`` if it has errors, since then there may be none.
    """

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    critical_path: CriticalPath | None


def report(spec: DagSpec, sources: Sequence[str] | None = None, source: str = "") -> Report:
    """Return what is wrong with a spec.

    Args:
        spec: The DAG.
        sources: Where each node is written, in their order; by default its place in the spec's JSON.
        source: Where the DAG is written.
    """
    places = sources or [f"nodes[{index}]" for index in range(len(spec.nodes))]

    def problem(found: Finding) -> Problem:
        node, place = (
            ("", source) if found.index is None else (spec.nodes[found.index].id, places[found.index])
        )
        return Problem(found.kind, node, place, found.message, found.advice)

    errors = [problem(found) for found in findings(spec)]
    if errors:
        return Report(in_order(errors), (), None)
    path = critical_path(spec)
    late = [*deadline_findings(spec, path), *compensation_findings(spec), *child_findings(spec)]
    told = [(found.kind, problem(found)) for found in late]
    return Report(
        tuple(one for kind, one in told if kind == "deadline_never_holds"),
        tuple(one for kind, one in told if kind != "deadline_never_holds"),
        path,
    )


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems by source line, each once."""
    return tuple(sorted(dict.fromkeys(problems), key=_place))


def _place(problem: Problem) -> tuple[str, int]:
    file, _, line = problem.source.rpartition(":")
    if line.isdigit():
        return file, int(line)
    numbers = re.findall(r"\d+", problem.source)
    return "", int(numbers[0]) if numbers else 0
