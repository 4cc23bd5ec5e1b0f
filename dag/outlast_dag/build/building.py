"""From a draft to a DAG, or to one error with everything that is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from outlast_dag.build.compiling import compiled
from outlast_dag.build.draft import Draft
from outlast_dag.build.hints import kinds
from outlast_dag.build.steps import DetachedChild
from outlast_dag.check.report import in_order, report
from outlast_dag.definition import DagDefinition
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.values import references
from outlast_workflow.data.reading import hint_name
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DagValidationError
from outlast_workflow.errors.documents import Problem

logger = logging.getLogger("outlast.dag")

_TIMEOUTS: Final = ("timeout_out_of_range", "contradicting_timeouts", "missing_timeout")


_NEED_NOT_BE_USED: Final = (None, type(None), Any, DetachedChild)
_UNUSED: Final = (
    "nothing takes what it returns",
    "give it to another step, or let its activity return None",
)
_UNUSED_DECISION: Final = (
    "nothing asks how it was decided, so what comes after it runs although it was rejected",
    "give the steps that need it run_when=….approved",
)


def built(draft: Draft, result: Sequence[Any], *, strict: bool, module: str) -> DagDefinition[..., Any]:
    """Return the DAG of a draft.

    Args:
        draft: The DAG as the user gave it.
        result: What a run returns, in a sequence of one; empty for what the last nodes return.
        strict: Whether warnings are errors.
        module: The module that it is written in.

    Raises:
        DagValidationError: Something is wrong; ``problems`` are all of it.
    """
    spec = compiled(draft, result)
    found = report(spec, [step.source for step in draft.steps], draft.source)
    # What is wrong with the timeouts of a step is told once.
    refused = {problem.node for problem in draft.problems if problem.kind in _TIMEOUTS}
    errors = [*draft.problems]
    errors += [one for one in found.errors if one.kind != "missing_timeout" or one.node not in refused]
    warnings = in_order([*found.warnings, *_unused(draft, spec), *_nullable(draft, spec)])
    if errors or (strict and warnings):
        raise DagValidationError(draft.name, in_order([*errors, *(warnings if strict else ())]))
    assert found.critical_path is not None
    for warning in warnings:
        logger.warning("DAG %s: %s", draft.name, warning)
    return DagDefinition(
        spec,
        _signature(draft, spec),
        draft.source,
        sources={step.id: step.source for step in draft.steps},
        critical_path=found.critical_path,
        warnings=warnings,
        module=module,
    )


def _signature(draft: Draft, spec: DagSpec) -> CallSignature:
    """Return how a run is started: as the traced function is called, or with the input that some node takes."""
    given = draft.params
    if len(given.names) == len(spec.params):
        return given
    return CallSignature(given.name, (), (), result_hint=given.result_hint)


def _nullable(draft: Draft, spec: DagSpec) -> Iterator[Problem]:
    """Yield that the result may be null although its declared type has no null."""
    hint = draft.params.result_hint
    expected = kinds(hint, read=True) if hint is not None else None
    if spec.output is None or expected is None or "null" in expected:
        return
    skippable: set[str] = set()
    for name in spec.graph.order:
        node = spec.graph.nodes[name]
        if (
            node.skip_when is not None
            or node.rule in ("one_failed", "all_failed")
            or any(ref.name in skippable and not optional for ref, optional in node.references())
        ):
            skippable.add(name)
    missing = [
        ref.name for ref, optional in references(spec.output) if ref.name in skippable and not optional
    ]
    if missing:
        yield Problem(
            "result_may_be_null",
            "",
            draft.source,
            f"the result is null where {missing[0]!r} is skipped, and is declared as {hint_name(hint)}",
            "declare it as … | None, or say what it is then, with or_else",
        )


def _unused(draft: Draft, spec: DagSpec) -> Iterator[Problem]:
    used = {ref.name for node in spec.nodes for ref, _ in node.references()}
    if spec.output is not None:
        used |= {ref.name for ref, _ in references(spec.output)}
    for step in draft.steps:
        if step.serves is None and step.id not in used and step.result_hint not in _NEED_NOT_BE_USED:
            message, advice = _UNUSED_DECISION if step.kind == "approval" else _UNUSED
            yield Problem("unused_result", step.id, step.source, message, advice)
