"""Bugs that can be planted into the engine of real workers, to see that the judge finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from outlast_store.database.sql_text import columns_of
from outlast_store.journal.batch import Batch
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.queues import lines
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow

BUG: Final = "OUTLAST_CHAOS_BUG"


def count_in_the_locking_statement() -> None:
    """Slots are counted by the statement that waits for the gate: the count is older than the lock."""
    columns = columns_of(tables.queues)
    text = (
        f"SELECT {', '.join(columns)}, (SELECT count(*) FROM workflow_runs WHERE slot_queue = queues.queue) "
        "FROM queues WHERE queue = ? FOR NO KEY UPDATE"
    )

    def load_gates(self: LockedRows, awaited: set[str], wanted: set[str]) -> None:
        for name in sorted(awaited | wanted):
            for *values, held in self.scan(text, (name,)):
                self.gates[name] = QueueRow(*values)
                _held[id(self), name] = held

    def count_slots(batch: Batch, queue: str, limit: int) -> int:
        taken, given_back = lines._in_batch(batch, queue)
        return min(_held.pop((id(batch), queue), limit), limit) - given_back + taken

    _held: dict[tuple[int, str], int] = {}
    LockedRows.load_gates = load_gates  # type: ignore[method-assign]
    lines.count_slots = count_slots


BUGS: Final[dict[str, Callable[[], None]]] = {
    "count_in_the_locking_statement": count_in_the_locking_statement,
}
