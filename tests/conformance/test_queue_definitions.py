"""The definitions of queues on each store: what each change does, against a model, and what races leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.engine.run_rows import insert_runs, run_row

from outlast import Queue, Rate
from outlast_store.database.database import Database
from outlast_store.journal.journal import Journal
from outlast_store.queues.definitions import (
    FORGET_AFTER_US,
    DefineQueue,
    DeleteQueue,
    PauseQueue,
    QueueChange,
    ResumeQueue,
    UpdateQueue,
    definition_of,
)
from outlast_store.reads.queues import find_queue, queue_load, queue_loads
from outlast_store.schema.rows import QueueRow
from outlast_workflow.errors import (
    InvalidOptionError,
    OutlastError,
    QueueExistsError,
    QueueInUseError,
    QueueNotFoundError,
)

NAMES = ("emails", "gpu")
NUMBERS = (None, 1, 2, 5)
RATES = (None, Rate(1, 1), Rate(5, 1), Rate(100, 60))
POLICIES: tuple[Any, ...] = ("error", "keep", "update")


# --- a model of what a sequence of changes does ----------------------------------------------------------------------


@dataclass
class Known:
    """A queue as the model has it."""

    queue: Queue
    paused: bool = False
    note: str | None = None


@dataclass
class Model:
    """What queues there are; it knows neither rows nor SQL."""

    queues: dict[str, Known] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def apply(self, change: QueueChange) -> type[OutlastError] | None:
        """Do what a change does, and return the error with which it must be refused."""
        known = self.queues.get(change.name)
        if isinstance(change, DefineQueue):
            if known is None:
                self.queues[change.name] = Known(change.queue)
            elif change.if_exists == "error":
                return QueueExistsError
            elif change.if_exists == "update":
                known.queue = change.queue
            return None
        if known is None:
            return QueueNotFoundError
        if isinstance(change, UpdateQueue):
            try:
                known.queue = known.queue.replace(**change.limits)
            except InvalidOptionError:
                return InvalidOptionError
        elif isinstance(change, PauseQueue):
            known.note = change.note if not known.paused or change.note is not None else known.note
            known.paused = True
        elif isinstance(change, ResumeQueue):
            known.paused, known.note = False, None
        elif self.held.get(change.name):
            return QueueInUseError
        else:
            del self.queues[change.name]
        return None


def a_change(chance: random.Random) -> QueueChange:
    """Return any change of either queue."""
    name = chance.choice(NAMES)
    limits: dict[str, Any] = {
        "concurrency": chance.choice(NUMBERS),
        "partition_concurrency": chance.choice(NUMBERS),
        "rate": chance.choice(RATES),
        "partition_rate": chance.choice(RATES),
    }
    kind = chance.randrange(6)
    if kind == 0:
        return DefineQueue(a_queue(name, limits), chance.choice(POLICIES))
    if kind == 1:
        return UpdateQueue(name, {key: limits[key] for key in chance.sample(sorted(limits), 2)})
    if kind == 2:
        return PauseQueue(name, chance.choice([None, "maintenance", "costs"]))
    return (ResumeQueue, DeleteQueue, DeleteQueue)[kind - 3](name)


def a_queue(name: str, limits: dict[str, Any]) -> Queue:
    """Return a definition with as many of the limits as do not contradict one another."""
    try:
        return Queue(name, **limits)
    except InvalidOptionError:
        return Queue(name, concurrency=limits["concurrency"], rate=limits["rate"])


class Holders:
    """Runs that wait in a queue, are delayed, or hold a slot: rows without a history, gone when the test ends."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers = iter(range(1, 10_000))

    def add(self, queue: str, kind: str) -> None:
        now = self._database.environment.clock.now()
        columns: dict[str, dict[str, Any]] = {
            "waiting": {"status": "queued", "queued_at": now},
            "delayed": {"status": "queued"},
            "running": {"status": "running", "slot_queue": queue},
        }
        number = next(self._numbers)
        row = run_row(number, created_at=now, queue=queue, partition_key="", **columns[kind])
        with self._database.writer() as connection:
            insert_runs(connection, [row])

    def clear(self, queue: str | None = None) -> None:
        with self._database.writer() as connection:
            where = "" if queue is None else f" WHERE queue = '{queue}'"
            connection.exec_driver_sql(f"DELETE FROM workflow_runs{where}")


