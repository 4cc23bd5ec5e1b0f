"""However much waits, what workers, pages, gauges and watchdogs ask again and again looks at no more of it.

What a statement looks at is counted: on SQLite the steps of its virtual machine, on PostgreSQL the rows of its scans.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.engine.run_rows import NOW, SECOND, insert_runs, run_id_at, run_row
from tests.statements import asked_of

from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database
from outlast_store.database.sql_text import Values, fetch
from outlast_store.reads import attention, due, queues, run_listing, task_queues
from outlast_store.reads.activities import find_claimable, next_activity_at
from outlast_store.reads.description import describe_run, list_worker_loads
from outlast_store.reads.run_listing import RunFilter
from outlast_store.reads.serving import Polled
from outlast_store.reads.workers import list_workers, next_claimable_at, poll_work
from outlast_store.schema import tables
from outlast_store.transitions import run_owners
from outlast_store.upcoming.outlook import outlook

FEW, MANY = 2_000, 20_000
CAP = 50
SINCE = NOW - 1000 * SECOND


@pytest.fixture
def database(database_url: str, open_database: Callable[..., Database]) -> Database:
    made = open_database(database_url)
    ensure_schema(made, migrate=True)
    return made


@pytest.fixture
def low_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that stop after thousands stop after fifty, so that the tests need few rows."""
    monkeypatch.setattr(task_queues, "MOST_COUNTED", CAP)
    monkeypatch.setattr(attention, "MOST_LOOKED_AT", CAP)
    monkeypatch.setattr(queues, "MOST_COUNTED", CAP)
    monkeypatch.setattr("outlast_store.upcoming.outlook.MOST_COUNTED", CAP)


