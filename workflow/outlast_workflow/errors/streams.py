"""Streams that are closed, or that bring nothing in time."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class StreamClosedError(OutlastError):
    """The stream is closed: nothing can be written to it any more."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "name", "non_retryable")
    non_retryable: bool = True

    def __init__(self, workflow_id: str, name: str) -> None:
        super().__init__(
            f"stream {name!r} of workflow {workflow_id!r} is closed: write to another stream, or close this one later"
        )
        self.workflow_id = workflow_id
        self.name = name


class StreamTimeoutError(OutlastError, TimeoutError):
    """The stream had no next item within the reader's timeout. Read on from ``offset``, which is the next item's."""

    facts: ClassVar[tuple[str, ...]] = ("workflow_id", "name", "offset", "timeout_seconds")

    def __init__(self, workflow_id: str, name: str, *, offset: int, timeout_seconds: float) -> None:
        super().__init__(
            f"stream {name!r} of workflow {workflow_id!r} had no item {offset} within {timeout_seconds:g} s: "
            f"read on from there with start={offset}, or see `outlast describe`"
        )
        self.workflow_id = workflow_id
        self.name = name
        self.offset = offset
        self.timeout_seconds = timeout_seconds