@pytest.fixture
def holders(database: Database) -> Iterator[Holders]:
    made = Holders(database)
    yield made
    made.clear()


def stored(database: Database, name: str) -> QueueRow | None:
    with database.reader() as connection:
        return find_queue(connection, name)


async def outcome(journal: Journal, change: QueueChange) -> type[OutlastError] | None:
    try:
        await journal.apply(change)
    except OutlastError as error:
        return type(error)
    return None


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("seed", range(4))
async def test_any_sequence_of_changes_does_what_the_model_says(
    journal: Journal, database: Database, holders: Holders, seed: int
) -> None:
    chance, model = random.Random(seed), Model()
    met: set[type[OutlastError] | None] = set()
    for _ in range(150):
        if chance.random() < 0.1:
            queue = chance.choice(NAMES)
            if model.held.pop(queue, 0):
                holders.clear(queue)
            else:
                holders.add(queue, chance.choice(["waiting", "delayed", "running"]))
                model.held[queue] = 1
        change = a_change(chance)
        wanted = model.apply(change)
        met.add(wanted)
        assert await outcome(journal, change) is wanted
        for name in NAMES:
            row, known = stored(database, name), model.queues.get(name)
            assert (row is None) == (known is None)
            if row is not None and known is not None:
                assert definition_of(row) == known.queue
                assert ((row.paused_at is not None), row.note) == (known.paused, known.note)
    assert met >= {None, QueueExistsError, QueueNotFoundError, QueueInUseError, InvalidOptionError}


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def journals(journal: Journal, database: Database) -> AsyncIterator[tuple[Journal, Journal]]:
    """Two processes' ways to write."""
    second = Journal(database, database.environment)
    yield journal, second
    await second.close()


@pytest.mark.usefixtures("on_disk")
async def test_of_all_who_define_a_queue_at_once_one_does(
    journals: tuple[Journal, Journal], database: Database
) -> None:
    for number in range(10):
        name = f"q{number}"
        changes = [DefineQueue(Queue(name, concurrency=size), "error") for size in range(1, 9)]
        found = await asyncio.gather(
            *(outcome(journals[place % 2], change) for place, change in enumerate(changes))
        )
        assert sorted(found, key=str) == sorted([None, *[QueueExistsError] * 7], key=str)
        row = stored(database, name)
        assert row is not None
        assert row.concurrency == found.index(None) + 1


@pytest.mark.usefixtures("on_disk")
async def test_updates_of_different_limits_at_once_are_all_kept(
    journals: tuple[Journal, Journal], database: Database
) -> None:
    await journals[0].apply(DefineQueue(Queue("emails"), "error"))
    limits: list[dict[str, Any]] = [
        {"concurrency": 9},
        {"worker_concurrency": 8},
        {"rate": Rate(7, 1)},
        {"partition_concurrency": 6},
        {"partition_worker_concurrency": 5},
        {"partition_rate": Rate(4, 1)},
    ]
    await asyncio.gather(
        *(journals[place % 2].apply(UpdateQueue("emails", one)) for place, one in enumerate(limits))
    )
    row = stored(database, "emails")
    assert row is not None
    assert definition_of(row).limits == {name: value for one in limits for name, value in one.items()}


@pytest.mark.usefixtures("on_disk")
async def test_of_two_updates_that_contradict_each_other_one_is_refused(
    journals: tuple[Journal, Journal],
) -> None:
    for number in range(25):
        name = f"q{number}"
        await journals[0].apply(DefineQueue(Queue(name, concurrency=5), "error"))
        changes = UpdateQueue(name, {"concurrency": 3}), UpdateQueue(name, {"partition_concurrency": 4})
        found = await asyncio.gather(*map(outcome, journals, changes))
        assert sorted(found, key=str) == sorted([None, InvalidOptionError], key=str)


@pytest.mark.usefixtures("on_disk")
async def test_changes_of_one_batch_see_one_another(journal: Journal, database: Database) -> None:
    """All are handed over before the first is written, so they share a commit."""
    found = await asyncio.gather(
        *(
            outcome(journal, change)
            for change in (
                UpdateQueue("emails", {"concurrency": 3}),
                DefineQueue(Queue("emails", concurrency=5), "error"),
                DefineQueue(Queue("emails"), "error"),
                UpdateQueue("emails", {"partition_concurrency": 6}),
                UpdateQueue("emails", {"partition_concurrency": 5}),
                DeleteQueue("emails"),
                PauseQueue("emails", None),
                DefineQueue(Queue("emails", worker_concurrency=2), "keep"),
            )
        )
    )
    assert found == [
        QueueNotFoundError,
        None,
        QueueExistsError,
        InvalidOptionError,
        None,
        None,
        QueueNotFoundError,
        None,
    ]
    row = stored(database, "emails")
    assert row is not None
    assert definition_of(row) == Queue("emails", worker_concurrency=2)


