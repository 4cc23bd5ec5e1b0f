"""The errors of exported histories.

::

    OutlastError
    ├── InvalidHistoryError (ValueError)        what was given is no exported history, or not a sound one
    └── HistoryExistsError                      the database has that workflow or run already
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class InvalidHistoryError(OutlastError, ValueError):
    """What was given is no exported history, or one that can't be. ``place`` says where; nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("place",)

    def __init__(self, message: str, *, place: str | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class HistoryExistsError(OutlastError):
    """Workflows or runs that were to be imported are in the database already. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("ids",)

    def __init__(self, ids: Sequence[str]) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3:,} more" if len(ids) > 3 else "")
        super().__init__(
            f"the database has {shown} already: import into another database, or leave those out of the file"
        )
        self.ids = list(ids)
