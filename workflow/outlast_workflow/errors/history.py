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


class DamagedHistoryError(OutlastError):
    """A stored value of a run cannot be read: something else has changed the database, or a disk has.

    Attributes:
        run_id: The run.
        seq: The number of the event; ``None`` if the value is in another row of the run.
        what: Which value it is.
    """

    facts: ClassVar[tuple[str, ...]] = ("run_id", "seq", "what")

    def __init__(self, run_id: str, what: str, *, seq: int | None = None) -> None:
        where = f"event {seq} of run {run_id}" if seq is not None else f"run {run_id}"
        super().__init__(
            f"{where} is damaged: its {what} cannot be read; restore the database from a backup, or delete the workflow"
        )
        self.run_id = run_id
        self.seq = seq
        self.what = what


class HistoryExistsError(OutlastError):
    """Workflows or runs to be imported are already in the database. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("ids",)

    def __init__(self, ids: Sequence[str]) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3:,} more" if len(ids) > 3 else "")
        super().__init__(
            f"the database has {shown} already: import into another database, or leave those out of the file"
        )
        self.ids = list(ids)
