"""The recorded markers of the workflow task that is being replayed: what its code needs while it runs."""

from __future__ import annotations

from outlast_workflow.errors import WorkflowTaskError
from outlast_workflow.primitives.payloads import Payload


class RecordedMarkers:
    """The markers of one workflow task: the patches that it answered with true, and the values of its side effects."""

    __slots__ = ("deprecated", "patches", "values")

    def __init__(self) -> None:
        self.patches: set[str] = set()
        self.deprecated: set[str] = set()
        self.values: dict[int, Payload] = {}


class NotRecordedError(WorkflowTaskError):
    """The code requests a side effect that history does not have. Replay catches this and compares the commands."""
