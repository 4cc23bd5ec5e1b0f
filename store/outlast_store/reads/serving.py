"""Who could serve what waits: the one answer to "is there a live worker for this?".

A run or an activity needs a live worker that serves its task queue and knows its type. What is missing is a
:class:`Lack`. It is computed on reading, because it depends on who is polling now.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, fetch, marks
from outlast_store.reads.workers import list_workers
from outlast_store.schema.rows import LOCAL, RunRow, WorkerRow
from outlast_workflow.primitives.enums import Attention
from outlast_workflow.primitives.type_families import serves

WORKFLOW: Final = "workflow"
ACTIVITY: Final = "activity"

MOST_KNOWN: Final = 8
"""How many of the types that are served are named."""


_DOCUMENTS: Final = ("serverless:", "serverless-schedule:", "serverless.")
"""How the types begin that no module of users has, but the worker of Serverless Workflow documents."""


@dataclass(frozen=True, slots=True)
class Lack:
    """No live worker can serve something.

    Attributes:
        noun: ``workflow`` or ``activity``.
        type: Its type.
        task_queue: Its task queue.
        known: The types that the live workers of that task queue have; ``None`` if it has no live worker.
        polled: The task queues that have live workers.
        queue: The queue that none of the live workers admits from, if that is what is missing.
    """

    noun: str
    type: str
    task_queue: str
    known: tuple[str, ...] | None
    polled: tuple[str, ...]
    queue: str | None = None

    @property
    def kind(self) -> Attention:
        """The kind of attention that it needs once it has lasted."""
        none = self.known is None or self.queue is not None
        return Attention.NO_POLLER if none else Attention.UNKNOWN_TYPE

    @property
    def cause(self) -> str:
        """What is missing, in words."""
        if self.queue is not None:
            return f"no live worker that serves {self.noun} {self.type!r} admits from queue {self.queue!r}"
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
        if self.queue is not None:
            return f"give {self.queue!r} to such a worker's queues=, or leave queues= out: then it admits from all"
        queue = shlex.quote(self.task_queue)
        if self.type.startswith(_DOCUMENTS):
            command = f"`outlast serverless worker --task-queue {queue}`, or a worker with a Runtime"
            return f"start {command}" + (
                "" if self.known is not None else ", or correct the task queue's name"
            )
        if self.known is not None:
            return f"give {self.noun} {self.type!r} to a worker of that task queue, or correct the name"
        return f"start one: `outlast worker MODULE --task-queue {queue}`, or correct the task queue's name"


class Served(NamedTuple):
    """What one live worker serves; with ``queues`` it admits from no others."""

    worker_id: str
    task_queues: frozenset[str]
    workflows: frozenset[str]
    activities: frozenset[str]
    queues: frozenset[str] | None


@dataclass(slots=True)
class Polled:
    """The live workers, and which workflow and activity types they run on each task queue."""

    live: list[str] = field(default_factory=list)
    workflows: dict[str, set[str]] = field(default_factory=dict)
    activities: dict[str, set[str]] = field(default_factory=dict)
    workers: list[Served] = field(default_factory=list)

    @classmethod
    def of(cls, workers: Iterable[WorkerRow], now: int) -> Polled:
        """Return what the workers serve whose lease has not ended."""
        polled = cls()
        for worker in workers:
            if worker.lease_expires_at <= now:
                continue
            polled.live.append(worker.worker_id)
            types, task_queues = orjson.loads(worker.types), orjson.loads(worker.task_queues)
            workflows, activities = types.get("workflows", ()), types.get("activities", ())
            for queue in task_queues:
                polled.workflows.setdefault(queue, set()).update(workflows)
                polled.activities.setdefault(queue, set()).update(activities)
            # Workers of earlier versions admit from all queues.
            queues = types.get("queues")
            polled.workers.append(
                Served(
                    worker.worker_id,
                    frozenset(task_queues),
                    frozenset(workflows),
                    frozenset(activities),
                    None if queues is None else frozenset(queues),
                )
            )
        return polled

    def lack_of_workflow(self, task_queue: str, workflow_type: str, queue: str | None = None) -> Lack | None:
        """Return what a run lacks; ``None`` if a live worker can serve it.

        Args:
            task_queue: Its task queue.
            workflow_type: Its type.
            queue: The queue in whose line it stands, if it stands in one.
        """
        lack = _lack(WORKFLOW, workflow_type, task_queue, self.workflows)
        if lack is not None or queue is None:
            return lack
        if self.able(WORKFLOW, workflow_type, task_queue, queue):
            return None
        return self._lack_of_queue(WORKFLOW, workflow_type, task_queue, queue)

    def lack_of_activity(self, task_queue: str, activity_type: str, queue: str | None = None) -> Lack | None:
        """Return what an activity lacks; ``None`` if a live worker can serve it.

        Args:
            task_queue: Its task queue.
            activity_type: Its type.
            queue: The queue in whose line it stands, if it stands in one.
        """
        task_queue = task_queue.removeprefix(LOCAL)
        lack = _lack(ACTIVITY, activity_type, task_queue, self.activities)
        if lack is not None or queue is None:
            return lack
        if self.able(ACTIVITY, activity_type, task_queue, queue):
            return None
        return self._lack_of_queue(ACTIVITY, activity_type, task_queue, queue)

    def able(self, noun: str, type: str, task_queue: str, queue: str) -> list[str]:
        """Return the live workers that could admit something from the line of a queue.

        Args:
            noun: ``workflow`` or ``activity``.
            type: Its type.
            task_queue: Its task queue.
            queue: The queue.
        """
        return [
            one.worker_id
            for one in self.workers
            if task_queue in one.task_queues
            and serves(one.workflows if noun == WORKFLOW else one.activities, type)
            and (one.queues is None or queue in one.queues)
        ]

    def _lack_of_queue(self, noun: str, type: str, task_queue: str, queue: str) -> Lack:
        return Lack(noun, type, task_queue, (type,), tuple(sorted(self.workflows)), queue)


def _lack(noun: str, type: str, task_queue: str, served: dict[str, set[str]]) -> Lack | None:
    known = served.get(task_queue)
    if known is not None and serves(known, type):
        return None
    return Lack(
        noun, type, task_queue, None if known is None else tuple(sorted(known)), tuple(sorted(served))
    )


Ready = tuple[str, str, str, str, str | None, str | None]
"""What is ready: its run, its noun, its task queue, its type, its owner, and the queue that it waits for."""


def ready_of(run_ids: Sequence[str], since: int) -> tuple[str, tuple[object, ...]]:
    """Return the statement, and its values, that reads what of some runs has been ready, or in line, since an instant.

    What waits in the line of a paused queue lacks no worker.

    Args:
        run_ids: Which runs: a few hundred at most.
        since: Microseconds since the epoch.
    """
    among = f"run_id IN ({marks(run_ids)})"
    # Who takes over a run that holds a slot admits from its queue, too.
    queue = "CASE WHEN r.queued_at IS NULL THEN r.slot_queue ELSE r.queue END"
    runs = (
        f"SELECT r.run_id, '{WORKFLOW}', r.task_queue, r.workflow_type, r.owner_id, {queue} "
        f"FROM workflow_runs AS r LEFT JOIN queues AS q ON q.queue = r.queue WHERE r.{among} AND r.closed_at IS NULL "
        "AND ((r.wake_at <= ? AND r.not_before <= ?) OR (r.queued_at <= ? AND q.paused_at IS NULL))"
    )
    activities = (
        f"SELECT DISTINCT a.run_id, '{ACTIVITY}', a.task_queue, a.activity_type, NULL, a.queue "
        f"FROM activity_executions AS a LEFT JOIN queues AS q ON q.queue = a.queue WHERE a.{among} "
        "AND a.status = 'pending' AND a.available_at <= ? AND q.paused_at IS NULL"
    )
    return f"{runs} UNION ALL {activities}", (*run_ids, since, since, since, *run_ids, since)


def lacks_among(ready: Iterable[Ready], polled: Polled) -> dict[str, list[Lack]]:
    """Return what runs lack, by run id: of a run first, then of its activities by task queue and type.

    Args:
        ready: What is ready.
        polled: The live workers.
    """
    found: dict[str, list[Lack]] = {}
    for run_id, noun, task_queue, type, owner_id, queue in sorted(
        ready, key=lambda one: (one[0], one[1] != WORKFLOW, one[2:4], one[5] or "")
    ):
        if noun == ACTIVITY:
            lack = polled.lack_of_activity(task_queue, type, queue)
        else:
            lack = None if owner_id in polled.live else polled.lack_of_workflow(task_queue, type, queue)
        if lack is not None:
            found.setdefault(run_id, []).append(lack)
    return found


def find_lacks(connection: Connection, run_ids: Sequence[str], now: int) -> dict[str, list[Lack]]:
    """Return what some runs lack now: those that have something to do or stand in line, and their ready activities.

    Args:
        connection: Where to read.
        run_ids: Which runs: a few hundred at most.
        now: Microseconds since the epoch.
    """
    if not run_ids:
        return {}
    polled = Polled.of(list_workers(connection), now)
    ready = (_ready(row) for row in fetch(connection, *ready_of(run_ids, now)))
    return lacks_among(ready, polled)


def _ready(row: Values) -> Ready:
    return row[0], row[1], row[2], row[3], row[4], row[5]


def lack_of_run(connection: Connection, run: RunRow, now: int) -> Lack | None:
    """Return what a run lacks, whether or not it has something to do.

    Args:
        connection: Where to read.
        run: The run.
        now: Microseconds since the epoch.
    """
    return Polled.of(list_workers(connection), now).lack_of_workflow(run.task_queue, run.workflow_type)
