"""Structural limits that were exceeded."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.primitives.enums import FailureCategory


class StructuralLimitError(OutlastError):
    """A structural limit was exceeded. ``value`` and ``limit`` are bytes or a count, depending on ``kind``."""

    category = FailureCategory.STRUCTURAL_LIMIT
    facts: ClassVar[tuple[str, ...]] = ("kind", "value", "limit")

    def __init__(self, kind: str, *, value: int, limit: int, advice: str | None = None) -> None:
        hint = advice or "do less at once, or raise this limit in StructuralLimits"
        super().__init__(f"{kind.replace('_', ' ')} limit exceeded: {value:,} > {limit:,}: {hint}")
        self.kind = kind
        self.value = value
        self.limit = limit
