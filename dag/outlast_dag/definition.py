"""A DAG that was built: to clients and workers a workflow like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from outlast_dag.check.critical_path import CriticalPath
from outlast_dag.picture.mermaid import mermaid
from outlast_dag.run.approvals import HANDLERS, Approvals, approvals_of
from outlast_dag.run.documents import any_dag
from outlast_dag.run.interpreter import interpret
from outlast_dag.spec.dag import ANY_DAG, DagSpec
from outlast_dag.spec.nodes import Child, Map, Node, Plan
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import RunReference, WorkflowDefinition
from outlast_workflow.errors.documents import Problem

P = ParamSpec("P")
T = TypeVar("T")


class DagDefinition(RunReference[P, T]):
    """A DAG. ``client.start``, ``execute_child`` and ``Worker`` take it as they take any workflow.

    Attributes:
        spec: The DAG as data.
        sources: Where each node is written, as ``file:line`` by id.
        critical_path: The longest chains of nodes.
        warnings: What somebody should look at.
    """

    def __init__(
        self,
        spec: DagSpec,
        signature: CallSignature,
        source: str,
        *,
        sources: Mapping[str, str],
        critical_path: CriticalPath,
        warnings: Sequence[Problem] = (),
        module: str = "",
    ) -> None:
        async def run(approvals: Approvals, *args: Any) -> Any:
            return await interpret(approvals, spec, args, signature)

        run.__name__ = run.__qualname__ = spec.name
        timeouts = {} if spec.timeout is None else {"run_timeout": spec.timeout}
        definition = WorkflowDefinition(
            spec.name,
            approvals_of(spec.name),
            run,
            signature,
            source,
            HANDLERS,
            plain_input=True,
            timeouts=timeouts,
            brings=(any_dag.definition,) if any(map(_runs_dags, spec.nodes)) else (),
            dag_hash=spec.hash,
        )
        super().__init__(definition, run)
        self.spec = spec
        self.sources = dict(sources)
        self.critical_path = critical_path
        self.warnings = tuple(warnings)
        self.__name__ = self.__qualname__ = spec.name
        self.__module__ = module or run.__module__

    @property
    def name(self) -> str:
        """The workflow type of its runs."""
        return self.spec.name

    @property
    def hash(self) -> str:
        """The SHA-256 of the spec's canonical JSON, in hexadecimal digits."""
        return self.spec.hash

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart."""
        return mermaid(self.spec)

    def svg(self) -> str:
        """Return the graph as an SVG document; empty if it is too large to be drawn."""
        # Code that only runs DAGs loads no views.
        from outlast_dag.picture.svg import svg_of_spec

        return svg_of_spec(self.spec)

    def __repr__(self) -> str:
        return f"<DAG {self.spec.name} {self.spec.short_hash} at {self.definition.source}>"


def _runs_dags(node: Node) -> bool:
    """Return whether a node runs DAGs that come as documents."""
    if isinstance(node, Child):
        return node.type == ANY_DAG
    return isinstance(node, Plan) or (isinstance(node, Map) and node.chunks_of is not None)
