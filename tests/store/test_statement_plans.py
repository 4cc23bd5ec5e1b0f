"""Statements that name some rows by their keys look them up. None reads a whole table, however many rows it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from benchmarks.harness.databases import migrate, opened
from sqlalchemy import Connection, Table
from tests.engine.run_rows import NOW, insert_runs, run_row
from tests.statements import asked_of

from outlast.runtime.request_waits import MOST_KEYS
from outlast.runtime.stream_waits import MOST_ASKED
from outlast_store.alerts.arming import KEY as ALERT_TIMER
from outlast_store.database.database import Database
from outlast_store.database.statements import CHUNK_SIZES, SqliteStatements
from outlast_store.database.urls import DatabaseUrl
from outlast_store.reads.export_format import SECTIONS, export_run
from outlast_store.reads.requests import find_answered, find_deleted
from outlast_store.reads.streams import find_versions
from outlast_store.reads.workers import poll_work
from outlast_store.schema import tables
from outlast_workflow.environment import Environment

KEYS: list[tuple[Table, tuple[str, ...]]] = [
    (tables.workflow_instances, ("workflow_id",)),
    (tables.workflow_runs, ("run_id",)),
    (tables.activity_executions, ("run_id", "activity_id")),
    (tables.timers, ("run_id", "timer_id")),
    (tables.alert_timers, ALERT_TIMER),
    (tables.streams, ("first_run_id", "name")),
    (tables.workflow_requests, ("first_run_id", "kind", "request_id")),
]


class Explained:
    """A connection that explains statements instead of running them, and fails where a table would be scanned."""

    def __init__(self, connection: Connection) -> None:
        self.dialect = connection.dialect
        self._connection = connection
        self.plans = 0

    def exec_driver_sql(self, text: str, values: tuple[Any, ...] = ()) -> Any:
        plan = [str(row[3]) for row in self._connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
        assert not [step for step in plan if re.match(r"SCAN [a-z]{2}", step)], (text[:200], plan)
        self.plans += 1
        return self._connection.exec_driver_sql(text, values)


def rows(keys: Sequence[str], count: int) -> list[tuple[str | int, ...]]:
    return [tuple(number if key.endswith("_id") else f"k{number}" for key in keys) for number in range(count)]


@pytest.fixture(params=[False, True], ids=["new", "analysed"])
def explained(sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[Explained]:
    migrate(sqlite_url)
    with opened(sqlite_url) as connection:
        if request.param:
            connection.exec_driver_sql("ANALYZE")
        yield Explained(connection)


@pytest.mark.parametrize(("table", "keys"), KEYS, ids=[table.name for table, _ in KEYS])
def test_rows_are_found_by_their_keys(explained: Explained, table: Table, keys: tuple[str, ...]) -> None:
    statements = SqliteStatements()
    for count in CHUNK_SIZES:
        statements.delete(explained, table, keys, rows(keys, count))
        assert not statements.read(explained, table, keys, rows(keys, count))
        assert not statements.lock(explained, table, keys, rows(keys, count))
    assert explained.plans == 3 * len(CHUNK_SIZES)


def test_requests_and_streams_are_found_by_their_keys(explained: Explained) -> None:
    connection = cast(Connection, explained)
    requests = [("chain", "update", f"key {number}") for number in range(MOST_KEYS)]
    streams = [("chain", f"stream {number}") for number in range(MOST_ASKED)]
    for few in (1, 2, MOST_KEYS):
        assert find_answered(connection, requests[:few]) == []
        assert find_deleted(connection, requests[:few]) == requests[:few]
        assert find_versions(connection, streams[:few]) == {}
    assert explained.plans == 9


def test_what_belongs_to_a_run_is_found_by_its_keys(sqlite_url: str) -> None:
    migrate(sqlite_url)
    database = Database(DatabaseUrl.parse(sqlite_url), Environment())
    writer = database.writer()
    run = run_row(1, created_at=NOW)
    insert_runs(writer, [run])
    with asked_of(database) as asked, database.reader() as connection:
        document = export_run(connection, run.run_id)
        assert document is not None
        selects = [one for one in asked if one[0].startswith("SELECT")]
    explained = Explained(writer)
    for text, values in selects:
        explained.exec_driver_sql(text, values)
    assert explained.plans == 1 + len(SECTIONS)
    writer.close()
    database.dispose()


@pytest.mark.parametrize("owners", [0, 1, 25])
def test_a_poll_does_not_read_all_that_is_open(sqlite_url: str, owners: int) -> None:
    """Neither as a scan nor as a Bloom filter, which SQLite fills from the whole index once it has statistics."""
    migrate(sqlite_url)
    with opened(sqlite_url) as connection:
        for number in range(owners):
            row = (f"worker-{number}", "host", 1, "[]", "{}", None, NOW, NOW, None)
            connection.exec_driver_sql(f"INSERT INTO workers VALUES ({', '.join('?' * len(row))})", row)
        names = [f"worker-{number % owners}" if owners else None for number in range(50)]
        runs = [run_row(number, created_at=NOW, owner_id=name) for number, name in enumerate(names)]
        insert_runs(connection, runs)
        connection.exec_driver_sql("ANALYZE")
    database = Database(DatabaseUrl.parse(sqlite_url), Environment())
    with asked_of(database) as asked, database.reader() as connection:
        poll_work(connection, "me", ["default"], ["order"], ["charge"], NOW, NOW - 1)
        polls = [one for one in asked if "neglected" in one[0]]
    with opened(sqlite_url) as connection:
        [(text, values)] = polls
        plan = [str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
    assert not [
        step for step in plan if re.match(r"BLOOM|SCAN (workflow_runs|activity_executions|r|a)\b", step)
    ], plan
    # For the worker's own runs, and for those of others.
    assert len([step for step in plan if "INDEX ix_runs_owned (owner_id=? AND wake_at<?)" in step]) == 2
    database.dispose()
