"""What the watchdog watches: the runtime of a process, and the errors that say that its database is at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from outlast_store.journal.journal import Journal
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    ForkedConnectionError,
    JournalClosedError,
    OutcomeUnknownError,
    StoreReadOnlyError,
)

P = ParamSpec("P")
T = TypeVar("T")

NOT_THE_ROWS: Final = (ForkedConnectionError, JournalClosedError, OutcomeUnknownError, StoreReadOnlyError)
"""Errors that keep any change from being written, whichever row it is for."""


class WatchedRuntime(Protocol):
    """What the watchdog needs of a process's runtime."""

    @property
    def journal(self) -> Journal:
        """The journal, the process's group-commit writer."""
        ...

    @property
    def environment(self) -> Environment:
        """Its clock."""
        ...

    @property
    def outbox_rung(self) -> list[Callable[[], None]]:
        """Called on the loop when a transaction that wrote to the outbox has rung."""
        ...

    async def read(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read on the database and return its result.

        Args:
            query: The read: a function of a connection.
            *args: Its further arguments.
            **kwargs: Its further arguments by name.
        """
        ...
