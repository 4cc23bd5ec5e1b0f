"""Bugs of the outbox."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_runs.outbox import ApplyOutbox, DeleteOutbox
from outlast_store.reads.outbox import read_waiting
from outlast_watchdog import outbox


@bug
def outbox_rows_not_looked_at_again(stack: ExitStack) -> None:
    """A drainer trusts what it has read: what another one has applied meanwhile is applied again."""
    patch(stack, ApplyOutbox, "_lock", lambda self, batch: {row.outbox_id for row, _ in self.requests})
    _delete_uncounted(stack)


@bug
def outbox_rows_deleted_later(stack: ExitStack) -> None:
    """A drainer applies rows, and deletes them in a transaction of its own: a death between the two applies twice."""
    right = outbox._apply
    patch(stack, ApplyOutbox, "_delete", staticmethod(lambda batch, numbers: None))

    async def wrong(runtime: Any, rows: Any, current_runs: Any) -> Any:
        done = await right(runtime, rows, current_runs)
        for row in rows:
            await runtime.journal.apply(DeleteOutbox(row.outbox_id))
        return done

    patch(stack, outbox, "_apply", wrong)


@bug
def outbox_read_backwards(stack: ExitStack) -> None:
    """Rows are applied in the wrong order: a signal comes before its start."""
    patch(stack, outbox, "read_waiting", lambda *asked: read_waiting(*asked)[::-1])


def _delete_uncounted(stack: ExitStack) -> None:
    def wrong(batch: Any, numbers: Any) -> None:
        for number in numbers:
            batch.execute("DELETE FROM outlast_outbox WHERE outbox_id = ?", (number,))

    patch(stack, ApplyOutbox, "_delete", staticmethod(wrong))
