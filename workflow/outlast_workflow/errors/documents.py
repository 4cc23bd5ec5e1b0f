"""DAGs and documents: what cannot be built or used, and what their runs end with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.errors.task import WorkflowTaskError
from outlast_workflow.primitives.enums import FailureCategory

MOST_LISTED = 5
"""How many nodes a message names."""


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


class DagApprovalError(OutlastError):
    """An approval of a DAG cannot be decided: it was decided before, or nobody waits for it.

    Attributes:
        node: The node.
        closed: Whether it can no longer be decided; otherwise it does not wait yet, or there is no such approval.
        approved: How it was decided; ``None`` if nobody has.
        by: Who decided; ``None`` if that was not said.
    """

    facts: ClassVar[tuple[str, ...]] = ("node", "closed", "approved", "by")

    def __init__(
        self,
        node: str,
        *,
        closed: bool,
        approved: bool | None = None,
        by: str | None = None,
        waiting: Iterable[str] = (),
    ) -> None:
        self.node = node
        self.closed = closed
        self.approved = approved
        self.by = by
        if approved is not None:
            told = f"was {'approved' if approved else 'rejected'} already{f' by {by}' if by else ''}"
        elif closed:
            told = "can no longer be decided: nobody has in time, or the DAG went on without it"
        else:
            names = ", ".join(waiting) or "nothing"
            told = f"does not wait for a decision ({names} does): check the node, or wait until the DAG has come to it"
        super().__init__(f"{node} {told}")


class DagDataError(OutlastError):
    """What a node of a DAG needs is not there, or not what it must be: a path, a list, two sides of a comparison."""

    facts: ClassVar[tuple[str, ...]] = ("node", "item")

    def __init__(self, node: str, message: str, *, item: int | None = None) -> None:
        self.node = node
        self.item = item
        super().__init__(f"{_with_item(node, item)}: {message}" if node else message)


class DagFailedError(OutlastError):
    """A DAG failed because nodes did. ``nodes`` are those that failed, the first one first; its error is the cause.

    ``item`` is the position of the item that failed, if the first node has one call for each item of a list.
    ``compensated`` are the nodes that were undone, in that order, and ``uncompensated`` those that could not be.
    """

    category = FailureCategory.ACTIVITY
    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("name", "nodes", "item", "compensated", "uncompensated")

    def __init__(
        self,
        name: str,
        nodes: Iterable[str],
        *,
        item: int | None = None,
        compensated: Iterable[str] = (),
        uncompensated: Iterable[str] = (),
        words: str = "",
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.item = item
        self.compensated = tuple(compensated)
        self.uncompensated = tuple(uncompensated)
        message = words or self._words()
        if self.uncompensated:
            message += f" (undoing failed too, of {_listed(self.uncompensated)})"
        super().__init__(message)

    def _words(self) -> str:
        if not self.nodes:
            return f"the result of the DAG {self.name} is not there"
        others = len(self.nodes) - 1
        more = f" and {others} other{'' if others == 1 else 's'}" if others else ""
        return f"node {_with_item(self.nodes[0], self.item)}{more} of the DAG {self.name} failed"

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> OutlastError:
        """Return the error with its recorded message and nodes."""
        lists = {name: tuple(facts.get(name) or ()) for name in ("nodes", "compensated", "uncompensated")}
        return super().restore(message, {**facts, **lists})


class DagTimeoutError(DagFailedError):
    """A DAG was stopped when the reserve before its deadline began. ``nodes`` are those that ran then."""

    category = FailureCategory.TIMEOUT

    def __init__(
        self,
        name: str,
        nodes: Iterable[str],
        reserve: float,
        *,
        compensated: Iterable[str] = (),
        uncompensated: Iterable[str] = (),
    ) -> None:
        nodes = tuple(nodes)
        ran = f", while {_listed(nodes)} ran" if nodes else ", before anything could begin"
        words = f"the DAG {name} was stopped {reserve:g} s before its deadline{ran}"
        super().__init__(name, nodes, words=words, compensated=compensated, uncompensated=uncompensated)


def _with_item(node: str, item: int | None) -> str:
    return node if item is None else f"{node}[{item}]"


def _listed(nodes: tuple[str, ...]) -> str:
    others = len(nodes) - MOST_LISTED
    return ", ".join(nodes[:MOST_LISTED]) + (f" and {others} more" if others > 0 else "")


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


class UnsupportedTaskError(OutlastError, ValueError):
    """A document has tasks that this runtime cannot run. Nothing was written.

    Attributes:
        document: The document.
        problems: What cannot be run: the pointer of each, and why.
    """

    facts: ClassVar[tuple[str, ...]] = ("document", "problems")

    def __init__(self, document: str, problems: Iterable[tuple[str, str]]) -> None:
        self.document = document
        self.problems = tuple(problems)
        listed = "\n".join(f"{pointer}: {why}" for pointer, why in self.problems)
        super().__init__(f"{document} cannot be run here:\n{listed}")


class DocumentConflictError(OutlastError):
    """A version of a document is registered already, with another content. Give the new content another version."""

    facts: ClassVar[tuple[str, ...]] = ("document",)

    def __init__(self, document: str) -> None:
        self.document = document
        super().__init__(
            f"{document} is registered already, with another content: give the new content another version"
        )


class DocumentNotFoundError(OutlastError):
    """No such document, or no such version of it, is registered."""

    facts: ClassVar[tuple[str, ...]] = ("document",)

    def __init__(self, document: str, versions: Iterable[str] = ()) -> None:
        self.document = document
        known = ", ".join(versions)
        super().__init__(
            f"no document {document} is registered"
            + (
                f": the versions are {known}"
                if known
                else ": register it first, or start the document itself"
            )
        )


class FaultedError(OutlastError):
    """A run of a document faulted.

    Attributes:
        error: The error of the DSL: its ``type``, ``status``, ``title``, ``detail``, and ``instance``, the pointer of
            the task that it comes from.
    """

    category = FailureCategory.APPLICATION
    facts: ClassVar[tuple[str, ...]] = ("error",)

    def __init__(self, workflow_id: str, error: dict[str, Any], *, words: str | None = None) -> None:
        self.error = error
        told = error.get("detail") or error.get("title") or error.get("type")
        what = words or f"workflow {workflow_id!r} faulted at {error.get('instance') or '/'}"
        super().__init__(f"{what}: {told} ({error.get('type')}, status {error.get('status')})")

    @classmethod
    def at_start(cls, document: str, error: dict[str, Any]) -> Self:
        """Return the error of a document that was not started: it would have faulted at once."""
        return cls(document, error, words=f"{document} was not started")


class FaultedTimeoutError(FaultedError, TimeoutError):
    """A run of a document faulted because a timeout of the document passed and nothing caught that."""

    category = FailureCategory.TIMEOUT


class UntraceableRunError(OutlastError):
    """The history of a run of a document cannot be replayed here, so it is not known which tasks have run.

    Attributes:
        run_id: The run.
        reason: Why, and what to do about it.
    """

    facts: ClassVar[tuple[str, ...]] = ("run_id", "reason")

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"the tasks of run {run_id} cannot be told: {reason}")


class ExpressionBudgetError(WorkflowTaskError):
    """An expression took too long, or too much memory. Its helper process was ended; the run is tried again."""
