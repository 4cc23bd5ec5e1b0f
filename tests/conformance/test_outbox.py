"""Draining the outbox on each store: exactly once and in order, whoever drains beside it and whatever is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
from tests.conformance.changes import busy, lost_after, lost_before
from tests.conformance.test_journal import Faults

from outlast_runs import outbox
from outlast_runs.outbox import ApplyOutbox
from outlast_store.database.database import Database
from outlast_store.database.sql_text import execute, fetch
from outlast_store.journal.journal import Journal
from outlast_store.reads.outbox import read_load, read_page
from outlast_store.schema.rows import OutboxRow
from outlast_watchdog.event_log import EventLog
from outlast_watchdog.outbox import Drained, drain

ROW = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options) VALUES (?, ?, ?, ?, ?)"


class Watched:
    """A process that drains: a journal and reads of its own."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self.database = database
        self.journal = journal
        self.environment = database.environment
        self.outbox_rung: list[Callable[[], None]] = []

    async def read(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a read at once."""
        with self.database.reader() as connection:
            return query(connection, *args, **kwargs)

    async def drain(self, most: int | None = None) -> Drained:
        """Apply what waits."""
        return await drain(self, EventLog(), most=most)


@pytest.fixture
def one(database: Database, journal: Journal) -> Watched:
    return Watched(database, journal)


@pytest.fixture
async def other(database: Database, on_disk: Database) -> AsyncIterator[Watched]:
    """Another process on the same database."""
    journal = Journal(database, database.environment)
    journal.committer.connect()
    yield Watched(database, journal)
    await journal.close()


def write(database: Database, *rows: tuple[str, str, str | None, Any, dict[str, Any]]) -> None:
    """Commit rows as a transaction of somebody else does."""
    with database.writer() as connection:
        connection.exec_driver_sql("BEGIN")
        for kind, workflow_id, name, args, options in rows:
            text = None if args is None else orjson.dumps(args).decode()
            execute(connection, ROW, (kind, workflow_id, name, text, orjson.dumps(options).decode()))
        connection.exec_driver_sql("COMMIT")


def start(workflow_id: str, **options: Any) -> tuple[str, str, str | None, Any, dict[str, Any]]:
    return ("start", workflow_id, "Tried", [], options)


def signal(workflow_id: str, number: int) -> tuple[str, str, str | None, Any, dict[str, Any]]:
    return ("signal", workflow_id, "take", [number], {})


def signals(database: Database) -> dict[str, list[int]]:
    """The signals of each workflow, in the order of their histories."""
    text = (
        "SELECT r.workflow_id, e.payload FROM history_events e JOIN workflow_runs r ON r.run_id = e.run_id "
        "WHERE e.type = 'SignalReceived' ORDER BY r.workflow_id, e.seq"
    )
    found: dict[str, list[int]] = {}
    with database.reader() as connection:
        for workflow_id, payload in fetch(connection, text):
            found.setdefault(workflow_id, []).append(orjson.loads(payload)["input"][0])
    return found


def chains(database: Database) -> Counter[str]:
    """How many chains each workflow has."""
    with database.reader() as connection:
        return Counter(row[0] for row in fetch(connection, "SELECT workflow_id FROM workflow_runs"))


def left(database: Database) -> list[OutboxRow]:
    with database.reader() as connection:
        return read_page(connection, 0, 1000, None)


async def test_rows_are_applied_in_order_and_are_gone(database: Database, one: Watched) -> None:
    write(
        database,
        *[row for n in range(150) for row in (start(f"w-{n}"), signal(f"w-{n}", 1), signal(f"w-{n}", 2))],
    )
    drained = await one.drain(most=300)
    assert (drained.applied, drained.refused, drained.more) == (300, 0, True)
    drained = await one.drain()
    assert (drained.applied, drained.refused, drained.more) == (150, 0, False)
    assert chains(database) == Counter({f"w-{n}": 1 for n in range(150)})
    assert signals(database) == {f"w-{n}": [1, 2] for n in range(150)}
    with database.reader() as connection:
        assert read_load(connection) == (0, 0, None)


async def test_two_that_drain_at_once_apply_each_row_once(
    database: Database, one: Watched, other: Watched
) -> None:
    rng = random.Random(1)
    ids = [f"w-{n}" for n in range(20)]
    write(database, *[start(name) for name in ids])
    sent: dict[str, list[int]] = {}
    rounds = []
    for _ in range(5):
        rows = []
        for number in range(60):
            name = rng.choice(ids)
            sent.setdefault(name, []).append(len(sent.get(name, ())) + number)
            rows.append(signal(name, sent[name][-1]))
        write(database, *rows)
        rounds += [one.drain(), other.drain()]
    drained = await asyncio.gather(*rounds)
    assert sum(one.applied for one in drained) == 320
    assert sum(one.refused for one in drained) == 0
    assert chains(database) == Counter(ids)
    assert signals(database) == sent


CUT = [
    *[(place, fault) for place in ("DELETE FROM outlast_outbox", "INSERT INTO history_events", "COMMIT")
      for fault in (lost_before, busy)],
    ("COMMIT", lost_after),
]  # fmt: skip


@pytest.mark.parametrize(("place", "fault"), CUT, ids=[f"{place} {fault.__name__}" for place, fault in CUT])
async def test_a_drain_that_is_cut_is_whole_or_absent(
    database: Database, on_disk: Database, faults: Faults, one: Watched, fault: Any, place: str
) -> None:
    write(database, start("w"), signal("w", 1), start("v"))
    faults.append((place, fault))
    drained = await one.drain()
    assert not faults
    assert drained.applied == 3
    assert chains(database) == Counter(["w", "v"])
    assert signals(database) == {"w": [1]}
    assert left(database) == []


async def test_what_was_read_before_and_is_gone_is_not_applied(database: Database, one: Watched) -> None:
    write(database, start("w", duplicate_policy="terminate_existing"))
    rows = left(database)
    await one.drain()
    again = await one.journal.apply(ApplyOutbox(rows, (), one.environment))
    assert (again.applied, again.refused) == ([], [])
    assert chains(database) == Counter(["w"])


async def test_numbers_are_never_given_again(database: Database, one: Watched) -> None:
    """So what was read of a row that is gone never stands for another one."""
    write(database, start("w"))
    [before] = left(database)
    await one.drain()
    write(database, start("v"))
    assert left(database)[0].outbox_id > before.outbox_id


async def test_a_row_that_no_database_takes_is_refused_alone(
    database: Database, one: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page fails as a whole, then each row is applied by itself."""
    write(database, start("a"), start("bad"), start("c"))
    right = outbox._Start.apply

    def wrong(request: Any, batch: Any) -> None:
        right(request, batch)
        if request.change.run.workflow_id == "bad":
            raise ZeroDivisionError("a defect that nobody foresaw: 12345")

    monkeypatch.setattr(outbox._Start, "apply", wrong)
    drained = await one.drain()
    assert (drained.applied, drained.refused) == (2, 1)
    [row] = left(database)
    assert (row.workflow_id, row.state) == ("bad", "refused")
    assert row.reason is not None
    assert "12345" not in row.reason
    assert chains(database) == Counter(["a", "c"])


@pytest.mark.parametrize("planted", ["rows are not locked", "rows are not deleted"])
async def test_the_tests_see_a_drainer_that_is_wrong(
    database: Database, one: Watched, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drainer that trusts what it has read, or starts what it then leaves, starts twice."""
    if planted == "rows are not locked":
        monkeypatch.setattr(
            ApplyOutbox, "_lock", lambda self, batch: {row.outbox_id for row, _ in self.requests}
        )
        monkeypatch.setattr(ApplyOutbox, "_delete", staticmethod(lambda batch, numbers: None))
    else:
        monkeypatch.setattr(ApplyOutbox, "_delete", staticmethod(lambda batch, numbers: None))
    write(database, start("w", duplicate_policy="terminate_existing"))
    rows = left(database)
    await one.drain()
    await one.journal.apply(ApplyOutbox(rows, (), one.environment))
    assert chains(database)["w"] > 1


async def test_the_number_of_deleted_rows_is_looked_at(
    database: Database, one: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drainer that did not lock would find that a row is gone when it deletes it: nothing of it stays."""
    write(database, start("w", duplicate_policy="terminate_existing"))
    rows = left(database)
    await one.drain()
    monkeypatch.setattr(ApplyOutbox, "_lock", lambda self, batch: {row.outbox_id for row, _ in self.requests})
    with pytest.raises(Exception, match=r"AssertionError|row of the outbox"):
        await one.journal.apply(ApplyOutbox(rows, (), one.environment))
    assert chains(database) == Counter(["w"])
