"""Signals, queries and updates that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class RequestError(OutlastError):
    """A signal, a query or an update failed."""


class UnknownHandlerError(RequestError):
    """The workflow has no handler of that name; ``known`` lists those that it has."""

    facts: ClassVar[tuple[str, ...]] = ("kind", "name", "workflow_type", "known")

    def __init__(self, kind: str, name: str, *, workflow_type: str, known: Sequence[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"workflow {workflow_type} has no {kind} {name!r} (known: {listed}): check the name, "
            f"or mark a method with @workflow.{kind}"
        )
        self.kind = kind
        self.name = name
        self.workflow_type = workflow_type
        self.known = sorted(known)


class QueryFailedError(RequestError):
    """The query could not be answered: its handler raised, or the run's code could not be replayed."""

    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "name")

    def __init__(self, workflow_id: str, name: str) -> None:
        super().__init__(f"query {name!r} of workflow {workflow_id!r} failed")
        self.workflow_id = workflow_id
        self.name = name


class _UpdateError(RequestError):
    joins_cause = ": "
    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "update_id", "name")
    _what: ClassVar[str] = ""

    def __init__(self, workflow_id: str, update_id: str, name: str) -> None:
        super().__init__(f"update {name!r} ({update_id}) of workflow {workflow_id!r} {self._what}")
        self.workflow_id = workflow_id
        self.update_id = update_id
        self.name = name


class UpdateRejectedError(_UpdateError):
    """The update was rejected and left nothing in history; ``__cause__`` says why."""

    _what = "was rejected (to ask again, give another id)"


class UpdateFailedError(_UpdateError):
    """The update was accepted, but its handler raised or the run ended first; ``__cause__`` says which."""

    _what = "failed"


class NoWorkerError(RequestError):
    """No live worker serves the workflow's task queue and type."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_type", "task_queue")

    def __init__(self, workflow_type: str, task_queue: str) -> None:
        super().__init__(
            f"no worker serves task queue {task_queue!r} with workflow {workflow_type!r}: start one "
            "(`outlast worker`), or see who is there with `outlast workers`"
        )
        self.workflow_type = workflow_type
        self.task_queue = task_queue


class RequestTimeoutError(RequestError, TimeoutError):
    """The caller's timeout passed without an answer. An update continues, and can be awaited again by its id."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "name", "timeout_seconds")

    def __init__(self, workflow_id: str, name: str, timeout_seconds: float) -> None:
        super().__init__(
            f"{name!r} of workflow {workflow_id!r} was not answered within {timeout_seconds:g} s: "
            "see `outlast describe` and the worker's log"
        )
        self.workflow_id = workflow_id
        self.name = name
        self.timeout_seconds = timeout_seconds
