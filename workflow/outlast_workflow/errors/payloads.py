"""Values that cannot be encoded or decoded."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.task import WorkflowTaskError


class PayloadDecodeError(WorkflowTaskError):
    """A recorded value cannot be decoded as the type hint in the code."""

    facts: ClassVar[tuple[str, ...]] = ("parameter", "hint")

    def __init__(self, message: str, *, parameter: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.hint = hint


class PayloadCodecError(PayloadDecodeError):
    """A payload's codec is not configured, or failed to decode it. With a working codec the value is readable again."""


class PayloadEncodeError(WorkflowTaskError):
    """A value cannot be encoded as JSON."""

    facts: ClassVar[tuple[str, ...]] = ("what",)

    def __init__(self, message: str, *, what: str | None = None) -> None:
        super().__init__(message)
        self.what = what
