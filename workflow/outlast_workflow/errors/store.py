"""Errors of the database."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.root import OutlastError
from outlast_workflow.primitives.enums import FailureCategory


class StoreError(OutlastError):
    """The database cannot serve the request."""

    category = FailureCategory.INTERNAL


class StoreUnreachableError(StoreError):
    """The database does not answer."""


class StoreReadOnlyError(StoreError):
    """The database is read-only."""


class StoreReplacedError(StoreError):
    """The SQLite file was deleted, moved or replaced while this process had it open."""


class OutcomeUnknownError(StoreError):
    """It is unknown whether a change was committed: the database was unreachable for too long."""


class SchemaMissingError(StoreError):
    """The database has no Outlast tables yet."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "the database has no Outlast tables yet: run `outlast migrate`")


class SchemaTooOldError(StoreError):
    """The tables are at an earlier version than the code."""

    facts: ClassVar[tuple[str, ...]] = ("found", "needed")

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"the database's tables are at version {found}, this code needs {needed}: run `outlast migrate`"
        )
        self.found = found
        self.needed = needed


class SchemaTooNewError(StoreError):
    """The tables are at a later version than the code."""

    facts: ClassVar[tuple[str, ...]] = ("found", "needed")

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"the database's tables are at version {found}, newer than this code's {needed}: upgrade outlast"
        )
        self.found = found
        self.needed = needed


class UnstorableValueError(OutlastError, ValueError):
    """The database cannot hold such a value. Retrying does not help, and nothing was written."""


class ForkedConnectionError(StoreError):
    """A connection was used in a process that was forked after the connection was opened."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this client was connected before the process forked: connect again in the child, "
            "or start processes with the 'spawn' method"
        )


class JournalClosedError(StoreError):
    """The client is closed: this process no longer writes to the database."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "the client is closed: connect again")
