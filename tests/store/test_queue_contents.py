"""What is in queues: lines and places in them are what rows say, and no look at them follows a line's length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

from sqlalchemy import Connection
from tests.conftest import at_head
from tests.store.activity_rows import activity_row

from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.queues.contents import ACTIVITIES, RUNS, Waiting, find_lines
from outlast_store.reads.queues import count_ahead
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.new_runs import first_run
from outlast_workflow.options.options import StartOptions


def in_line(number: int, partition: str = "", priority: int = 5, at: int = 0, queue: str = "q") -> RunRow:
    """A run in the line of a queue."""
    options = StartOptions(queue=queue, partition_key=partition or None, priority=priority)
    run = first_run(
        run_id=f"run-{number:06}",
        workflow_id=f"w-{number}",
        workflow_type="Tried",
        task_queue="default",
        options=options,
        memo=None,
        now=at,
        owner_id=None,
    )
    return replace(run, partition_key=partition, queued_at=at)


def fill(database: Database, runs: Sequence[RunRow]) -> None:
    """Insert runs in line, and an activity in the same place for each of them."""
    activities = [
        activity_row(
            run.run_id,
            priority=run.priority,
            available_at=run.queued_at,
            queue=run.queue,
            partition_key=run.partition_key,
        )
        for run in runs
    ]
    with database.writer() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.execute(tables.workflow_runs.insert(), [vars(run) for run in runs])
        connection.execute(tables.activity_executions.insert(), activities)
        connection.exec_driver_sql("COMMIT")


def test_lines_and_places_are_what_the_rows_say(database: Database) -> None:
    rng = Random(16)
    partitions = ["", "a", "a,b", "ä", "z" * 200]
    runs = [
        in_line(
            number, rng.choice(partitions), rng.randrange(10), rng.randrange(3), rng.choice(["q", "other"])
        )
        for number in range(150)
    ]
    fill(database, runs)
    here = [run for run in runs if run.queue == "q"]
    expected: dict[tuple[str, int], int] = {}
    for run in here:
        line = (run.partition_key or "", run.priority)
        expected[line] = min(expected.get(line, 9), run.queued_at or 0)
    lines = sorted(
        ((*line, since) for line, since in expected.items()), key=lambda one: (one[0].encode(), one[1])
    )
    bounds = [*product((None, "", "a", "b"), (None, "a", "a,b"))]
    with database.reader() as connection:
        for waiting in (RUNS, ACTIVITIES):
            found = partial(
                find_lines, partial(fetch, connection), waiting, "q", sqlite=database.backend == "sqlite"
            )
            assert found(3) == lines[:3]
            for after, until in bounds:
                assert found(100, after=after, until=until) == [
                    line
                    for line in lines
                    if (after is None or line[0] > after) and (until is None or line[0] <= until)
                ]
        ahead = Counter(
            run.run_id
            for run in here
            for other in here
            if other.partition_key == run.partition_key
            and (other.priority, other.queued_at, other.run_id) < (run.priority, run.queued_at, run.run_id)
        )
        # Each has an activity in the same place; of those that joined at the same time the runs go first.
        ahead.update(
            run.run_id
            for run in here
            for other in here
            if other.partition_key == run.partition_key
            and (other.priority, other.queued_at) < (run.priority, run.queued_at)
        )
        assert {run.run_id: count_ahead(connection, run) for run in here} == {
            run.run_id: ahead[run.run_id] for run in here
        }


# --- what it costs --------------------------------------------------------------------------------------------------


def lines_of(waiting: Waiting, connection: Connection, **bounds: str) -> object:
    return find_lines(partial(fetch, connection), waiting, "q", 100, sqlite=True, **bounds)


LOOKS: dict[str, Callable[[Connection], object]] = {
    "lines of runs": partial(lines_of, RUNS),
    "lines of activities": partial(lines_of, ACTIVITIES),
    "lines between": partial(lines_of, RUNS, after="a", until="z"),
    "the first": lambda connection: count_ahead(connection, in_line(0, "p", at=0)),
    "the tenth": lambda connection: count_ahead(connection, in_line(9, "p", at=9)),
}
"""Looks at a queue whose cost is not to follow the length of its line."""


def steps(database: Database, look: Callable[[Connection], object]) -> int:
    """Count the steps of SQLite's machine that a look takes."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1

    with database.reader() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(step, 1)
        look(connection)
        driver.set_progress_handler(None, 1)
    return taken


def test_no_look_follows_the_length_of_a_line(sqlite_url: str) -> None:
    """With ten times as many in line, SQLite takes as many steps."""
    line = [in_line(number, "p", at=number) for number in range(2000)]
    with at_head(sqlite_url) as database:
        fill(database, line[:200])
        short = {name: steps(database, look) for name, look in LOOKS.items()}
        fill(database, line[200:])
        long = {name: steps(database, look) for name, look in LOOKS.items()}
        assert long == short
