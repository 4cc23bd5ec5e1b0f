"""What history recorded of the workflow task that is being replayed, and its code must be told while it runs."""

from __future__ import annotations

from outlast_workflow.errors import WorkflowTaskError
from outlast_workflow.primitives.payloads import Payload


class Recall:
    """The recorded facts of one workflow task: the patches that it answered with true, and its side effects' values."""

    __slots__ = ("deprecated", "patches", "values")

    def __init__(self) -> None:
        self.patches: set[str] = set()
        self.deprecated: set[str] = set()
        self.values: dict[int, Payload] = {}


class NotRecalled(WorkflowTaskError):
    """The code asks for a side effect that history does not have; the comparison that follows says so better."""