def activity(number: int, **given: Any) -> dict[str, Any]:
    return {
        "run_id": run_id_at(SINCE, number // 1000),
        "activity_id": number % 1000 + 1,
        "activity_type": "charge",
        "task_queue": "default",
        "priority": number % 10,
        "scheduled_seq": 3,
        "status": "pending",
        "attempt": 1,
        "uncharged": 0,
        "rescues": 0,
        "scheduled_at": SINCE,
        "available_at": SINCE + number,
        "options": "{}",
        "cancel_requested": False,
        "local": False,
        **given,
    }


WORKER = {
    "worker_id": "w-1",
    "host": "h",
    "pid": 1,
    "task_queues": '["default"]',
    "types": '{"workflows":["Order"],"activities":["charge"]}',
    "started_at": SINCE,
    "lease_expires_at": NOW + 1000 * SECOND,
}


def in_line(number: int) -> dict[str, Any]:
    """Nearly all are in one line, as a tenant's import is."""
    return {"queue": "q", "partition_key": "t" if number > 20 else f"t-{number}", "priority": number % 2 * 5}


INSTANCE = {
    "workflow_id": "w-1000000",
    "workflow_type": "Order",
    "current_run_id": run_id_at(SINCE, 10**6),
    "run_count": 1,
    "created_at": SINCE,
}


def fill(database: Database, begin: int, end: int) -> None:
    """Add ready activities, a thousand to each run that a live worker owns, and as many ready runs without an owner."""
    with database.writer() as connection:
        if begin == 0:
            connection.execute(tables.workers.insert(), WORKER)
            connection.execute(tables.workflow_instances.insert(), INSTANCE)
        connection.execute(
            tables.activity_executions.insert(), [activity(number) for number in range(begin, end)]
        )
        insert_runs(
            connection,
            [
                run_row(number, created_at=SINCE, owner_id="w-1")
                for number in range(begin // 1000, end // 1000)
            ],
        )
        insert_runs(
            connection,
            [
                run_row(10**6 + number, created_at=SINCE, wake_at=SINCE + number)
                for number in range(begin, end)
            ],
        )
        if database.backend == "postgresql":
            connection.exec_driver_sql("ANALYZE")


def _steps(connection: Connection, text: str, values: Any) -> int:
    raw = connection.connection.dbapi_connection
    assert raw is not None
    steps = 0

    def note() -> int:
        nonlocal steps
        steps += 10
        return 0

    raw.set_progress_handler(note, 10)
    connection.exec_driver_sql(text, values).all()
    raw.set_progress_handler(None, 0)
    return steps


def _scanned(connection: Connection, text: str, values: Any) -> int:
    (plan,) = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).one()
    found = 0
    nodes = [one["Plan"] for one in (json.loads(plan) if isinstance(plan, str) else plan)]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", ())
        if "Scan" in node["Node Type"] and "Relation Name" in node:
            left_out = sum(
                node.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck")
            )
            found += int((node["Actual Rows"] + left_out) * node["Actual Loops"])
    return found


def work_of(database: Database, ask: Callable[[Connection], object]) -> int:
    """How much a read looks at."""
    with asked_of(database) as seen, database.reader() as connection:
        ask(connection)
        asked = [(text, values) for text, values in seen if text.lstrip().startswith(("SELECT", "WITH"))]
        measure = _steps if database.backend == "sqlite" else _scanned
        return sum(measure(connection, text, values) for text, values in asked)


def poll(connection: Connection) -> object:
    return poll_work(connection, "w-1", ["default"], ["Order"], ["charge"], NOW, NOW - 60 * SECOND)


READS: dict[str, Callable[[Connection], object]] = {
    "a worker's poll": poll,
    "the loads of task queues": lambda connection: task_queues.task_queue_loads(connection, NOW),
    "the loads of workers": list_worker_loads,
    "a page of runs": lambda connection: run_listing.page(connection, RunFilter(), NOW, after=None, limit=50),
    "a page of what needs attention": lambda connection: run_listing.page(
        connection, RunFilter(attention=True), NOW, after=None, limit=50
    ),
    "the count of what needs attention": lambda connection: run_listing.count(
        connection, RunFilter(attention=True), NOW
    ),
    "the loads of queues": lambda connection: queues.queue_loads(connection, NOW),
    "a description": lambda connection: describe_run(
        connection, "w-1000000", None, NOW, follow=False, failures=20
    ),
    "what lies ahead": lambda connection: outlook(connection, [NOW]),
    "the next deadlines": lambda connection: due.read_next_deadlines(connection, NOW),
}


@pytest.mark.usefixtures("low_caps")
def test_what_is_asked_again_and_again_costs_the_same_however_many_activities_wait(
    database: Database,
) -> None:
    fill(database, 0, FEW)
    before = {name: work_of(database, ask) for name, ask in READS.items()}
    fill(database, FEW, MANY)
    after = {name: work_of(database, ask) for name, ask in READS.items()}
    grown = {name: (before[name], after[name]) for name in READS if after[name] > 1.5 * before[name] + 200}
    assert not grown


# --- what a worker lacks --------------------------------------------------------------------------------------------

OWN = {"one type": ["Order"], "many types": ["Order", *(f"Other{number}" for number in range(30))]}
"""Of few types the ranges are read by name, of many those are found first that hold anything."""


def lacking(types: list[str]) -> dict[str, Callable[[Connection], object]]:
    """What a worker asks of its task queue that has workflows and activities of these types."""

    def scan(connection: Connection) -> Any:
        def run(text: str, values: Values) -> list[Values]:
            return fetch(connection, text, values)

        return run

    def claim_runs(connection: Connection) -> list[tuple[int, str]]:
        raw = SimpleNamespace(qmark=connection.dialect.name == "sqlite")
        batch: Any = SimpleNamespace(now=NOW, scan=scan(connection), raw=raw)
        return run_owners.scan_claimable_runs(batch, ["default"], types, 10)

    return {
        "a claim of runs": claim_runs,
        "a claim of activities": lambda connection: find_claimable(
            scan(connection), ["default"], types, NOW, 10
        ),
        "a poll": lambda connection: poll_work(connection, "w-1", ["default"], types, types, NOW, None),
        "the next activity": lambda connection: next_activity_at(connection, ["default"], types, NOW),
        "the next run": lambda connection: next_claimable_at(connection, ["default"], types),
    }


def fill_types(database: Database, begin: int, end: int, types: list[str], since: int) -> None:
    """Add ready runs without an owner and ready activities of some types in turns."""
    numbers = [(number, types[number % len(types)]) for number in range(begin, end)]
    with database.writer() as connection:
        insert_runs(
            connection,
            [
                run_row(number, created_at=SINCE, wake_at=since + number, workflow_type=type)
                for number, type in numbers
            ],
        )
        connection.execute(
            tables.activity_executions.insert(),
            [activity(number, activity_type=type, available_at=since + number) for number, type in numbers],
        )
        if database.backend == "postgresql":
            connection.exec_driver_sql("ANALYZE")


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("waits", ["own runs wait", "none waits"])
def test_what_a_worker_lacks_costs_it_nothing_however_much_of_it_stands_first(
    database: Database, own: str, waits: str
) -> None:
    asked = lacking(OWN[own])
    # Few of each foreign type are there from the beginning: each type costs a seek.
    fill_types(database, 0, 40, ["Foreign", "Pay", "Ship", "Zip"], 0)
    if waits == "own runs wait":
        fill_types(database, 10**6, 10**6 + 40, ["Order"], SINCE)
    before = {name: work_of(database, ask) for name, ask in asked.items()}
    fill_types(database, 40, MANY, ["Foreign", "Pay", "Ship", "Zip"], 0)
    after = {name: work_of(database, ask) for name, ask in asked.items()}
    assert not {name: (before[name], after[name]) for name in asked if after[name] > 1.1 * before[name] + 20}


def test_a_claim_costs_the_same_however_many_runs_of_its_types_wait(database: Database) -> None:
    types = ["Order", "Pay", "Ship"]
    asked = lacking(types)
    # Only a database in memory, which nobody polls, asks for it.
    del asked["the next run"]
    fill_types(database, 0, FEW, types, 0)
    before = {name: work_of(database, ask) for name, ask in asked.items()}
    fill_types(database, FEW, MANY, types, 0)
    after = {name: work_of(database, ask) for name, ask in asked.items()}
    assert not {name: (before[name], after[name]) for name in asked if after[name] > 1.1 * before[name] + 20}


@pytest.mark.usefixtures("low_caps")
def test_types_that_nobody_knows_are_found_behind_those_that_are_known(database: Database) -> None:
    fill_types(database, 0, MANY // 10, ["Order", "charge"], 0)
    fill_types(database, 10**6, 10**6 + 2, ["Lost", "Mislaid"], 1)
    with database.writer() as connection:
        connection.execute(
            tables.workers.insert(),
            {**WORKER, "types": '{"workflows":["Order","charge"],"activities":["Order","charge"]}'},
        )
    with database.reader() as connection:
        polled = Polled.of(list_workers(connection), NOW)
        found = attention.find_unserved(connection, NOW, polled)
    assert {run_id_at(SINCE, 10**6), run_id_at(SINCE, 10**6 + 1)} <= set(found)
