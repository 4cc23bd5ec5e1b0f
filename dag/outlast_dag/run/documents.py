"""The workflow that runs a DAG that comes as a document: from a file, from an agent, registered nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from outlast_dag.check.report import report
from outlast_dag.run.approvals import HANDLERS, Approvals, approvals_of
from outlast_dag.run.interpreter import follow
from outlast_dag.run.progress import Progress
from outlast_dag.spec.dag import ANY_DAG, DagSpec
from outlast_dag.spec.reading import read_spec
from outlast_workflow.api.markers import side_effect
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import RunReference, WorkflowDefinition
from outlast_workflow.errors import DagValidationError
from outlast_workflow.errors.documents import Problem


async def _run(approvals: Approvals, document: Any, *args: Any) -> Any:
    return await run_document(approvals, document, *args)


async def run_document(
    approvals: Approvals, document: Any, *args: Any, watch: Callable[[Progress], None] | None = None
) -> Any:
    """Run the DAG that a document describes.

    Args:
        approvals: The approvals of the run.
        document: The spec.
        *args: Its input.
        watch: Told of the progress before the DAG begins.

    Raises:
        DagValidationError: The document cannot be run.
        OutlastError: As for :func:`~outlast_dag.run.interpreter.follow`.
    """
    spec = read_spec(document)
    # What is wrong with a document is said by the version that begins the run, and recorded.
    problems = side_effect(lambda: document_problems(spec, len(args)), result_type=list[Problem])
    if problems:
        raise DagValidationError(spec.name, problems)
    return await follow(approvals, spec, args, watch)


def document_problems(spec: DagSpec, given: int) -> list[Problem]:
    """Return why a DAG cannot be run with so many arguments; empty if it can.

    Args:
        spec: The DAG.
        given: How many arguments there are for it.
    """
    problems = list(report(spec).errors)
    names = tuple(parameter.name for parameter in spec.params)
    required = sum(parameter.required for parameter in spec.params)
    if not required <= given <= len(names):
        defaults = tuple(parameter.default for parameter in spec.params if not parameter.required)
        signature = CallSignature(spec.name, names, (Any,) * len(names), defaults=defaults)
        advice = "start it with one argument for each of its params"
        problems.append(Problem("wrong_arguments", "", "params", signature.arity_message(given), advice))
    return problems


any_dag: Final[RunReference[..., Any]] = RunReference(
    WorkflowDefinition(
        ANY_DAG,
        approvals_of(ANY_DAG),
        _run,
        CallSignature(ANY_DAG, ("spec",), (Any,), var_positional="args"),
        f"{_run.__code__.co_filename}:{_run.__code__.co_firstlineno}",
        HANDLERS,
        plain_input=True,
    ),
    _run,
)
"""Runs a DAG that its first argument describes: ``client.start(any_dag, document, "https://…")``."""
