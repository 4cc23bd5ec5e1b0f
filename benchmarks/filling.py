"""Many rows at once, inserted directly: what a database holds after years of use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Table

from benchmarks.databases import opened
from outlast_store.database.sql_text import columns_of
from outlast_store.schema import tables
from outlast_store.transitions.new_runs import first_run, new_instance
from outlast_workflow.environment import Environment
from outlast_workflow.options.options import StartOptions

Values = tuple[Any, ...]
CHUNK = 5000
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


def _settle(connection: Connection) -> None:
    """Do now what the database would do in the background during the measurement."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql("CHECKPOINT")
    else:
        connection.exec_driver_sql("ANALYZE")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
