"""Transactional activities of a simulation: they write to a table of the user's, and complete, in one transaction.

One seed in four has them, drawn from a source of its own, so that the other seeds are as they were. They run in place,
as on a SQLite file, where a transaction keeps everybody else from writing: it begins and ends within one callback. What
they are is a matter of the moment before: a worker that was frozen between its claim and the code is a zombie.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection
from tests.simulation.programs import draw_call
from tests.simulation.story import Story

from outlast_store.database.sql_text import fetch

Action = dict[str, Any]


def add_guests(seed: int, plan: list[Action]) -> None:
    """Let the programs of a plan call transactional activities."""
    if seed % 4 != 1:
        return
    rng = random.Random(f"guests of {seed}: {len(plan)}")
    for action in plan:
        if action["do"] == "start":
            for _ in range(rng.randint(1, 4)):
                action["steps"].insert(rng.randint(0, len(action["steps"])), _calling(rng))


def _calling(rng: random.Random) -> Action:
    calls = [{**draw_call(rng), "activity": "book", "local": False} for _ in range(rng.randint(1, 3))]
    kind = rng.choice(("all", "all", "race", "limit"))
    if kind == "limit":
        return {"do": "limit", "for": rng.choice((0.001, 0.1, 1)), "steps": calls}
    return {"do": kind, "branches": [[call] for call in calls]}


def check_guests(connection: Connection, story: Story) -> Iterator[str]:
    """What was written is there if and only if the activity completed, and by the attempt that completed it."""
    text = "SELECT run_id, activity_id, attempt FROM bookings"
    booked = Counter[tuple[Any, ...]](tuple(row) for row in fetch(connection, text))
    attempts = {(run_id, activity_id): attempt for run_id, activity_id, attempt in story.activities}
    completed: Counter[tuple[Any, ...]] = Counter()
    for run_id, events in story.events.items():
        books = {
            event["command_id"]
            for kind, _, event in events
            if kind == "ActivityScheduled" and event["activity_type"] == "book"
        }
        for kind, _, event in story.own(run_id):
            if kind == "ActivityCompleted" and event["command_id"] in books:
                activity_id = event["command_id"]
                completed[run_id, activity_id, attempts.get((run_id, activity_id))] += 1
    for key in sorted((booked - completed) + (completed - booked), key=repr):
        yield (
            f"activity {key[1]} of run {key[0]}, attempt {key[2]}: it wrote {booked[key]} times and completed "
            f"{completed[key]} times"
        )
