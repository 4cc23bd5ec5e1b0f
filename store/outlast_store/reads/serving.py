"""Who could serve what waits: the one answer to "is there a live worker for this?".

A run or an activity needs a live worker that serves its task queue and knows its type. What is missing is a
:class:`Lack`. It is computed on reading, because it depends on who is polling now.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch, marks
from outlast_store.reads.workers import list_workers
from outlast_store.schema.rows import LOCAL, RunRow, WorkerRow
from outlast_workflow.primitives.enums import Attention

WORKFLOW: Final = "workflow"
ACTIVITY: Final = "activity"

MOST_KNOWN: Final = 8
"""How many of the types that are served are named."""


@dataclass(frozen=True, slots=True)
class Lack:
    """No live worker can serve something.

    Attributes:
        noun: ``workflow`` or ``activity``.
        type: Its type.
        task_queue: Its task queue.
        known: The types that the live workers of that task queue have; ``None`` if it has no live worker.
        polled: The task queues that have live workers.
    """

    noun: str
    type: str
    task_queue: str
    known: tuple[str, ...] | None
    polled: tuple[str, ...]

    @property
    def kind(self) -> Attention:
        """The kind of attention that it needs once it has lasted."""
        return Attention.NO_POLLER if self.known is None else Attention.UNKNOWN_TYPE

    @property
    def cause(self) -> str:
        """What is missing, in words."""
        if self.known is not None:
            more = f" and {len(self.known) - MOST_KNOWN} more" if len(self.known) > MOST_KNOWN else ""
            known = (", ".join(self.known[:MOST_KNOWN]) or "none") + more
            what = f"{self.noun} {self.type!r} (known: {known})"
            return f"workers poll task queue {self.task_queue!r}, but none of them knows {what}"
        polled = f"polled: {', '.join(self.polled)}" if self.polled else "there is no live worker at all"
        return f"no live worker polls task queue {self.task_queue!r} of {self.noun} {self.type!r} ({polled})"

    @property
    def remedy(self) -> str:
        """What to do about it, in words."""
        if self.known is not None:
            return f"give {self.noun} {self.type!r} to a worker of that task queue, or correct the name"
        queue = shlex.quote(self.task_queue)
        return f"start one: `outlast worker MODULE --task-queue {queue}`, or correct the task queue's name"


@dataclass(slots=True)
class Polled:
    """The live workers, and which workflow and activity types they run on each task queue."""

    live: list[str] = field(default_factory=list)
    workflows: dict[str, set[str]] = field(default_factory=dict)
    activities: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, workers: Iterable[WorkerRow], now: int) -> Polled:
        """Return what the workers serve whose lease has not ended."""
        polled = cls()
        for worker in workers:
            if worker.lease_expires_at <= now:
                continue
            polled.live.append(worker.worker_id)
            types = orjson.loads(worker.types)
            for queue in orjson.loads(worker.task_queues):
                polled.workflows.setdefault(queue, set()).update(types.get("workflows", ()))
                polled.activities.setdefault(queue, set()).update(types.get("activities", ()))
        return polled

    def lack_of_workflow(self, task_queue: str, workflow_type: str) -> Lack | None:
        """Return what a run lacks; ``None`` if a live worker can serve it.

        Args:
            task_queue: Its task queue.
            workflow_type: Its type.
        """
        return _lack(WORKFLOW, workflow_type, task_queue, self.workflows)

    def lack_of_activity(self, task_queue: str, activity_type: str) -> Lack | None:
        """Return what an activity lacks; ``None`` if a live worker can serve it.

        Args:
            task_queue: Its task queue.
            activity_type: Its type.
        """
        return _lack(ACTIVITY, activity_type, task_queue.removeprefix(LOCAL), self.activities)


def _lack(noun: str, type: str, task_queue: str, served: dict[str, set[str]]) -> Lack | None:
    known = served.get(task_queue)
    if known is not None and type in known:
        return None
    return Lack(
        noun, type, task_queue, None if known is None else tuple(sorted(known)), tuple(sorted(served))
    )


def waiting_activities(
    connection: Connection, run_ids: Sequence[str], since: int
) -> list[tuple[str, str, str]]:
    """Return run, task queue and type of the activities that have been ready since an instant, each once.

    Args:
        connection: Where to read.
        run_ids: Which runs: a few hundred at most.
        since: Microseconds since the epoch.
    """
    if not run_ids:
        return []
    text = (
        "SELECT DISTINCT run_id, task_queue, activity_type FROM activity_executions "
        f"WHERE run_id IN ({marks(run_ids)}) AND status = 'pending' AND available_at <= ? "
        "ORDER BY run_id, task_queue, activity_type"
    )
    return [(row[0], row[1], row[2]) for row in fetch(connection, text, (*run_ids, since))]


def find_lacks(connection: Connection, run_ids: Sequence[str], now: int) -> dict[str, list[Lack]]:
    """Return what some runs lack now: those that have something to do, and their ready activities.

    Args:
        connection: Where to read.
        run_ids: Which runs: a few hundred at most.
        now: Microseconds since the epoch.
    """
    if not run_ids:
        return {}
    polled = Polled.of(list_workers(connection), now)
    found: dict[str, list[Lack]] = {}
    text = (
        "SELECT run_id, task_queue, workflow_type, owner_id FROM workflow_runs "
        f"WHERE run_id IN ({marks(run_ids)}) AND closed_at IS NULL AND wake_at <= ? AND not_before <= ?"
    )
    for run_id, queue, type, owner_id in fetch(connection, text, (*run_ids, now, now)):
        lack = None if owner_id in polled.live else polled.lack_of_workflow(queue, type)
        if lack is not None:
            found.setdefault(run_id, []).append(lack)
    for run_id, queue, type in waiting_activities(connection, run_ids, now):
        lack = polled.lack_of_activity(queue, type)
        if lack is not None:
            found.setdefault(run_id, []).append(lack)
    return found


def lack_of_run(connection: Connection, run: RunRow, now: int) -> Lack | None:
    """Return what a run lacks, whether or not it has something to do.

    Args:
        connection: Where to read.
        run: The run.
        now: Microseconds since the epoch.
    """
    return Polled.of(list_workers(connection), now).lack_of_workflow(run.task_queue, run.workflow_type)
