"""Limits that were exceeded: of sizes and counts, and of how many owners a run may lose."""

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


class OwnersDiedError(OutlastError):
    """The workers that held a run died, or left it waiting, too often in a row. That ended the run.

    It is the cause of the run's failure, and nothing retries it: the run may be what they died of.

    Attributes:
        owner_losses: How many owners in a row lost the run.
        limit: How many it may lose: ``owner_losses`` of :class:`~outlast.StructuralLimits`.
    """

    category = FailureCategory.INTERNAL
    facts: ClassVar[tuple[str, ...]] = ("owner_losses", "limit")

    def __init__(self, owner_losses: int, limit: int) -> None:
        super().__init__(
            f"{owner_losses} workers in a row died while they held this run, or left it waiting, and the limit is "
            f"{limit}: find out from their logs what kills or blocks them (memory, a crash in a C library, long "
            "computations), then resume the workflow"
        )
        self.owner_losses = owner_losses
        self.limit = limit
