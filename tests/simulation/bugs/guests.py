"""Bugs of transactional activities."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest import mock

from tests.simulation.bugs.planting import bug, patch

from outlast_activities import changes
from outlast_activities.changes import CompleteInTransaction
from outlast_store.journal.batch import Batch


@bug
def guests_do_not_check_the_token(stack: ExitStack) -> None:
    """Whoever has run the code of a transactional activity completes it, though another attempt has begun or ended."""

    def wrong(self: Any, batch: Batch) -> Any:
        return batch.run(self.runs[0]), batch.activity(*self.activities[0])

    patch(stack, CompleteInTransaction, "held", wrong)


@bug
def late_guests_count(stack: ExitStack) -> None:
    """A transaction that ends after the deadline of its activity is committed."""
    right = CompleteInTransaction.apply

    def wrong(self: Any, batch: Batch) -> bool:
        with mock.patch.object(changes, "passed", return_value=None):
            return right(self, batch)

    patch(stack, CompleteInTransaction, "apply", wrong)
