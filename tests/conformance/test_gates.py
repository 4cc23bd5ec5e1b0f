"""Admission by the gate, on each store: limits are exact whatever comes between, and lines keep their order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.conformance.changes import start
from tests.queued import write_queue

from outlast.runtime.schema_check import ensure_schema
from outlast_runs.admission import SPARE_PARTITIONS, Admission, AdmitFromQueue, Taker
from outlast_runs.claims import ClaimRuns, ReleaseRuns, StealRuns
from outlast_runs.run_change import RequestCancellation, TerminateRun
from outlast_runs.start_delays.moves import MoveStart
from outlast_store.database.database import Database
from outlast_store.database.sql_text import columns_of
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.journal.journal import Journal
from outlast_store.journal.locked_rows import LockedRows
from outlast_store.queues import contents
from outlast_store.queues.lines import PAIRS
from outlast_store.reads.queues import queue_loads
from outlast_store.reads.runs import find_run
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow
from outlast_workflow.environment import Environment, SystemClock
from outlast_workflow.errors import QueueNotFoundError, WorkflowAlreadyBegunError
from outlast_workflow.options.options import StartOptions

TYPES = frozenset({"Tried"})


def admit(worker: str = "one", limit: int = 100, queue: str = "q", **more: Any) -> AdmitFromQueue:
    return AdmitFromQueue(queue, Taker(worker, ["default"], workflows=TYPES, runs=limit), **more)


async def enqueue(journal: Journal, workflow_id: str, partition: str | None = None, **options: Any) -> RunRow:
    """Start a workflow into the queue and return its row as it was written."""
    given = StartOptions(queue="q", partition_key=partition, **options)
    change = start(journal.committer._environment, workflow_id, options=given)
    await journal.apply(change)
    return change.run


async def end(journal: Journal, run: RunRow) -> None:
    await journal.apply(TerminateRun(run.workflow_id, run.run_id, "ended"))


def row_of(database: Database, run: RunRow) -> RunRow:
    with database.reader() as connection:
        found = find_run(connection, run.run_id)
    assert found is not None
    return found


def ids(admission: Admission) -> list[str]:
    return [run.workflow_id for run in admission.runs]


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_a_queue_admits_up_to_its_concurrency(journal: Journal, database: Database) -> None:
    await write_queue(journal, concurrency=3)
    for number in range(8):
        await enqueue(journal, f"w{number}")
    first = await journal.apply(admit())
    assert ids(first) == ["w0", "w1", "w2"]
    assert (await journal.apply(admit("two"))).runs == []
    await end(journal, first.runs[1])
    second = await journal.apply(admit("two"))
    assert ids(second) == ["w3"]
    row = row_of(database, second.runs[0])
    assert (row.status, row.owner_id, row.slot_queue, row.queued_at) == ("pending", "two", "q", None)


async def test_two_admissions_of_one_batch_count_each_other(journal: Journal) -> None:
    await write_queue(journal, concurrency=3, worker_concurrency=2)
    for number in range(8):
        await enqueue(journal, f"w{number}")
    found = await asyncio.gather(*[journal.apply(admit(worker)) for worker in ("one", "one", "two", "two")])
    assert [len(one.runs) for one in found] == [2, 0, 1, 0]
    assert len({run.run_id for one in found for run in one.runs}) == 3


async def test_a_slot_that_ends_in_the_same_batch_is_free(journal: Journal) -> None:
    await write_queue(journal, concurrency=1)
    await enqueue(journal, "w0")
    await enqueue(journal, "w1")
    (first,) = (await journal.apply(admit())).runs
    ended, admission = await asyncio.gather(
        journal.apply(TerminateRun(first.workflow_id, first.run_id, "ended")), journal.apply(admit())
    )
    assert ended is None
    assert ids(admission) == ["w1"]


async def test_a_head_that_leaves_the_line_in_the_same_batch_takes_no_turn(journal: Journal) -> None:
    await write_queue(journal)
    first = await enqueue(journal, "b0", "b")
    await enqueue(journal, "b1", "b")
    await enqueue(journal, "c0", "c")
    ended, admission = await asyncio.gather(
        journal.apply(TerminateRun(first.workflow_id, first.run_id, "ended")), journal.apply(admit(limit=1))
    )
    assert ended is None
    assert ids(admission) == ["b1"]


def delay(run: RunRow, seconds: int) -> MoveStart:
    return MoveStart(run.workflow_id, run.run_id, delay=seconds * 1_000_000, until=None)


async def test_a_start_that_is_moved_and_an_admission_exclude_each_other(
    journal: Journal, database: Database
) -> None:
    await write_queue(journal, concurrency=3)
    for number in range(3):
        await enqueue(journal, f"w{number}")
    runs = {run.workflow_id: run for run in (await journal.apply(admit(limit=1))).runs}
    with pytest.raises(WorkflowAlreadyBegunError):
        await journal.apply(delay(runs["w0"], 100))
    w3 = await enqueue(journal, "w3")
    # In one batch: who is moved first is not admitted, who is admitted first is not moved.
    moved, admission = await asyncio.gather(journal.apply(delay(w3, 100)), journal.apply(admit()))
    assert moved is None
    assert ids(admission) == ["w1", "w2"]
    row = row_of(database, w3)
    assert (row.queued_at, row.start_delayed, row.slot_queue) == (None, True, None)
    await journal.apply(delay(w3, 0))
    for run in admission.runs:
        await end(journal, run)
    late = await asyncio.gather(journal.apply(admit()), journal.apply(delay(w3, 100)), return_exceptions=True)
    assert isinstance(late[1], WorkflowAlreadyBegunError)
    assert row_of(database, w3).slot_queue == "q"


async def test_a_start_that_is_moved_and_ended_in_one_batch_leaves_no_timer(journal: Journal) -> None:
    await write_queue(journal)
    run = await enqueue(journal, "w", start_delay=50)
    await asyncio.gather(
        journal.apply(delay(run, 100)),
        journal.apply(delay(run, 200)),
        journal.apply(TerminateRun(run.workflow_id, run.run_id, "ended")),
    )


async def test_a_lowered_limit_ends_nothing_and_admits_nothing(journal: Journal) -> None:
    await write_queue(journal, concurrency=4)
    for number in range(6):
        await enqueue(journal, f"w{number}")
    runs = (await journal.apply(admit())).runs
    assert len(runs) == 4
    await write_queue(journal, concurrency=2)
    for run in runs[:2]:
        await end(journal, run)
        assert (await journal.apply(admit())).runs == []
    await end(journal, runs[2])
    assert len((await journal.apply(admit())).runs) == 1


async def test_partitions_have_limits_of_their_own(journal: Journal) -> None:
    await write_queue(journal, concurrency=10, partition_concurrency=2, partition_worker_concurrency=1)
    for number in range(4):
        for partition in "abc":
            await enqueue(journal, f"{partition}{number}", partition)
    one = await journal.apply(admit("one"))
    assert ids(one) == ["a0", "b0", "c0"]
    two = await journal.apply(admit("two"))
    assert ids(two) == ["a1", "b1", "c1"]
    assert (await journal.apply(admit("three"))).runs == []


async def test_a_paused_queue_admits_nothing(journal: Journal) -> None:
    await write_queue(journal, paused_at=1)
    await enqueue(journal, "w")
    assert (await journal.apply(admit())).runs == []
    await write_queue(journal)
    assert ids(await journal.apply(admit())) == ["w"]


async def test_a_worker_takes_no_more_than_it_has_room_for(journal: Journal) -> None:
    await write_queue(journal)
    for number in range(5):
        await enqueue(journal, f"w{number}")
    first = await journal.apply(admit(limit=3))
    assert len(first.runs) == 3
    assert first.more
    second = await journal.apply(admit(limit=3))
    assert len(second.runs) == 2
    assert not second.more


# --- rates ----------------------------------------------------------------------------------------------------------


async def test_a_rate_says_when_it_allows_the_next(journal: Journal) -> None:
    await write_queue(journal, rate_limit=2, rate_per=3_600_000_000)
    for number in range(5):
        await enqueue(journal, f"w{number}")
    before = journal.committer._environment.clock.now()
    first = await journal.apply(admit())
    assert len(first.runs) == 2
    second = await journal.apply(admit("two"))
    assert second.runs == []
    assert second.next_at is not None
    assert before + 3_600_000_000 < second.next_at < before + 3_800_000_000
    # Ends of runs give nothing back.
    await end(journal, first.runs[0])
    assert (await journal.apply(admit())).runs == []


async def test_each_partition_has_a_rate_of_its_own(journal: Journal) -> None:
    await write_queue(journal, partition_rate_limit=1, partition_rate_per=3_600_000_000)
    for number in range(3):
        await enqueue(journal, f"a{number}", "a")
        await enqueue(journal, f"b{number}", "b")
    assert ids(await journal.apply(admit())) == ["a0", "b0"]
    again = await journal.apply(admit())
    assert again.runs == []
    assert again.next_at is not None


class SetClock(SystemClock):
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 1_800_000_000_000_000

    def now(self) -> int:
        return self.at


@pytest.fixture
def set_clock(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """The clock of the journal."""
    clock = SetClock()
    monkeypatch.setattr(journal.committer._environment, "clock", clock)
    return clock


@pytest.mark.parametrize("kind", ["rate", "partition_rate"])
async def test_a_clock_that_is_set_back_holds_up_a_rate_for_one_period(
    journal: Journal, set_clock: SetClock, kind: str
) -> None:
    await write_queue(journal, **{f"{kind}_limit": 2, f"{kind}_per": 10_000_000})
    for number in range(4):
        await enqueue(journal, f"w{number}", "p")
    assert ids(await journal.apply(admit())) == ["w0", "w1"]
    set_clock.at -= 3_600_000_000
    held_up = await journal.apply(admit())
    assert held_up.runs == []
    assert held_up.next_at == set_clock.at + 10_050_000
    set_clock.at += 10_050_000
    assert ids(await journal.apply(admit())) == ["w2", "w3"]


async def test_a_run_in_line_is_told_after_the_clock_was_set_back(
    journal: Journal, database: Database, set_clock: SetClock
) -> None:
    await write_queue(journal)
    await enqueue(journal, "w", "p")
    set_clock.at -= 3_600_000_000
    with database.reader() as connection:
        [load] = queue_loads(connection, set_clock.at)
    assert (load.waiting, load.partitions) == (1, 1)


@pytest.mark.parametrize("kind", ["rate", "partition_rate"])
async def test_a_line_that_always_waits_uses_the_budget_and_no_window_has_more(
    journal: Journal, set_clock: SetClock, kind: str
) -> None:
    limit, per, periods = 20, 1_000_003, 20
    await write_queue(journal, **{f"{kind}_limit": limit, f"{kind}_per": per})
    await asyncio.gather(*[enqueue(journal, f"w{number}") for number in range(limit * (periods + 1))])
    rng = random.Random(1)
    begin, admitted = set_clock.at, list[int]()
    while set_clock.at < begin + periods * per:
        admission = await journal.apply(admit(rng.choice(("one", "two")), rng.choice((1, 3, 7, 100))))
        admitted += [set_clock.at] * len(admission.runs)
        if admission.next_at is not None:
            set_clock.at = admission.next_at
        else:
            set_clock.at += rng.choice((0, 1, 700, 9_000))
    assert all(later - first > per for first, later in zip(admitted, admitted[limit:], strict=False))
    # The first period's budget is there at once, so the others are what must be used.
    assert len(admitted) >= 0.99 * limit * (periods - 1)


# --- order ----------------------------------------------------------------------------------------------------------


async def test_priority_orders_a_partition_and_partitions_take_turns(journal: Journal) -> None:
    await write_queue(journal)
    for number in range(3):
        await enqueue(journal, f"a-late{number}", "a", priority=9)
    for number in range(2):
        await enqueue(journal, f"a-soon{number}", "a", priority=0)
    await enqueue(journal, "b0", "b", priority=9)
    await enqueue(journal, "none0")
    order: list[str] = []
    for _ in range(7):
        order += ids(await journal.apply(admit(limit=1)))
    assert order == ["none0", "a-soon0", "b0", "a-soon1", "a-late0", "a-late1", "a-late2"]


class PassDeadline(BaseChange):
    """Let the deadline of a run in line pass."""

    def __init__(self, run: RunRow) -> None:
        self.run_id = run.run_id

    def apply(self, batch: Batch) -> None:
        text = "UPDATE workflow_runs SET start_deadline_at = 1, next_deadline_at = 1 WHERE run_id = ?"
        batch.execute(text, (self.run_id,))


async def test_runs_past_their_deadline_keep_nobody_waiting(journal: Journal) -> None:
    """Only the watchdog ends them, which may be some time later."""
    await write_queue(journal, concurrency=2)
    for number in range(3):
        late = await enqueue(journal, f"late{number}", priority=number, schedule_to_start_timeout=60)
        await journal.apply(PassDeadline(late))
    await enqueue(journal, "w0")
    await enqueue(journal, "w1")
    assert ids(await journal.apply(admit())) == ["w0", "w1"]


async def test_a_priority_waits_for_all_of_a_higher_one(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a part of each line is read."""
    monkeypatch.setattr("outlast_runs.admission.EVEN_SHARES", 1)
    await write_queue(journal)
    for number in range(3):
        await enqueue(journal, f"late{number}", priority=9)
    for number in range(6):
        await enqueue(journal, f"soon{number}", priority=0)
    first = await journal.apply(admit(limit=4))
    assert ids(first) == ["soon0", "soon1"]
    assert first.more
    order: list[str] = []
    while more := ids(await journal.apply(admit(limit=4))):
        order += more
    assert order == ["soon2", "soon3", "soon4", "soon5", "late0", "late1", "late2"]