# --- deletion ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["waiting", "delayed", "running"])
@pytest.mark.usefixtures("on_disk")
async def test_a_queue_in_use_says_what_uses_it(
    journal: Journal, database: Database, holders: Holders, kind: str
) -> None:
    await journal.apply(DefineQueue(Queue("emails"), "error"))
    for _ in range(2):
        holders.add("emails", kind)
    with pytest.raises(QueueInUseError) as refusal:
        await journal.apply(DeleteQueue("emails"))
    assert (refusal.value.waiting, refusal.value.running) == ((0, 2) if kind == "running" else (2, 0))
    assert stored(database, "emails") is not None
    with database.reader() as connection:
        load = queue_load(connection, 0, "emails")
    assert load is not None
    assert {"waiting": load.waiting, "delayed": load.delayed, "running": load.running} == {
        "waiting": 0,
        "delayed": 0,
        "running": 0,
        kind: 2,
    }


@pytest.mark.usefixtures("on_disk")
async def test_a_deleted_queue_is_gone_at_once_and_its_row_a_minute_later(
    journal: Journal, database: Database
) -> None:
    await journal.apply(DefineQueue(Queue("emails", rate=Rate(3, 1)), "error"))
    await journal.apply(DefineQueue(Queue("gpu"), "error"))
    _change(database, "UPDATE queues SET rate_log = '[[7,3]]', \"cursor\" = 'p' WHERE queue = 'emails'")
    _change(database, "INSERT INTO queue_partitions VALUES ('emails', 'p', '[[7,1]]', 8)")
    await journal.apply(DeleteQueue("emails"))
    assert stored(database, "emails") is None
    assert _rows(database, "SELECT queue FROM queues ORDER BY queue") == [("emails",), ("gpu",)]
    logs = "SELECT rate_log FROM queue_partitions"
    assert _rows(database, logs) == [("[[7,1]]",)]
    await journal.apply(DefineQueue(Queue("emails", rate=Rate(3, 1)), "error"))
    # No window of its rates may exceed the limit, so it remembers what it has admitted.
    assert _rows(database, logs) == [("[[7,1]]",)]
    again = stored(database, "emails")
    assert again is not None
    assert (again.rate_log, again.paused_at, again.deleted_at) == ("[[7,3]]", None, None)
    await journal.apply(DeleteQueue("emails"))
    _change(database, f"UPDATE queues SET deleted_at = deleted_at - {FORGET_AFTER_US} WHERE queue = 'emails'")
    await journal.apply(DeleteQueue("gpu"))
    assert _rows(database, "SELECT queue FROM queues") == [("gpu",)]
    assert _rows(database, logs) == []


def _change(database: Database, text: str) -> None:
    with database.writer() as connection:
        connection.exec_driver_sql(text)


def _rows(database: Database, text: str) -> list[tuple[Any, ...]]:
    with database.reader() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(text)]


@pytest.mark.usefixtures("on_disk")
async def test_the_load_of_a_queue_is_counted_by_partition_and_by_age(
    journal: Journal, database: Database
) -> None:
    await journal.apply(DefineQueue(Queue("emails"), "error"))
    rows = [
        run_row(
            number,
            created_at=queued_at,
            queue="emails",
            partition_key=partition,
            status="queued",
            priority=priority,
            queued_at=queued_at,
        )
        for number, (partition, priority, queued_at) in enumerate(
            [("", 5, 900), ("a", 9, 400), ("a", 0, 800), ("a", 0, 700), ("é", 5, 500), ("b b", 3, 600)], 1
        )
    ]
    with database.writer() as connection:
        insert_runs(connection, rows)
    with database.reader() as connection:
        load = queue_loads(connection, 1_000)[0]
    _change(database, "DELETE FROM workflow_runs")
    assert (load.waiting, load.partitions, load.oldest_waiting_at) == (6, 3, 400)
