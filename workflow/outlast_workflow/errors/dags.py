"""DAGs that cannot be built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.primitives.enums import FailureCategory


class Problem(NamedTuple):
    """One thing that is wrong with a DAG, or that somebody should look at.

    Attributes:
        kind: What it is, in one word for programs: ``missing_timeout``.
        node: The id of the node; empty if it is the DAG as a whole.
        source: Where it is written, as ``file:line``; in a document, the place in it, such as ``nodes[3].rule``.
        message: What is wrong.
        advice: What to do about it.
    """

    kind: str
    node: str
    source: str
    message: str
    advice: str

    def __str__(self) -> str:
        where = "  ".join(part for part in (self.source, self.node) if part)
        told = f"{self.kind}: {self.message}" + (f": {self.advice}" if self.advice else "")
        return f"{where}  {told}" if where else told


class DagDataError(OutlastError):
    """What a node of a DAG needs is not there, or not what it must be: a path, a list, two sides of a comparison."""

    facts: ClassVar[tuple[str, ...]] = ("node",)

    def __init__(self, node: str, message: str) -> None:
        self.node = node
        super().__init__(f"{node}: {message}" if node else message)


class DagFailedError(OutlastError):
    """A DAG failed because nodes did. ``nodes`` are those that failed, the first one first; its error is the cause."""

    category = FailureCategory.ACTIVITY
    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("name", "nodes")

    def __init__(self, name: str, nodes: Iterable[str]) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        others = len(self.nodes) - 1
        more = f" and {others} other{'' if others == 1 else 's'}" if others else ""
        super().__init__(f"node {self.nodes[0]}{more} of the DAG {name} failed")

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> OutlastError:
        """Return the error with its recorded message and nodes."""
        return super().restore(message, {**facts, "nodes": tuple(facts.get("nodes") or ())})


class DagValidationError(OutlastError, ValueError):
    """A DAG cannot be built. ``problems`` are all that is wrong with it, in the order of the source lines."""

    facts: ClassVar[tuple[str, ...]] = ("name", "problems")

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(
            f"the DAG {name} has {count} problem{'' if count == 1 else 's'}:\n"
            + "\n".join(str(problem) for problem in self.problems)
        )

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> Self:
        """Return the error with its recorded message and problems."""
        problems = tuple(Problem(*problem) for problem in facts.get("problems") or ())
        error = super().restore(message, {**facts, "problems": problems})
        assert isinstance(error, cls)
        return error