async def test_a_small_tenant_is_served_before_a_large_one_is_done(journal: Journal) -> None:
    await write_queue(journal)
    for number in range(60):
        await enqueue(journal, f"a{number}", "a", priority=0)
    for number in range(10):
        await enqueue(journal, f"b{number}", "b", priority=9)
    served = Counter(name[0] for name in ids(await journal.apply(admit(limit=20))))
    assert served == {"a": 10, "b": 10}


async def test_ten_of_one_tenant_behind_a_hundred_thousand_of_another_are_among_the_next_twenty(
    database: Database, invariants: list[str]
) -> None:
    journal = Journal(database, database.environment)
    journal.committer.connect()
    await write_queue(journal)
    first = await enqueue(journal, "a", "a", priority=0)
    with database.writer() as connection:
        copy_run(connection, first, 99_999)
    for number in range(10):
        await enqueue(journal, f"b{number}", "b", priority=9)
    served = Counter(name[0] for name in ids(await journal.apply(admit(limit=20))))
    assert served == {"a": 10, "b": 10}
    await journal.close()
    with database.writer() as connection:
        # The copies have no history, so the invariants would be broken for each.
        connection.exec_driver_sql("DELETE FROM history_events")
        connection.exec_driver_sql("DELETE FROM workflow_runs")
    invariants.clear()


