"""Operations that were refused because of the state of a run or an activity. Nothing was written."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class RefusedError(OutlastError):
    """A change was refused as a whole because its guard no longer holds. ``reason`` is a short code."""

    facts: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(
            message or f"the change was refused ({reason}): read the current state and decide again"
        )
        self.reason = reason


class DeleteRefusedError(OutlastError):
    """The workflow cannot be deleted now. The message says why and what to do."""


class ResetRefusedError(OutlastError):
    """The workflow cannot be reset, or not to that point. The message says why, and what is possible instead."""
