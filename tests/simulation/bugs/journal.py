"""Bugs of the journal."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_store.journal import committer


@bug
def unknown_taken_for_lost(stack: ExitStack) -> None:
    """A batch whose outcome is unknown runs again, though it was committed."""

    def wrong(self: Any) -> None:
        self._in_doubt = None

    patch(stack, committer.Committer, "_resolve_doubt", wrong)


@bug
def unknown_taken_for_done(stack: ExitStack) -> None:
    """A batch whose outcome is unknown is taken to be committed, though it was lost."""

    def wrong(self: Any) -> Any:
        return self._settled() if self._in_doubt is not None else None

    patch(stack, committer.Committer, "_resolve_doubt", wrong)
