"""Transactional activities, whose code writes in the engine's own transaction, and effects in other databases."""

from __future__ import annotations

from typing import ClassVar

from outlast_workflow.errors.context import NotInActivityError
from outlast_workflow.errors.root import OutlastError


class NotTransactionalError(NotInActivityError):
    """``activity.connection()`` was called in an activity that has no such connection."""

    facts: ClassVar[tuple[str, ...]] = ("non_retryable",)
    non_retryable: bool = True


class TransactionRefusedError(OutlastError):
    """Something that a transactional activity cannot do: run as a local one, or write to streams. It is not retried."""

    facts: ClassVar[tuple[str, ...]] = ("non_retryable",)
    non_retryable: bool = True


class TransactionEndedError(OutlastError):
    """The code of a transactional activity ended its transaction itself, or left it unusable. Nothing was written.

    The attempt fails and is not retried, because the code would do it again. The message says what to do instead.
    """

    facts: ClassVar[tuple[str, ...]] = ("non_retryable",)
    non_retryable: bool = True


class TransactionTooLongError(OutlastError, TimeoutError):
    """A transaction kept SQLite's one write lock for too long and was rolled back. The attempt fails, and is retried.

    Attributes:
        seconds: How long a transaction may take.
    """

    facts: ClassVar[tuple[str, ...]] = ("seconds",)

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the activity's transaction was rolled back because it took longer than {seconds:g} s: SQLite has one "
            "writer, so everything else waited for it; do the slow part in an ordinary activity before, or use "
            "PostgreSQL"
        )
        self.seconds = seconds


class EffectsTableMissingError(OutlastError):
    """The database that ``activity.once()`` was given has no table of effects."""
