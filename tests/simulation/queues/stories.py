"""Queues of a simulation: half of the seeds have some, and start a part of their workflows and activities through them.

What holds a slot of a queue waits only for queues that come after it (:data:`NAMES`), so that none waits for itself.
Some seeds start a burst of small workflows besides, so that lines are long, and in most an operator changes limits,
pauses and resumes queues meanwhile, or deletes one and defines it again. All draw from sources of their own, so that
seeds without queues are as they were.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from outlast import Client, Queue, Rate
from outlast.errors import QueueInUseError, QueueNotFoundError
from outlast_store.schema.rows import QueueRow
from outlast_workflow.errors import JournalClosedError, StoreError

NAMES = ("narrow", "wide", "inner")
PARTITIONS = (None, "p1", "p2")
RATES = (Rate(3, 0.5), Rate(2, 2), Rate(4, 3))
PARTITION_RATES = (Rate(1, 1), Rate(2, 3))
"""None of them exceeds any of the others."""

Limits = dict[str, Any]


def draw_limits(rng: random.Random, name: str) -> Limits:
    """The limits of a queue; whichever of them are changed later, they do not contradict each other.

    Args:
        rng: The source.
        name: The queue.
    """
    return {
        "concurrency": rng.choice((1, 2, 3)) if name == "narrow" else rng.choice((None, None, 2, 4)),
        "worker_concurrency": rng.choice((None, None, 1, 2)),
        "rate": rng.choice((None, None, *RATES)),
        "partition_concurrency": rng.choice((None, None, 1)),
        "partition_worker_concurrency": rng.choice((None, None, 1)),
        "partition_rate": rng.choice((None, None, *PARTITION_RATES)),
    }


def row_of(queue: Queue) -> QueueRow:
    """The row that a definition makes."""
    rate, partition_rate = queue.rate, queue.partition_rate
    return QueueRow(
        queue=queue.name,
        concurrency=queue.concurrency,
        worker_concurrency=queue.worker_concurrency,
        rate_limit=rate.limit if rate is not None else None,
        rate_per=rate.per_us if rate is not None else None,
        partition_concurrency=queue.partition_concurrency,
        partition_worker_concurrency=queue.partition_worker_concurrency,
        partition_rate_limit=partition_rate.limit if partition_rate is not None else None,
        partition_rate_per=partition_rate.per_us if partition_rate is not None else None,
        paused_at=None,
        note=None,
        created_at=0,
        updated_at=0,
    )


class Queues:
    """The queues of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"queues of {seed}")
        self.rows: list[QueueRow] = []
        self.operator: Operator | None = None
        self.busy = rng.choice(NAMES)
        """The queue that has the burst, if there is one, and most of the operator's attention."""
        if rng.random() < 0.5:
            self.rows = [row_of(Queue(name, **draw_limits(rng, name))) for name in NAMES]
            if rng.random() < 0.6:
                self.operator = Operator(rng, self.busy)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def define(self, connection: Connection) -> None:
        """Write them before anything else."""
        for row in self.rows:
            values = tuple(vars(row).values())
            connection.exec_driver_sql(f"INSERT INTO queues VALUES ({', '.join('?' * len(values))})", values)

    def use(self, plan: list[dict[str, Any]]) -> None:
        """Let some of a client's workflows go through them, and some of the children of those that do not."""
        for action in plan if self.rows else ():
            if "options" not in action:
                continue
            first = 0
            if self.rng.random() < 0.7:
                first = self._queue(action)
            self._use_within(action["steps"], first)

    def _queue(self, action: dict[str, Any]) -> int:
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
        if self.rng.random() < 0.3:
            options["priority"] = self.rng.choice((0, 9))
        action["options"] = {**action["options"], **options}
        return NAMES.index(options["queue"]) + 1

    def _use_within(self, steps: list[dict[str, Any]], first: int) -> None:
        """Start some children and activities in queues, the first of which is one that nobody above waits in.

        Args:
            steps: What a workflow does.
            first: The place of the first queue that it may wait for.
        """
        for step in steps:
            after = first
            if step["do"] == "call":
                self._use_for(step, first)
            if step["do"] == "child" and first < len(NAMES) and self.rng.random() < 0.5:
                name = self.rng.choice(NAMES[first:])
                step["line"] = {"queue": name, "partition_key": self.rng.choice(PARTITIONS)}
                after = NAMES.index(name) + 1
            cleanup = [step["cleanup"]] if "cleanup" in step else []
            for inner in (step.get("steps", []), cleanup, *step.get("branches", ())):
                self._use_within(inner, after)

    def _use_for(self, call: dict[str, Any], first: int) -> None:
        """Let an activity go through a queue, perhaps.

        Args:
            call: The step that calls it.
            first: The place of the first queue that its workflow may wait for.
        """
        if not call["local"] and first < len(NAMES) and self.rng.random() < 0.5:
            options = {"queue": self.rng.choice(NAMES[first:]), "partition_key": self.rng.choice(PARTITIONS)}
            call["options"] = {**call["options"], **options}

    def draw_burst(self, task_queues: tuple[str, ...], call: Callable[[random.Random], Any]) -> list[Any]:
        """Many small workflows at once, or nothing: what a client does that fills lines.

        Args:
            task_queues: Where they run.
            call: Draws a step that calls an activity.
        """
        rng = self.rng
        if not self.rows or rng.random() < 0.5:
            return []
        name = self.busy
        plan: list[Any] = []
        for number in range(rng.choice((4, 6, 9))):
            kind = rng.choice(("nothing", "sleep", "sleep", "continue", "call"))
            steps: list[Any] = []
            if kind in ("sleep", "continue"):
                steps = [{"do": "sleep", "for": rng.choice((0.001, 0.1, 1))} for _ in range(2)]
            if kind == "continue":
                steps.insert(1, {"do": "continue"})
            if kind == "call":
                steps = [call(rng)]
                self._use_for(steps[0], NAMES.index(name) + 1)
            options: dict[str, Any] = {"queue": name, "partition_key": rng.choice(PARTITIONS)}
            if rng.random() < 0.3:
                options["priority"] = rng.choice((0, 9))
            plan.append(
                {
                    "do": "start",
                    "id": f"b{number}",
                    "steps": steps,
                    "queue": rng.choice(task_queues),
                    "options": options,
                    "after": rng.choice((0, 0, 0, 0.01, 0.5)),
                }
            )
        return plan

    def draw_lines(self) -> tuple[str, ...] | None:
        """The queues that a worker admits from, if not from all."""
        if self.rows and self.rng.random() < 0.25:
            return (self.rng.choice(NAMES),)
        return None

    def draw_twin(self) -> bool:
        """Whether a worker's process has another worker, with the same journal."""
        return bool(self.rows) and self.rng.random() < 0.25


