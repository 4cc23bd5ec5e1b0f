"""What a worker reads of activities: right, and by key or by the heads of index ranges, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.store.activity_rows import activity_row

from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.reads.activities import find_attempted, next_activity_at, next_available, wanted
from outlast_store.schema import tables

MANY = 2000
NOW = 1_000_000


@pytest.fixture
def database(database_url: str, open_database: Callable[..., Database]) -> Database:
    made = open_database(database_url)
    ensure_schema(made, migrate=True)
    return made


def row(number: int, **given: Any) -> dict[str, Any]:
    return activity_row(f"run-{number}", **given)


def fill(database: Database, rows: list[dict[str, Any]]) -> None:
    with database.writer() as connection:
        for one in rows:
            connection.execute(tables.activity_executions.insert(), one)
        connection.exec_driver_sql("ANALYZE")


def plan(database: Database, text: str, values: tuple[Any, ...]) -> str:
    explain = "EXPLAIN QUERY PLAN" if database.backend == "sqlite" else "EXPLAIN"
    with database.reader() as connection:
        return "\n".join(str(line) for line in fetch(connection, f"{explain} SELECT {text}", values))


def test_the_next_activity_is_the_first_that_becomes_available(database: Database) -> None:
    random = Random(20)
    rows = [
        row(
            number,
            activity_type=random.choice(["charge", "ship"]),
            task_queue=random.choice(["default", "other"]),
            priority=random.randrange(10),
            status=random.choice(["pending", "running"]),
            available_at=random.randrange(1, 1000) * 10,
            next_deadline_at=random.choice([None, NOW, NOW + 1]),
        )
        for number in range(300)
    ]
    fill(database, rows)
    with database.reader() as connection:
        for queues in (["default"], ["default", "other"], ["nobody"]):
            for types in (["charge"], ["charge", "ship"], ["none"]):
                expected = min(
                    (
                        one["available_at"]
                        for one in rows
                        if one["status"] == "pending"
                        and one["task_queue"] in queues
                        and one["activity_type"] in types
                        and one["next_deadline_at"] != NOW
                    ),
                    default=None,
                )
                assert next_activity_at(connection, queues, types, NOW) == expected


def test_it_is_found_without_a_look_at_all_that_wait(database: Database) -> None:
    fill(database, [row(number) for number in range(MANY)])
    found = plan(database, *next_available(["default"], ["charge"], NOW))
    assert "ix_activities_claimable" in found, found
    assert "Seq Scan" not in found
    if database.backend == "sqlite":
        assert found.count("(task_queue=? AND activity_type=? AND priority=?)") == 1, found
        assert "SCAN activity_executions" not in found, found


def test_the_wanted_attempts_are_those_that_run_and_are_not_to_be_cancelled(database: Database) -> None:
    fill(
        database,
        [
            row(1, status="running", attempt=2),
            row(2, status="running", cancel_requested=True),
            row(3, status="pending", attempt=2),
            row(4, status="cancelled", closed_at=5),
        ],
    )
    keys = [("run-1", 3, 2), ("run-2", 3, 1), ("run-3", 3, 1), ("run-4", 3, 1), ("deleted", 3, 1)]

    def count(some: list[tuple[str, int, int]]) -> int:
        text, values = wanted(some)
        with database.reader() as connection:
            return int(fetch(connection, f"SELECT {text}", values)[0][0])

    assert [count([key]) for key in keys] == [1, 0, 0, 0, 0]
    assert count(keys) == 1
    assert count([("run-1", 3, 1)]) == 0, "another attempt of it runs"
    with database.reader() as connection:
        found = find_attempted(connection, keys)
    assert {key: (found[key].status, found[key].attempt) for key in found} == {
        keys[0]: ("running", 2),
        keys[1]: ("running", 1),
        keys[2]: ("pending", 2),
        keys[3]: ("cancelled", 1),
    }


def test_attempts_are_looked_up_by_key(database: Database) -> None:
    fill(database, [row(number, status="running", claimed_by="worker") for number in range(MANY)])
    found = plan(database, *wanted([(f"run-{number}", 3, 1) for number in range(5)]))
    if database.backend == "sqlite":
        assert "USING PRIMARY KEY (run_id=? AND activity_id=?)" in found, found
    else:
        assert "Seq Scan" not in found, found
