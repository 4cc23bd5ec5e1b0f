"""Exported histories that cannot be read or imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class InvalidHistoryError(OutlastError, ValueError):
    """The input is not an exported history, or an impossible one. ``place`` says where; nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("place",)

    def __init__(self, message: str, *, place: str | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class HistoryExistsError(OutlastError):
    """Workflows or runs to be imported are already in the database. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("ids",)

    def __init__(self, ids: Sequence[str]) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3:,} more" if len(ids) > 3 else "")
        super().__init__(
            f"the database has {shown} already: import into another database, or leave those out of the file"
        )
        self.ids = list(ids)
