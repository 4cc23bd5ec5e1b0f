"""The spec of a DAG as a whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from outlast_dag.spec.graph import DagGraph
from outlast_dag.spec.nodes import Call, Node
from outlast_dag.spec.options import DEFAULT_RETRY
from outlast_dag.spec.values import Value
from outlast_dag.spec.writing import canonical, spec_document
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.validation import MAX_NAME_LENGTH

ANY_DAG: Final = "outlast.dag"
"""The type of the workflow that runs the DAG that its first argument describes."""

INTERPRETER: Final = 1
"""The version of the rules by which specs of today run. What they mean never changes; new rules are version 2."""

SHOWN_DIGITS: Final = 12
"""How many digits of a hash are shown to people."""

FailurePolicy = Literal["fail_fast", "finish"]
"""Whether a failed node ends the others at once, or they are left to finish."""

DEFAULT_OPTIONS: Final = ActivityOptions(retry_policy=DEFAULT_RETRY)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the DAG: what a run is started with."""

    name: str
    required: bool = True
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class DagSpec:
    """A DAG as data. Equal specs have equal hashes.

    Attributes:
        name: The workflow type of its runs.
        version: What its author calls this version; only for people.
        interpreter: The version of the rules by which it runs.
        timeout: The run timeout, in seconds.
        reserve: How long before its deadline a run begins to compensate.
        max_parallel: How many nodes and items run at once; 0 for all.
        failure: Whether a failed node ends the others at once, or they are left to finish.
        compensate_on_cancel: Whether a cancelled run compensates.
        cancel_on: The signal that cancels a run.
        options: The options of each call that does not have its own. The retry policy is always there.
        params: What a run is started with, in order.
        nodes: The nodes, in the order in which they were declared.
        output: The result of a run; ``None`` for none.
    """

    name: str
    version: str = ""
    interpreter: int = INTERPRETER
    timeout: float | None = None
    reserve: float = 0
    max_parallel: int = 0
    failure: FailurePolicy = "fail_fast"
    compensate_on_cancel: bool = True
    cancel_on: str | None = None
    options: ActivityOptions = DEFAULT_OPTIONS
    params: tuple[Parameter, ...] = ()
    nodes: tuple[Node, ...]
    output: Value | None = None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The spec as a JSON document, defaults left out."""
        return spec_document(self, DEFAULT_OPTIONS)

    @cached_property
    def json(self) -> bytes:
        """The canonical JSON: the text that is hashed."""
        return canonical(self.document)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the canonical JSON, in hexadecimal digits."""
        return hashlib.sha256(self.json).hexdigest()

    @property
    def short_hash(self) -> str:
        """The hash as people see it: its first twelve digits."""
        return self.hash[:SHOWN_DIGITS]

    @cached_property
    def graph(self) -> DagGraph:
        """Who depends on whom."""
        return DagGraph(self.nodes)

    def options_of(self, node: Call) -> ActivityOptions:
        """Return the options of a node's calls: its own over the DAG's."""
        return self.options.merged(node.options)


def name_within(dag: str, node: str) -> str:
    """Return the name of a DAG that a node of another one runs, cut where it would be too long for a name.

    Args:
        dag: The name of the other one.
        node: The node's id.
    """
    return f"{dag}.{node}"[:MAX_NAME_LENGTH]
