"""Many rows at once, inserted directly: what a database holds after years of use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Table

from benchmarks.harness.databases import opened
from benchmarks.harness.inputs import WORKFLOW_TYPE, argument
from benchmarks.harness.rows import Recorder
from outlast_store.database.sql_text import columns_of
from outlast_store.schema import tables
from outlast_store.transitions.new_runs import first_run, new_instance, started_event
from outlast_store.transitions.queued_runs import enter_queue
from outlast_workflow.environment import Environment
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.payloads import Payload

Values = tuple[Any, ...]
CHUNK = 5000
COPIES_AT_ONCE = 20
A_YEAR_US = 365 * 86_400 * 1_000_000


def insert(connection: Connection, rows: Iterable[tuple[Table, list[Values]]]) -> None:
    """Insert rows in one transaction."""
    connection.exec_driver_sql("BEGIN")
    for table, values in rows:
        names = columns_of(table)
        if connection.dialect.name == "postgresql":
            _copy(connection, f"COPY {table.name} ({', '.join(names)}) FROM STDIN", values)
        elif values:
            marks = ", ".join("?" * len(names))
            text = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
            connection.exec_driver_sql(text, values)
        values.clear()
    connection.exec_driver_sql("COMMIT")


def _copy(connection: Connection, text: str, values: Iterable[Values]) -> None:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(text) as copy:
        for row in values:
            copy.write_row(row)


def fill_runs(url: str, count: int, *, closed: bool) -> None:
    """Add runs: closed ones, a second apart in the past; or open ones, each with a timer that is due in a year."""
    environment = Environment()
    instances: list[Values] = []
    runs: list[Values] = []
    timers: list[Values] = []
    kinds = [(tables.workflow_instances, instances), (tables.workflow_runs, runs), (tables.timers, timers)]
    with opened(url) as connection:
        for number in range(count):
            run_id, now = environment.ids.next(), environment.clock.now() - number * 1_000_000
            run = first_run(
                run_id=run_id,
                workflow_id=f"filled-{number}",
                workflow_type="order",
                task_queue="default",
                options=StartOptions(),
                memo=None,
                now=now,
                owner_id=None,
            )
            run.wake_at, run.last_seq, run.started_at = None, 6, now
            if closed:
                run.status, run.closed_at = "completed", now + 1000
            else:
                run.status = "running"
                timers.append((run_id, 1, now + A_YEAR_US + number * 1_000_000, None))
            instances.append(tuple(vars(new_instance(run)).values()))
            runs.append(tuple(vars(run).values()))
            if len(runs) == CHUNK:
                insert(connection, kinds)
        insert(connection, kinds)
        _settle(connection)


def fill_waiting(
    url: str,
    count: int,
    *,
    queue: str | None,
    partition: Callable[[int], str | None] = lambda number: None,
    workflow: str = WORKFLOW_TYPE,
    input: Callable[[int], object] = argument,
    copies: int = 0,
    name: str = "waiting",
) -> None:
    """Add runs that wait for a worker, each with its first event, in the line of a queue or past all queues.

    Args:
        url: The database.
        count: How many runs.
        queue: The queue; ``None`` for runs that any worker may claim.
        partition: The partition of each, by its number.
        workflow: Their type.
        input: The argument of each, by its number.
        copies: How many copies of each stand behind all of them, without histories: so a line gets long in little time.
        name: What their workflow ids begin with.
    """
    environment = Environment()
    instances: list[Values] = []
    runs: list[Values] = []
    events: list[Values] = []
    kinds = [
        (tables.workflow_instances, instances),
        (tables.workflow_runs, runs),
        (tables.history_events, events),
    ]
    first = environment.clock.now() - count
    with opened(url) as connection:
        for number in range(count):
            now = first + number
            run = first_run(
                run_id=environment.ids.next(),
                workflow_id=f"{name}-{number}",
                workflow_type=workflow,
                task_queue="default",
                options=StartOptions(queue=queue, partition_key=partition(number)),
                memo=None,
                now=now,
                owner_id=None,
            )
            if queue is not None:
                enter_queue(run, now)
            begun = started_event(run, input=Payload.of([input(number)]), seed=1)
            events += [(*row[:-1], row[-1].decode()) for row in Recorder(run).record(begun)]
            instances.append(tuple(vars(new_instance(run)).values()))
            runs.append(tuple(vars(run).values()))
            if len(runs) == CHUNK:
                insert(connection, kinds)
        insert(connection, kinds)
        if copies:
            _copy_runs(connection, copies)
        _settle(connection)


def copy_closed(url: str, times: int) -> None:
    """Add copies of all workflows, which have ended, with their histories: a year older, and first in every order."""
    run_id = "'00' || substr(CAST(1000000 + number AS text), 2) || substr(run_id, 9)"
    workflow_id = "'copy-' || CAST(number AS text) || '-' || workflow_id"
    changed = {
        "run_id": run_id,
        "first_run_id": run_id,
        "current_run_id": run_id.replace("run_id", "current_run_id"),
        "workflow_id": workflow_id,
        "created_at": f"created_at - {A_YEAR_US}",
        "closed_at": f"closed_at - {A_YEAR_US}",
    }
    copied = (tables.workflow_instances, tables.workflow_runs, tables.history_events)
    with opened(url) as connection:
        for table, first in itertools.product(copied, range(1, times + 1, COPIES_AT_ONCE)):
            names = columns_of(table)
            # By an index, so that the originals are found as fast behind millions of copies.
            originals = "run_id > '01'" if "run_id" in names else "workflow_id < 'copy-'"
            last = min(first + COPIES_AT_ONCE - 1, times)
            connection.exec_driver_sql(
                f"INSERT INTO {table.name} ({', '.join(names)}) WITH RECURSIVE numbers (number) AS "
                f"(SELECT {first} UNION ALL SELECT number + 1 FROM numbers WHERE number < {last}) "
                f"SELECT {', '.join(changed.get(name, name) for name in names)} FROM numbers "
                f"CROSS JOIN {table.name} WHERE {originals}"
            )
        _settle(connection)


def _copy_runs(connection: Connection, times: int) -> None:
    """Insert copies of all runs, which joined their line after them."""
    number = "CAST(number AS text)"
    changed = {
        "run_id": f"{number} || '-' || run_id",
        "workflow_id": f"'copy-' || {number} || '-' || workflow_id",
        "queued_at": "queued_at + number * 1000000",
    }
    names = columns_of(tables.workflow_runs)
    # No statement may take longer than PostgreSQL is told to let one.
    for first in range(1, times + 1, COPIES_AT_ONCE):
        last = min(first + COPIES_AT_ONCE - 1, times)
        connection.exec_driver_sql(
            f"INSERT INTO workflow_runs ({', '.join(names)}) WITH RECURSIVE numbers (number) AS "
            f"(SELECT {first} UNION ALL SELECT number + 1 FROM numbers WHERE number < {last}) "
            f"SELECT {', '.join(changed.get(name, name) for name in names)} FROM numbers "
            "CROSS JOIN workflow_runs WHERE substr(workflow_id, 1, 5) <> 'copy-'"
        )


def _settle(connection: Connection) -> None:
    """Do now what the database would do in the background during the measurement."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql("CHECKPOINT")
    else:
        connection.exec_driver_sql("ANALYZE")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
