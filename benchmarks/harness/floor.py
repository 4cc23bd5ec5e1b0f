"""The floor: the same rows, written by plain SQL on the same kind of database, with the same durability.

*Floor*: a batch of workflows with one activity each in two transactions (start; result and end), compiled statements
run by ``executemany``. *Bare commits*: one step of a sequence of activities, one transaction each. No engine can write
these rows much faster through this driver, so Outlast's figures are shown as a share of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection, Dialect, Table, and_, bindparam
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite

from benchmarks.harness.databases import count_rows, count_where, opened
from benchmarks.harness.measuring import Timing, expect, timed
from benchmarks.harness.rows import (
    ACTIVITY_GUARD,
    ACTIVITY_UPDATE,
    RUN_GUARD,
    RUN_STEP,
    RUN_UPDATE,
    StepRows,
    Values,
    WorkflowRows,
    activity_row,
    new_run,
    step_rows,
    values,
    workflow_rows,
)
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow
from outlast_workflow.environment import Environment

LARGEST_BATCH = 100


class Plain:
    """Compiled statements and a driver's own connection."""

    def __init__(self, connection: Connection) -> None:
        self._sqlite = connection.dialect.name == "sqlite"
        dialect: Dialect = pysqlite.dialect() if self._sqlite else _format_dialect()
        self._begin = "BEGIN IMMEDIATE" if self._sqlite else "BEGIN"
        driver: Any = connection.connection.driver_connection
        self._cursor: Any = driver.cursor()
        self._journal_id = Environment().ids.next()
        self._commits = 0
        self.new_instance = _insert(tables.workflow_instances, dialect)
        self.new_run = _insert(tables.workflow_runs, dialect)
        self.new_activity = _insert(tables.activity_executions, dialect)
        self.new_event = _insert(tables.history_events, dialect)
        self.end_run = _update(tables.workflow_runs, RUN_UPDATE, RUN_GUARD, dialect)
        self.step_run = _update(tables.workflow_runs, RUN_STEP, RUN_GUARD, dialect)
        self.end_activity = _update(tables.activity_executions, ACTIVITY_UPDATE, ACTIVITY_GUARD, dialect)
        self._advance = _update(tables.journals, ("batch_no",), ("journal_id",), dialect)
        self.one(_insert(tables.journals, dialect), (self._journal_id, 0))

    def begin(self) -> None:
        """Begin a transaction."""
        self._cursor.execute(self._begin)

    def commit(self) -> None:
        """Update the journal's row, and commit."""
        self._commits += 1
        self._cursor.execute(self._advance, (self._commits, self._journal_id))
        self._cursor.execute("COMMIT")

    def one(self, text: str, row: Values) -> None:
        """Run a statement for one row."""
        self._cursor.execute(text, row)

    def many(self, text: str, rows: Sequence[Values]) -> None:
        """Run a statement for many rows."""
        self._cursor.executemany(text, rows)


def _format_dialect() -> Dialect:
    make: Any = psycopg.dialect
    dialect: Dialect = make(paramstyle="format")
    return dialect


def _insert(table: Table, dialect: Dialect) -> str:
    return str(table.insert().compile(dialect=dialect))


def _update(table: Table, columns: Sequence[str], guard: Sequence[str], dialect: Dialect) -> str:
    where = and_(*(table.c[name] == bindparam(f"was_{name}") for name in guard))
    statement = table.update().where(where).values({name: bindparam(f"new_{name}") for name in columns})
    compiled = statement.compile(dialect=dialect)
    ordered: Any = compiled.positiontup
    # SQLAlchemy sets columns in the table's order; the rows must have the statement's order.
    expect(
        "the order of an update's values",
        ordered,
        [*map("new_{}".format, columns), *map("was_{}".format, guard)],
    )
    return str(compiled)


def floor(url: str, workflows: int, batch: int) -> Timing:
    """Write the rows of workflows with one activity each, ``batch`` of them in two transactions."""
    environment = Environment()
    worker_id = environment.ids.next()
    rows = [workflow_rows(environment, worker_id, index) for index in range(workflows)]
    with opened(url) as connection:
        plain = Plain(connection)
        with timed(workflows) as timing:
            for start in range(0, workflows, batch):
                write(plain, rows[start : start + batch])
    check(url, workflows)
    return timing


def write(plain: Plain, batch: Sequence[WorkflowRows]) -> None:
    """Write the rows of a batch in two transactions."""
    plain.begin()
    plain.many(plain.new_instance, [rows.instance for rows in batch])
    plain.many(plain.new_run, [rows.run for rows in batch])
    plain.many(plain.new_activity, [rows.activity for rows in batch])
    plain.many(plain.new_event, list(chain.from_iterable(rows.first_events for rows in batch)))
    plain.commit()
    plain.begin()
    plain.many(plain.end_run, [rows.run_update for rows in batch])
    plain.many(plain.end_activity, [rows.activity_update for rows in batch])
    plain.many(plain.new_event, list(chain.from_iterable(rows.last_events for rows in batch)))
    plain.commit()


def check(url: str, workflows: int) -> None:
    """Check that every workflow has its rows and has ended, for the floor as for Outlast."""
    wanted = {
        "workflow_instances": workflows,
        "workflow_runs": workflows,
        "history_events": 6 * workflows,
        "activity_executions": workflows,
    }
    expect("rows", count_rows(url), wanted)
    completed = "status = 'completed' AND closed_at IS NOT NULL"
    expect("completed runs", count_where(url, "workflow_runs", f"{completed} AND last_seq = 6"), workflows)
    expect("completed activities", count_where(url, "activity_executions", completed), workflows)


def bare_commits(url: str, steps: int, *, made: bool = True) -> Timing:
    """Write the steps of one sequence of activities, each in a transaction of its own.

    Args:
        url: The database.
        steps: How many.
        made: Whether their rows are made before the clock starts.
    """
    environment = Environment()
    run = new_run(environment, environment.ids.next())
    with opened(url) as connection:
        plain = Plain(connection)
        write_first_step(plain, run)
        rows: Iterable[StepRows] = islice(step_rows(environment, run), steps)
        if made:
            rows = list(rows)
        with timed(steps) as timing:
            for step in rows:
                plain.begin()
                write_step(plain, step)
                plain.commit()
    check_steps(url, steps)
    return timing


def write_first_step(plain: Plain, run: RunRow) -> None:
    """Write the rows of a run whose first activity runs."""
    plain.one(plain.new_run, values(run))
    plain.one(plain.new_activity, values(activity_row(run, 1)))


def write_step(plain: Plain, step: StepRows) -> None:
    """Write the rows of a step."""
    plain.one(plain.step_run, step.run_update)
    plain.one(plain.end_activity, step.activity_update)
    plain.one(plain.new_activity, step.activity)
    plain.many(plain.new_event, step.events)


def check_steps(url: str, steps: int) -> None:
    """Check that every step of the one sequence has its rows."""
    expect("events", count_rows(url)["history_events"], 3 * steps)
    expect("the run's last seq", count_where(url, "workflow_runs", f"last_seq = {3 * steps}"), 1)
    expect("ended steps", count_where(url, "activity_executions", "status = 'completed'"), steps)