class Operator:
    """Changes queues while they are in use; goes on where its last process was when that crashed.

    Args:
        rng: What it does is drawn from this.
        busy: The queue that it looks after most.
    """

    def __init__(self, rng: random.Random, busy: str) -> None:
        self.plan: list[tuple[float, str, str, Limits]] = []
        self.place = 0
        for _ in range(rng.choice((2, 4, 8))):
            name = rng.choice((*NAMES, busy, busy, busy))
            verb = rng.choice(("update", "update", "update", "pause", "resume", "delete"))
            limits = draw_limits(rng, name)
            if verb == "update":
                changed = rng.sample(sorted(limits), rng.choice((1, 1, 3, 6)))
                limits = {limit: limits[limit] for limit in changed}
            self.plan.append((rng.choice((0, 0.3, 0.7, 1.5)), verb, name, limits))
        self.plan += [(0.5, "resume", name, {}) for name in NAMES]

    @property
    def done(self) -> bool:
        return self.place >= len(self.plan)

    async def run(self, client: Client) -> None:
        """Do what is planned, each until it is known to be done."""
        while not self.done:
            after, verb, name, limits = self.plan[self.place]
            await asyncio.sleep(after)
            while True:
                try:
                    await self._do(client, verb, name, limits)
                    break
                except JournalClosedError:
                    raise
                except StoreError:
                    await asyncio.sleep(0.2)
            self.place += 1

    async def _do(self, client: Client, verb: str, name: str, limits: Limits) -> None:
        queues = client.queues
        if verb == "update":
            await queues.update(name, **limits)
        elif verb == "pause":
            await queues.pause(name)
        elif verb == "resume":
            await queues.resume(name)
        else:
            try:
                await queues.delete(name)
            except QueueInUseError:
                return
            except QueueNotFoundError:
                pass  # its own first try, whose answer was lost
            await queues.define(name, if_exists="update", **limits)


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