def copy_run(connection: Connection, run: RunRow, count: int) -> None:
    """Insert copies of a run's row: other runs, which stand in the same line behind it."""
    text = "CAST(number AS text)" if connection.dialect.name == "postgresql" else "number"
    changed = {"run_id": f"run_id || {text}", "workflow_id": f"workflow_id || {text}"}
    columns = columns_of(tables.workflow_runs)
    connection.exec_driver_sql(
        "INSERT INTO workflow_runs WITH RECURSIVE numbers (number) AS "
        f"(SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {count}) "
        f"SELECT {', '.join(changed.get(name, name) for name in columns)} FROM workflow_runs "
        f"CROSS JOIN numbers WHERE run_id = '{run.run_id}'"
    )


async def test_what_a_worker_cannot_run_is_left_in_line(journal: Journal, database: Database) -> None:
    await write_queue(journal)
    environment = journal.committer._environment
    others = [
        start(environment, f"other{number}", task_queue="other", options=StartOptions(queue="q"))
        for number in range(3)
    ]
    for change in others:
        await journal.apply(change)
    await enqueue(journal, "mine")
    assert ids(await journal.apply(admit())) == ["mine"]
    assert row_of(database, others[0].run).status == "queued"
    elsewhere = AdmitFromQueue("q", Taker("two", ["other"], workflows=TYPES, runs=100))
    assert ids(await journal.apply(elsewhere)) == ["other0", "other1", "other2"]


