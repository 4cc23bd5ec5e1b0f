"""Options, names, ids and URLs that cannot be used."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError


class InvalidOptionError(OutlastError, ValueError):
    """An option, a name or an id is invalid. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("field",)

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidUrlError(OutlastError, ValueError):
    """The database URL cannot be used."""
