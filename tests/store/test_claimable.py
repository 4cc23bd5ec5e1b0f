"""What workers may claim is found exactly: all of their types, in order, whatever else waits in their task queues.

A claim is a function of the rows alone. So nothing starves: what a worker knows and what has waited longest is claimed
next, whoever came before it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.run_rows import insert_runs, run_row
from tests.store.activity_rows import activity_row

from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database
from outlast_store.database.sql_text import Values, fetch
from outlast_store.reads import activities, task_queues
from outlast_store.reads.workers import next_claimable_at, poll_work
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow
from outlast_store.transitions import run_owners

NOW = 1_000
QUEUES = ["a", "b", "c"]
TYPES = ["Bill", "Order", "Pay", "Ship", "order", "Über"]


@pytest.fixture
def database(database_url: str, open_database: Callable[..., Database]) -> Database:
    made = open_database(database_url)
    ensure_schema(made, migrate=True)
    return made


@pytest.fixture(params=["by name", "found first", "in many statements"])
def ranges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of the index are read by their names, or those are found first that hold anything."""
    most = 0 if request.param == "found first" else 10_000
    for module in (run_owners, activities):
        monkeypatch.setattr(module, "MOST_RANGES", most)
    if request.param == "in many statements":
        monkeypatch.setattr(task_queues, "_RANGES_AT_ONCE", 2)


def scan_of(database: Database) -> Callable[[str, Values], list[Values]]:
    def scan(text: str, values: Values) -> list[Values]:
        with database.reader() as connection:
            return fetch(connection, text, values)

    return scan


def worker(random: Random) -> tuple[list[str], list[str]]:
    """The task queues and the types of a worker; some of its types never wait, and some queues are nobody's."""
    queues = random.sample([*QUEUES, "nobody"], random.randint(1, 3))
    return queues, random.sample([*TYPES, "Aaa", "Never", "zzz"], random.randint(1, 6))


def many_runs(random: Random) -> list[RunRow]:
    """Runs of which many have the same instant."""
    return [
        run_row(
            number,
            created_at=0,
            task_queue=random.choice(QUEUES),
            workflow_type=random.choice(TYPES),
            wake_at=random.choice([None, *range(0, NOW + 200, 100)]),
            not_before=random.choice([0, 0, 0, NOW, NOW + 1]),
            owner_id=random.choice([None, None, None, "somebody"]),
            slot_queue=random.choice([None, None, None, "q"]),
        )
        for number in range(120)
    ]


@pytest.mark.usefixtures("ranges")
def test_claims_find_the_oldest_runs_of_known_types(database: Database) -> None:
    random = Random(16)
    rows = many_runs(random)
    with database.writer() as connection:
        insert_runs(connection, rows)
    raw = SimpleNamespace(qmark=database.backend == "sqlite")
    batch: Any = SimpleNamespace(now=NOW, scan=scan_of(database), raw=raw)
    for _ in range(40):
        queues, types = worker(random)
        free = [
            (row.wake_at, row.not_before, row.run_id)
            for row in rows
            if row.task_queue in queues
            and row.workflow_type in types
            and row.owner_id is None
            and row.slot_queue is None
            and row.wake_at is not None
        ]
        ready = sorted((at, run_id) for at, not_before, run_id in free if max(at, not_before) <= NOW)
        limit = random.choice([1, 3, 10, 200])
        found = run_owners.scan_claimable_runs(batch, queues, types, limit)
        assert [at for at, _ in found] == [at for at, _ in ready[:limit]]
        assert set(found) <= set(ready)
        assert len(set(found)) == len(found)
        with database.reader() as connection:
            work = poll_work(connection, "me", queues, types, [], NOW, None)
            assert work.claimable == bool(ready)
            at = next_claimable_at(connection, queues, types)
        assert at == min((max(at, not_before) for at, not_before, _ in free), default=None)


def many_activities(random: Random) -> list[dict[str, Any]]:
    return [
        activity_row(
            f"run-{random.randrange(10)}",
            activity_id=number,
            task_queue=random.choice(QUEUES),
            activity_type=random.choice(TYPES),
            priority=random.choice([0, 4, 5, 5, 9]),
            status=random.choice(["pending", "pending", "running"]),
            available_at=random.choice(range(0, NOW + 300, 100)),
            next_deadline_at=random.choice([None, NOW, NOW + 1]),
            queue=random.choice([None, None, "q"]),
        )
        for number in range(150)
    ]


@pytest.mark.usefixtures("ranges")
def test_claims_find_the_first_activities_of_known_types(database: Database) -> None:
    random = Random(16)
    rows = many_activities(random)
    with database.writer() as connection:
        connection.execute(tables.activity_executions.insert(), rows)
    for _ in range(40):
        queues, types = worker(random)
        waiting = [
            row
            for row in rows
            if row["task_queue"] in queues
            and row["activity_type"] in types
            and row["status"] == "pending"
            and row["queue"] is None
            and row["next_deadline_at"] != NOW
        ]
        expected = sorted(
            (row["priority"], row["available_at"], row["run_id"], row["activity_id"])
            for row in waiting
            if row["available_at"] <= NOW
        )
        limit = random.choice([1, 3, 10, 200])
        found = activities.find_claimable(scan_of(database), queues, types, NOW, limit)
        assert found == [key[2:] for key in expected[:limit]]
        with database.reader() as connection:
            at = activities.next_activity_at(connection, queues, types, NOW)
        assert at == min((row["available_at"] for row in waiting), default=None)