async def test_partitions_whose_heads_a_worker_cannot_run_keep_it_from_no_other(journal: Journal) -> None:
    await write_queue(journal)
    environment = journal.committer._environment
    for number in range(2 * SPARE_PARTITIONS):
        given = StartOptions(queue="q", partition_key=f"p{number:02}")
        await journal.apply(start(environment, f"other{number}", task_queue="other", options=given))
    await enqueue(journal, "last", f"p{2 * SPARE_PARTITIONS}")
    assert ids(await journal.apply(admit(limit=1))) == ["last"]


async def test_the_rotation_goes_on_where_a_look_ended(journal: Journal) -> None:
    await write_queue(journal, partition_concurrency=1)
    names = [f"p{number:04}" for number in range(PAIRS + 60)]
    for name in names:
        await asyncio.gather(*[enqueue(journal, f"{name}-{number}", name) for number in range(2)])
    runs: list[RunRow] = []
    while more := (await journal.apply(admit())).runs:
        runs += more
    assert len(runs) == len(names)
    full = await journal.apply(admit())
    assert full.runs == []
    assert full.position is not None
    # Only a partition that the first look does not see has room.
    cursor = runs[-1].partition_key
    assert cursor is not None
    hidden = names[(names.index(cursor) + PAIRS + 10) % len(names)]
    await end(journal, next(run for run in runs if run.partition_key == hidden))
    position, looks = None, 0
    while True:
        found = await journal.apply(admit(position=position))
        looks += 1
        if found.runs or found.position is None:
            break
        position = found.position
    assert ids(found) == [f"{hidden}-1"]
    assert looks == 2
    # Who is told of the partition in which something has ended needs one look.
    for only in (False, True):
        (ended,) = found.runs
        await enqueue(journal, f"{hidden}-{only}", hidden)
        await end(journal, ended)
        found = await journal.apply(admit(hints=[hidden, "nobody"], only_hints=only))
        assert ids(found) == [f"{hidden}-{only}"]


