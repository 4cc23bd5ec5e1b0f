"""The gate of a queue: its row, locked by whoever admits from it.

Slots of a queue are taken under its gate alone. Whoever holds the gate counts the slots *in a statement of their own,
after the lock was granted*: under READ COMMITTED a statement sees what was committed before it began, so the count has
every admission of those who held the gate before. In the locking statement itself the count would be older than the
lock, and too many would be admitted. Ends of runs need no gate: what is not committed yet still counts, so a slot may
be filled some milliseconds late, never twice.

The gate is the first lock of a transaction. Who does not get it at once does without: another process is admitting. On
SQLite the write lock is the gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from outlast_store.database.sql_text import columns_of, marks
from outlast_store.journal.batch import Batch
from outlast_store.queues.contents import queue_not_found
from outlast_store.queues.rate_log import RateLog
from outlast_store.schema import tables
from outlast_store.schema.rows import QueueRow


def find_queue(batch: Batch, name: str) -> QueueRow | None:
    """Return the row of a queue, as this batch has written it or found it, without its lock; ``None`` if there is none.

    A queue that is being deleted is none.
    """
    row = batch.queues.get(name)
    if row is None:
        known: dict[str, QueueRow | None] = batch.memo.setdefault("queues", {})
        if name not in known:
            rows = batch.read(tables.queues, ("queue",), [(name,)])
            known[name] = QueueRow(*rows[0]) if rows else None
        row = known[name]
    return row if row is not None and row.deleted_at is None else None


def check_queue(batch: Batch, name: str) -> None:
    """Refuse a queue that nobody has defined.

    Raises:
        QueueNotFoundError: There is none of that name.
    """
    if find_queue(batch, name) is None:
        raise queue_not_found(batch.scan, name)


@dataclass(slots=True)
class Rates:
    """The rate logs of a queue and of its partitions, as one admission reads and writes them."""

    whole: RateLog | None
    partitions: dict[str, RateLog]

    def brought_back(self) -> list[str] | None:
        """Return the partitions whose logs must be written although nothing was admitted; ``None`` if no log must."""
        partitions = [partition for partition, log in self.partitions.items() if log.brought_back]
        return partitions if partitions or (self.whole is not None and self.whole.brought_back) else None

    def next_at(self, now: int) -> int | None:
        """Return when the first rate that allows nothing now will allow something again; ``None`` where none waits."""
        whole = self.whole.next_at(now) if self.whole is not None else None
        if whole is not None:
            return whole
        waits = [log.next_at(now) for log in self.partitions.values()]
        return min((at for at in waits if at is not None), default=None)


def read_rates(batch: Batch, gate: QueueRow, partitions: Sequence[str]) -> Rates:
    """Return the rate logs that an admission needs.

    Args:
        batch: The batch; it holds the gate.
        gate: The gate.
        partitions: The partitions that have a line.
    """
    whole = None
    if gate.rate_limit is not None and gate.rate_per is not None:
        whole = RateLog.from_json(gate.rate_limit, gate.rate_per, gate.rate_log)
    logs: dict[str, RateLog] = {}
    limit, per = gate.partition_rate_limit, gate.partition_rate_per
    if limit is not None and per is not None and partitions:
        text = (
            "SELECT partition_key, rate_log FROM queue_partitions "
            f"WHERE queue = ? AND partition_key IN ({marks(partitions)})"
        )
        known: dict[str, str] = {row[0]: row[1] for row in batch.scan(text, (gate.queue, *partitions))}
        logs = {one: RateLog.from_json(limit, per, known.get(one)) for one in partitions}
    return Rates(whole, logs)


def write_gate(batch: Batch, gate: QueueRow, rates: Rates, cursor: str | None, served: Sequence[str]) -> None:
    """Write the cursor and the rate logs after an admission, where they have changed.

    They are written at once, so that a later admission of the same batch reads them. Logs of partitions that have
    passed are deleted by a watchdog (:mod:`outlast_store.transitions.expired_rows`).

    Args:
        batch: The batch; it holds the gate.
        gate: The gate; it is changed too.
        rates: The rate logs.
        cursor: The partition that was served last; ``None`` leaves it as it is.
        served: The partitions whose logs have changed.
    """
    rate_log = rates.whole.to_json() if rates.whole is not None else None
    cursor = gate.cursor if cursor is None else cursor
    if (cursor, rate_log) != (gate.cursor, gate.rate_log):
        gate.cursor, gate.rate_log = cursor, rate_log
        text = "UPDATE queues SET cursor = ?, rate_log = ? WHERE queue = ?"
        batch.execute(text, (cursor, rate_log, gate.queue))
    charged = [
        (partition, rates.partitions[partition]) for partition in served if partition in rates.partitions
    ]
    if charged:
        columns = columns_of(tables.queue_partitions)
        text = (
            f"INSERT INTO queue_partitions ({', '.join(columns)}) "
            f"VALUES {', '.join([f'({marks(columns)})'] * len(charged))} ON CONFLICT (queue, partition_key) "
            "DO UPDATE SET rate_log = excluded.rate_log, expires_at = excluded.expires_at"
        )
        rows = [(gate.queue, partition, log.to_json(), log.empty_at) for partition, log in charged]
        batch.execute(text, tuple(chain.from_iterable(rows)))
