"""Queues of a simulation: half of the seeds have some, and start a part of their workflows through them.

They draw from a source of their own, so that seeds without queues are as they were. Limits do not change during a
story, so that whatever admits can be judged at once: by rows, in the transaction that writes them.
"""

from __future__ import annotations

import random
from typing import Any

from sqlalchemy import Connection

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import QueueRow

NAMES = ("narrow", "wide")
PARTITIONS = (None, "p1", "p2")


class Queues:
    """The queues of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"queues of {seed}")
        self.rows: list[QueueRow] = []
        if rng.random() < 0.5:
            self.rows = [self._draw(name) for name in NAMES]

    def _draw(self, name: str) -> QueueRow:
        rng = self.rng
        most = rng.choice((1, 2, 3)) if name == "narrow" else None
        worker = rng.choice((None, None, 1, 2))
        partition = rng.choice((None, None, 1))
        rate = rng.choice((None, None, 3))
        return QueueRow(
            queue=name,
            concurrency=most,
            worker_concurrency=worker,
            rate_limit=rate,
            rate_per=None if rate is None else 500_000,
            partition_concurrency=partition,
            partition_worker_concurrency=None if worker is None else rng.choice((None, 1)),
            partition_rate_limit=None,
            partition_rate_per=None,
            paused_at=None,
            note=None,
            created_at=0,
            updated_at=0,
        )

    def define(self, connection: Connection) -> None:
        """Write them before anything else."""
        for row in self.rows:
            values = tuple(vars(row).values())
            connection.exec_driver_sql(f"INSERT INTO queues VALUES ({', '.join('?' * len(values))})", values)

    def use(self, plan: list[dict[str, Any]]) -> None:
        """Let some of a client's workflows go through them."""
        for action in plan:
            if self.rows and "options" in action and self.rng.random() < 0.7:
                options: dict[str, Any] = {"queue": self.rng.choice(NAMES)}
                options["partition_key"] = self.rng.choice(PARTITIONS)
                if self.rng.random() < 0.15:
                    options["schedule_to_start_timeout"] = self.rng.choice((1, 5))
                if self.rng.random() < 0.15:
                    options["run_timeout"] = self.rng.choice((2, 6))
                if self.rng.random() < 0.2:
                    options["start_delay"] = self.rng.choice((0.5, 2))
                    if action["options"].get("execution_timeout"):
                        del options["start_delay"]
                action["options"] = {**action["options"], **options}


def move_starts(seed: int, plan: list[dict[str, Any]]) -> None:
    """Let a client move the starts of some of its workflows, soon after it started them: most have not begun then.

    Args:
        seed: The seed; what is drawn here is drawn from a source of its own.
        plan: What the client is going to do.
    """
    rng = random.Random(f"starts of {seed}")
    for place in range(len(plan) - 1, -1, -1):
        if plan[place]["do"] == "start":
            for _ in range(rng.choice((0, 0, 0, 1, 2))):
                move = {"do": "set_start_delay", "id": plan[place]["id"], "delay": rng.choice((0, 0.3, 1, 4))}
                plan.insert(place + 1, {**move, "after": rng.choice((0, 0, 0.1, 0.4))})


def over_admitted(batch: Batch, queues: set[str]) -> list[str]:
    """Say which limits are exceeded after a batch that admits has written its rows.

    Args:
        batch: The batch.
        queues: The queues that it has admitted from, or whose runs it has given to a worker.
    """
    found: list[str] = []
    for name in sorted(queues):
        columns = "concurrency, partition_concurrency, worker_concurrency, partition_worker_concurrency"
        rows = batch.scan(f"SELECT {columns} FROM queues WHERE queue = ?", (name,))
        if not rows:
            continue
        groups = ("", "partition_key", "owner_id", "partition_key, owner_id")
        for limit, by in zip(rows[0], groups, strict=True):
            owned = " AND owner_id IS NOT NULL" if "owner_id" in by else ""
            end = f" GROUP BY {by}" if by else ""
            text = f"SELECT count(*) FROM workflow_runs WHERE slot_queue = ?{owned}{end}"
            most = max((row[0] for row in batch.scan(text, (name,))), default=0)
            if limit is not None and most > limit:
                found.append(f"queue {name} has {most} slots where {limit} are allowed (by {by or 'all'})")
    return found