async def test_lines_without_a_partition_are_found_by_one_leap_and_wait_for_their_turn(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_queue(journal)
    for number in range(4):
        await enqueue(journal, f"w{number}")
    leaps: list[object] = []
    right = contents.lines_asked

    def counted(*args: Any, **options: Any) -> Any:
        leaps.append(options["after"])
        return right(*args, **options)

    monkeypatch.setattr(contents, "lines_asked", counted)
    assert ids(await journal.apply(admit(limit=1))) == ["w0"]
    assert ids(await journal.apply(admit(limit=1))) == ["w1"]
    assert leaps == [None, None]
    # Others come first now, and all of a look that sees only a part of the lines are others.
    for number in range(2 * PAIRS):
        await enqueue(journal, f"p{number:04}", f"p{number:04}")
    found: list[str] = []
    position = None
    for _ in range(2 * PAIRS + 2):
        look = await journal.apply(admit(limit=1, position=position))
        found += ids(look)
        position = look.position
    assert found == [*(f"p{number:04}" for number in range(2 * PAIRS)), "w2", "w3"]


async def test_a_rate_that_allows_nothing_lets_no_look_go_around(journal: Journal) -> None:
    await write_queue(journal, rate_limit=1, rate_per=3_600_000_000)
    for first in range(0, PAIRS + 20, 20):
        names = [f"p{number:04}" for number in range(first, first + 20)]
        await asyncio.gather(*[enqueue(journal, name, name) for name in names])
    assert len((await journal.apply(admit())).runs) == 1
    held_up = await journal.apply(admit())
    assert (held_up.runs, held_up.position) == ([], None)
    assert held_up.next_at is not None


# --- owners ---------------------------------------------------------------------------------------------------------


async def test_a_run_that_lost_its_owner_goes_before_the_line_and_keeps_its_slot(
    journal: Journal, database: Database
) -> None:
    await write_queue(journal, concurrency=1)
    await enqueue(journal, "w0")
    await enqueue(journal, "w1")
    (run,) = (await journal.apply(admit("one"))).runs
    await journal.apply(ReleaseRuns("one", [run.run_id]))
    assert await journal.apply(ClaimRuns("two", ["default"], TYPES, 10)) == []
    again = await journal.apply(admit("two"))
    assert ids(again) == ["w0"]
    row = row_of(database, run)
    assert (row.owner_id, row.slot_queue, row.last_seq) == ("two", "q", 2)


async def test_taking_over_needs_room_of_the_worker(journal: Journal) -> None:
    await write_queue(journal, worker_concurrency=1)
    await enqueue(journal, "w0")
    await enqueue(journal, "w1")
    (first,) = (await journal.apply(admit("one"))).runs
    (second,) = (await journal.apply(admit("two"))).runs
    await journal.apply(ReleaseRuns("one", [first.run_id]))
    assert (await journal.apply(admit("two"))).runs == []
    await end(journal, second)
    assert ids(await journal.apply(admit("two"))) == ["w0"]


@pytest.mark.parametrize("room", [1, 2, 5])
async def test_taking_over_passes_over_partitions_that_are_full(journal: Journal, room: int) -> None:
    await write_queue(journal)
    partitions = ["a", "a", "a", "b", "b", "c", "d"]
    for number, partition in enumerate(partitions):
        await enqueue(journal, f"w{number}", partition)
    lost = (await journal.apply(admit("lost"))).runs
    for run in sorted(lost, key=lambda run: run.workflow_id):
        await journal.apply(ReleaseRuns("lost", [run.run_id]))
    await write_queue(journal, partition_worker_concurrency=1)
    found: list[str] = []
    while taken := (await journal.apply(admit("one", room))).runs:
        assert len(taken) <= room
        found += [run.partition_key or "" for run in taken]
    assert sorted(found) == ["a", "b", "c", "d"]


async def test_a_stolen_run_of_a_queue_is_released(
    journal: Journal, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast_runs.claims.STEAL_AFTER_US", 0)
    await write_queue(journal, worker_concurrency=1)
    await enqueue(journal, "w")
    (run,) = (await journal.apply(admit("one"))).runs
    assert await journal.apply(StealRuns("two", [run.run_id])) == []
    assert row_of(database, run).owner_id is None


async def test_many_writers_at_once_never_admit_too_many(journal: Journal, database: Database) -> None:
    """Each worker has a connection of its own, so that their transactions overlap where a store lets them."""
    if database.url.memory:
        # One connection is all that there is.
        return
    workers = 4
    await write_queue(journal, concurrency=10, worker_concurrency=5, partition_concurrency=4)
    for number in range(120):
        await enqueue(journal, f"w{number}", f"p{number % 5}")
    others = [Journal(database, database.environment) for _ in range(workers)]
    admitted: list[RunRow] = []
    most: list[tuple[int, ...]] = []

    def look() -> None:
        text = "SELECT slot_queue, partition_key, owner_id FROM workflow_runs WHERE slot_queue IS NOT NULL"
        with database.reader() as connection:
            slots = [tuple(row) for row in connection.exec_driver_sql(text)]
        by = [Counter(slot[place] for slot in slots).values() for place in range(3)]
        most.append(tuple(max(counts, default=0) for counts in by))

    async def work(name: str, mine: Journal) -> None:
        for _ in range(400):
            found = await mine.apply(admit(name, 5))
            admitted.extend(found.runs)
            if found.runs or found.busy:
                look()
            for run in found.runs:
                await end(mine, run)
            if len(admitted) == 120:
                return
            await asyncio.sleep(0)

    try:
        await asyncio.gather(*[work(f"worker {place}", mine) for place, mine in enumerate(others)])
    finally:
        for mine in others:
            await mine.close()
    assert len({run.run_id for run in admitted}) == len(admitted) == 120
    assert max(seen[0] for seen in most) <= 10
    assert max(seen[1] for seen in most) <= 4
    assert max(seen[2] for seen in most) <= 5


async def test_moves_and_admissions_of_many_writers_exclude_each_other(
    journal: Journal, database: Database
) -> None:
    if database.url.memory:
        return
    await write_queue(journal)
    runs = [await enqueue(journal, f"w{number}") for number in range(60)]
    mover, *others = [Journal(database, database.environment) for _ in range(3)]
    refused: set[str] = set()
    admitted: set[str] = set()

    async def move(run: RunRow) -> None:
        try:
            await mover.apply(delay(run, 1000))
        except WorkflowAlreadyBegunError:
            refused.add(run.run_id)

    async def take(name: str, mine: Journal) -> None:
        for _ in range(30):
            admitted.update(run.run_id for run in (await mine.apply(admit(name, 2))).runs)

    async def move_all() -> None:
        for place in range(0, 60, 4):
            await asyncio.gather(*[move(run) for run in runs[place : place + 4]])

    try:
        await asyncio.gather(move_all(), *[take(f"w{place}", mine) for place, mine in enumerate(others)])
    finally:
        for mine in (mover, *others):
            await mine.close()
    assert refused == admitted


@pytest.mark.parametrize("after", [None, "a"])
async def test_no_statement_reads_a_whole_line(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    """SQLite seeks each pair, and the runs that lost their owner, in the index that is made for it."""
    database = Database(DatabaseUrl.parse(sqlite_url), Environment())
    ensure_schema(database)
    journal = Journal(database, database.environment)
    journal.committer.connect()
    asked: list[tuple[str, Any]] = []
    scan = LockedRows.scan

    def noted(self: Any, text: str, values: Any) -> Any:
        asked.append((text, values))
        return scan(self, text, values)

    monkeypatch.setattr(LockedRows, "scan", noted)
    await write_queue(journal, concurrency=5, worker_concurrency=3, partition_concurrency=2)
    await enqueue(journal, "w", "p")
    await journal.apply(admit(position=(False, after)))
    await journal.apply(admit(hints=["p"], only_hints=True))
    await journal.close()
    with database.reader() as connection:
        for text, values in asked:
            if "workflow_runs" not in text:
                continue
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
            searches = [step for step in plan if step.startswith(("SEARCH", "SCAN workflow_runs"))]
            for step in searches:
                assert (
                    "ix_runs_line" in step
                    or "ix_runs_slot" in step
                    or "ix_activities_line" in step
                    or "ix_activities_slots" in step
                    or ("PRIMARY KEY" in step)
                ), (text, plan)
            if "RECURSIVE" in text:
                assert any("partition_key=? AND priority>?" in step for step in searches), plan
    database.dispose()


async def test_two_workers_with_five_each_fill_ten_slots_exactly(journal: Journal) -> None:
    await write_queue(journal, concurrency=10, worker_concurrency=5)
    for number in range(30):
        await enqueue(journal, f"w{number}")
    found = [await journal.apply(admit(worker)) for worker in ("one", "two", "one", "two", "three")]
    assert [len(one.runs) for one in found] == [5, 5, 0, 0, 0]


# --- starting, cancelling -------------------------------------------------------------------------------------------


async def test_an_unknown_queue_is_refused_before_anything_is_written(
    journal: Journal, database: Database
) -> None:
    await write_queue(journal, "emails")
    with pytest.raises(QueueNotFoundError) as caught:
        await journal.apply(start(journal.committer._environment, "w", options=StartOptions(queue="email")))
    assert caught.value.similar == ["emails"]
    with database.reader() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM workflow_instances").scalar() == 0


async def test_a_cancelled_run_leaves_the_line(journal: Journal, database: Database) -> None:
    await write_queue(journal, concurrency=1)
    await enqueue(journal, "w0")
    second = await enqueue(journal, "w1")
    await enqueue(journal, "w2")
    await journal.apply(admit())
    await journal.apply(RequestCancellation("w1", second.run_id, "not wanted"))
    row = row_of(database, second)
    assert (row.status, row.queued_at, row.started_at) == ("cancelled", None, None)
    assert (await journal.apply(admit())).runs == []


# --- all of it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_random_stories_keep_every_limit(journal: Journal, database: Database, seed: int) -> None:
    """Whatever is started, ended, released and changed: no limit is ever exceeded by an admission."""
    rng = random.Random(seed)
    limits: dict[str, int | None] = {}
    runs: dict[str, RunRow] = {}
    owners: dict[str, str] = {}
    number = 0

    async def change_limits() -> None:
        limits.clear()
        for name in (
            "concurrency",
            "worker_concurrency",
            "partition_concurrency",
            "partition_worker_concurrency",
        ):
            limits[name] = rng.choice((None, 1, 2, 3, 5))
        await write_queue(journal, "q", **limits)

    def check(admission: Admission, worker: str) -> None:
        by_partition: Counter[str] = Counter()
        mine: Counter[str] = Counter()
        for run_id, run in runs.items():
            by_partition[run.partition_key or ""] += 1
            if owners.get(run_id) == worker:
                mine[run.partition_key or ""] += 1
        fresh = [run for run in admission.runs if run.run_id not in before]
        for limit, held in (
            (limits["concurrency"], sum(by_partition.values()) if fresh else 0),
            (limits["worker_concurrency"], sum(mine.values()) if admission.runs else 0),
        ):
            assert limit is None or held <= limit
        for run in fresh:
            most = limits["partition_concurrency"]
            assert most is None or by_partition[run.partition_key or ""] <= most
        for run in admission.runs:
            most = limits["partition_worker_concurrency"]
            assert most is None or mine[run.partition_key or ""] <= most

    await change_limits()
    for _ in range(120):
        action = rng.random()
        if action < 0.4:
            number += 1
            await enqueue(
                journal, f"w{number}", rng.choice((None, "a", "b", "c")), priority=rng.randint(0, 9)
            )
        elif action < 0.75:
            worker = rng.choice(("one", "two", "three"))
            before = set(runs)
            admission = await journal.apply(admit(worker, rng.choice((1, 2, 5, 100))))
            for run in admission.runs:
                runs[run.run_id] = run
                owners[run.run_id] = worker
            check(admission, worker)
        elif action < 0.88 and runs:
            ended = runs.pop(rng.choice(sorted(runs)))
            owners.pop(ended.run_id, None)
            await end(journal, ended)
        elif action < 0.95 and owners:
            run_id = rng.choice(sorted(owners))
            await journal.apply(ReleaseRuns(owners.pop(run_id), [run_id]))
        else:
            await change_limits()
    # With no limits left, everything that waits is admitted.
    await write_queue(journal)
    waiting: dict[str, list[RunRow]] = defaultdict(list)
    while found := (await journal.apply(admit("last"))).runs:
        for run in found:
            waiting[run.partition_key or ""].append(run)
    with database.reader() as connection:
        left = connection.exec_driver_sql(
            "SELECT count(*) FROM workflow_runs WHERE status = 'queued'"
        ).scalar()
    assert left == 0
