"""Activities in the line of a queue, on each store: they share its limits, its order and its turns with runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.conformance.changes import start
from tests.conformance.test_claims import WORK, activity_of, claim_activities, workflow_task
from tests.queued import write_queue

from outlast_activities.attempts import HANDED_BACK, RESCUED, AttemptEnd
from outlast_activities.changes import CompleteAttempt, EndAttempt
from outlast_activities.deferred_attempts import CompleteFromOutside, DeferAttempt, NamedAttempt
from outlast_runs.admission import Admission, AdmitFromQueue, Taker
from outlast_runs.claims import ClaimRuns
from outlast_runs.run_change import TerminateRun
from outlast_store.database.database import Database
from outlast_store.journal.journal import Journal
from outlast_store.queues.definitions import DeleteQueue
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.errors import QueueInUseError, QueueNotFoundError
from outlast_workflow.history.events import ActivityCompleted, ActivityScheduled, Event
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import AttemptOutcome
from outlast_workflow.primitives.payloads import Payload

TYPES = frozenset({"Tried"})
HOUR = 3_600
BOUNDED = ActivityOptions(start_to_close_timeout=HOUR)
LATER = ActivityOptions(start_to_close_timeout=HOUR, retry_policy=RetryPolicy(initial_interval=HOUR))
FAILED = AttemptEnd(AttemptOutcome.FAILED, {"category": "application", "type": "Refused", "message": "no"})


def admit(worker: str = "one", *, runs: int = 100, slots: int = 100, **more: Any) -> AdmitFromQueue:
    taker = Taker(worker, ["default"], workflows=TYPES, activities=WORK, runs=runs, slots=slots)
    return AdmitFromQueue("q", taker, **more)


def call(
    command_id: int,
    partition: str | None = None,
    *,
    priority: int = 5,
    options: ActivityOptions = BOUNDED,
    queue: str = "q",
    task_queue: str = "default",
) -> ActivityScheduled:
    input = Payload.of([command_id])
    return ActivityScheduled(
        command_id,
        "work",
        task_queue,
        input,
        options.snapshot,
        priority,
        queue=queue,
        partition_key=partition,
    )


async def call_all(journal: Journal, calls: Sequence[Event], workflow_id: str = "w") -> RunRow:
    """Commit a workflow task that calls activities; its run, which has no queue, belongs to ``owner``."""
    environment = journal.committer._environment
    await journal.apply(start(environment, workflow_id))
    (run,) = await journal.apply(ClaimRuns("owner", ["default"], TYPES, 10))
    change = workflow_task(run, "owner", list(calls), seen=1, now=environment.clock.now())
    return (await journal.apply(change)).run


async def enqueue(journal: Journal, workflow_id: str, partition: str | None = None, **options: Any) -> None:
    given = StartOptions(queue="q", partition_key=partition, **options)
    await journal.apply(start(journal.committer._environment, workflow_id, options=given))


async def complete(journal: Journal, row: ActivityRow) -> None:
    event = ActivityCompleted(row.activity_id, Payload.of(None), row.charged_attempt)
    await journal.apply(CompleteAttempt(row.run_id, row.activity_id, row.attempt, event))


def ids(admission: Admission) -> list[int]:
    return [claimed.row.activity_id for claimed in admission.activities]


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_runs_and_activities_share_the_slots_of_a_queue(journal: Journal, database: Database) -> None:
    await write_queue(journal, concurrency=3)
    run = await call_all(journal, [call(1), call(2)])
    await enqueue(journal, "queued0")
    await enqueue(journal, "queued1")
    found = await journal.apply(admit())
    assert ids(found) == [1, 2]
    assert [one.workflow_id for one in found.runs] == ["queued0"]
    assert (await journal.apply(admit("two"))).count == 0
    claimed = found.activities[0]
    assert (claimed.row.status, claimed.row.claimed_by, claimed.row.attempt) == ("running", "one", 1)
    assert claimed.workflow_id == "w"
    assert "work" in claimed.input
    await complete(journal, claimed.row)
    assert [one.workflow_id for one in (await journal.apply(admit("two"))).runs] == ["queued1"]
    assert activity_of(database, run.run_id, 1) is None


async def test_no_plain_claim_takes_an_activity_of_a_queue(journal: Journal) -> None:
    await write_queue(journal)
    await call_all(journal, [call(1)])
    assert await journal.apply(claim_activities("one")) == []
    assert ids(await journal.apply(admit())) == [1]


async def test_limits_of_workers_and_partitions_count_both(journal: Journal) -> None:
    await write_queue(journal, worker_concurrency=3, partition_concurrency=2)
    await call_all(journal, [call(number, partition) for number, partition in enumerate("aaab", 1)])
    await enqueue(journal, "a", "a")
    await enqueue(journal, "b", "b")
    one = await journal.apply(admit("one"))
    assert (ids(one), [run.workflow_id for run in one.runs]) == ([1, 4, 2], [])
    two = await journal.apply(admit("two"))
    assert (ids(two), [run.workflow_id for run in two.runs]) == ([], ["b"])
    await complete(journal, one.activities[0].row)
    assert ids(await journal.apply(admit("one"))) == [3]


async def test_a_worker_admits_what_it_has_room_for_and_knows(journal: Journal) -> None:
    await write_queue(journal)
    await call_all(journal, [call(1), call(2, task_queue="other"), call(3)])
    await enqueue(journal, "queued")
    short = await journal.apply(admit(slots=0, runs=0))
    assert short.count == 0
    without_slots = await journal.apply(admit(slots=0))
    assert [run.workflow_id for run in without_slots.runs] == ["queued"]
    assert {kind.value for kind in without_slots.short_of} == {"activity"}
    first = await journal.apply(admit(slots=1))
    assert ids(first) == [1]
    assert first.more
    assert ids(await journal.apply(admit())) == [3]
    elsewhere = Taker("two", ["other"], activities=WORK, slots=5)
    assert ids(await journal.apply(AdmitFromQueue("q", elsewhere))) == [2]


async def test_what_ends_and_begins_in_one_batch_is_counted(journal: Journal) -> None:
    await write_queue(journal, concurrency=1)
    await call_all(journal, [call(1), call(2), call(3)])
    (first,) = (await journal.apply(admit())).activities
    event = ActivityCompleted(1, Payload.of(None), 1)
    done, one, two = await asyncio.gather(
        journal.apply(CompleteAttempt(first.row.run_id, 1, 1, event)),
        journal.apply(admit()),
        journal.apply(admit("two")),
    )
    assert done
    assert [ids(one), ids(two)] == [[2], []]


# --- order ----------------------------------------------------------------------------------------------------------


async def test_one_line_by_priority_and_by_when_they_joined(journal: Journal) -> None:
    await write_queue(journal)
    await enqueue(journal, "first")
    await call_all(journal, [call(1), call(2, priority=0)])
    await enqueue(journal, "last")
    await enqueue(journal, "urgent", priority=1)
    order: list[str | int] = []
    for _ in range(5):
        found = await journal.apply(admit(runs=1, slots=1))
        order += [run.workflow_id for run in found.runs] or ids(found)
    assert order == [2, "urgent", "first", 1, "last"]


async def test_partitions_of_activities_take_turns(journal: Journal) -> None:
    await write_queue(journal)
    calls = [call(number, "a") for number in range(1, 31)] + [call(number, "b") for number in range(31, 36)]
    await call_all(journal, calls)
    served = ids(await journal.apply(admit(slots=10)))
    assert Counter("a" if number <= 30 else "b" for number in served) == {"a": 5, "b": 5}
    assert served[::2] in ([1, 2, 3, 4, 5], [31, 32, 33, 34, 35])


# --- attempts -------------------------------------------------------------------------------------------------------


async def test_a_retry_joins_the_line_again_when_it_is_due_and_is_charged_again(journal: Journal) -> None:
    await write_queue(journal, rate_limit=2, rate_per=10 * HOUR * 1_000_000)
    await call_all(journal, [call(1, options=LATER)])
    (first,) = (await journal.apply(admit())).activities
    before = journal.committer._environment.clock.now()
    await journal.apply(EndAttempt(first.row.run_id, 1, 1, FAILED))
    found = await journal.apply(admit())
    assert found.count == 0
    assert found.next_at is not None
    assert HOUR * 1_000_000 <= found.next_at - before < 2 * HOUR * 1_000_000
    # The slot is free meanwhile, and one admission of the rate is left.
    await call_all(journal, [call(1), call(2)], "other")
    assert ids(await journal.apply(admit())) == [1]


async def test_what_fails_in_the_batch_that_admitted_it_is_not_admitted_again(journal: Journal) -> None:
    await write_queue(journal)
    run = await call_all(journal, [call(1, options=LATER)])
    found = await asyncio.gather(
        journal.apply(admit()),
        journal.apply(EndAttempt(run.run_id, 1, 1, FAILED)),
        journal.apply(admit("two")),
    )
    assert ids(found[0]) == [1]
    assert found[2].count == 0


@pytest.mark.parametrize("end", [RESCUED, HANDED_BACK], ids=["rescued", "handed back"])
async def test_what_its_worker_lost_stands_in_line_again(journal: Journal, end: AttemptEnd) -> None:
    await write_queue(journal, concurrency=1)
    await call_all(journal, [call(1), call(2)])
    (first,) = (await journal.apply(admit())).activities
    await journal.apply(EndAttempt(first.row.run_id, 1, 1, end))
    again = await journal.apply(admit("two"))
    # Behind the other, which has waited longer.
    assert ids(again) == [2]
    await complete(journal, again.activities[0].row)
    (third,) = (await journal.apply(admit("two"))).activities
    assert (third.row.activity_id, third.row.attempt, third.row.charged_attempt) == (1, 2, 1)


async def test_a_deferred_attempt_keeps_its_slot_but_not_its_workers(journal: Journal) -> None:
    await write_queue(journal, concurrency=2, worker_concurrency=1)
    await call_all(journal, [call(1), call(2), call(3)])
    (first,) = (await journal.apply(admit())).activities
    assert (await journal.apply(admit())).count == 0
    await journal.apply(DeferAttempt(first.row.run_id, 1, 1, None))
    assert ids(await journal.apply(admit())) == [2]
    assert ids(await journal.apply(admit("two"))) == []
    await journal.apply(CompleteFromOutside(NamedAttempt(first.row.run_id, 1, 1), Payload.of("done")))
    assert ids(await journal.apply(admit("two"))) == [3]


async def test_the_end_of_a_run_takes_its_activities_out_of_the_line(journal: Journal) -> None:
    await write_queue(journal, concurrency=1)
    run = await call_all(journal, [call(1), call(2)])
    assert ids(await journal.apply(admit())) == [1]
    with pytest.raises(QueueInUseError) as used:
        await journal.apply(DeleteQueue("q"))
    assert (used.value.waiting, used.value.running) == (1, 1)
    await journal.apply(TerminateRun(run.workflow_id, run.run_id, "enough"))
    assert (await journal.apply(admit())).count == 0
    await journal.apply(DeleteQueue("q"))


async def test_a_paused_queue_admits_no_activity(journal: Journal) -> None:
    await write_queue(journal, paused_at=1)
    await call_all(journal, [call(1)])
    assert (await journal.apply(admit())).count == 0
    await write_queue(journal)
    assert ids(await journal.apply(admit())) == [1]


async def test_an_activity_of_an_unknown_queue_writes_nothing(journal: Journal, database: Database) -> None:
    await write_queue(journal, "stripe")
    with pytest.raises(QueueNotFoundError) as caught:
        await call_all(journal, [call(1, queue="strip")])
    assert caught.value.similar == ["stripe"]
    with database.reader() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM activity_executions").scalar() == 0
        count = connection.exec_driver_sql("SELECT max(last_seq) FROM workflow_runs").scalar()
        assert count == 1


# --- all of it ------------------------------------------------------------------------------------------------------


class Model:
    """What holds the slots of a queue, told by what was admitted and what has ended."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], tuple[str, str]] = {}
        """Partition and worker of each run (activity 0) and of each activity."""

    def check(self, found: Admission, worker: str, limits: dict[str, int | None]) -> None:
        for run in found.runs:
            self.held[run.run_id, 0] = (run.partition_key or "", worker)
        for claimed in found.activities:
            row = claimed.row
            self.held[row.run_id, row.activity_id] = (row.partition_key or "", worker)
        if not found.count:
            return
        slots = list(self.held.values())
        mine = [slot for slot in slots if slot[1] == worker]
        for limit, most in (
            ("concurrency", len(slots)),
            ("worker_concurrency", len(mine)),
            ("partition_concurrency", max(Counter(slot[0] for slot in slots).values())),
            ("partition_worker_concurrency", max(Counter(slot[0] for slot in mine).values())),
        ):
            allowed = limits.get(limit)
            assert allowed is None or most <= allowed, limit


@pytest.mark.parametrize("seed", range(6))
async def test_random_stories_of_both_kinds_keep_every_limit(
    journal: Journal, database: Database, seed: int
) -> None:
    rng = random.Random(seed)
    names = ("concurrency", "worker_concurrency", "partition_concurrency", "partition_worker_concurrency")
    limits: dict[str, int | None] = {name: rng.choice((None, 1, 2, 3, 5)) for name in names}
    await write_queue(journal, "q", **limits)
    model = Model()
    running: dict[tuple[str, int], ActivityRow] = {}
    runs: list[RunRow] = []
    number = 0
    for _ in range(100):
        action = rng.random()
        partition = rng.choice((None, "a", "b"))
        if action < 0.2:
            number += 1
            await enqueue(journal, f"queued{number}", partition, priority=rng.randint(0, 9))
        elif action < 0.4:
            number += 1
            calls = [
                call(place, rng.choice((None, "a", "b")), priority=rng.randint(0, 9))
                for place in range(1, rng.randint(2, 5))
            ]
            await call_all(journal, calls, f"w{number}")
        elif action < 0.75:
            worker = rng.choice(("one", "two", "three"))
            found = await journal.apply(
                admit(worker, runs=rng.choice((0, 1, 5)), slots=rng.choice((0, 1, 5)))
            )
            model.check(found, worker, limits)
            runs += found.runs
            for claimed in found.activities:
                running[claimed.row.run_id, claimed.row.activity_id] = claimed.row
        elif action < 0.9 and running:
            key = rng.choice(sorted(running))
            row = running.pop(key)
            del model.held[key]
            if rng.random() < 0.5:
                await complete(journal, row)
            else:
                await journal.apply(EndAttempt(*key, row.attempt, RESCUED))
        elif runs:
            run = runs.pop()
            del model.held[run.run_id, 0]
            await journal.apply(TerminateRun(run.workflow_id, run.run_id, "ended"))
    # With no limits left, everything that waits is admitted.
    await write_queue(journal)
    while (await journal.apply(admit("last"))).count:
        pass
    with database.reader() as connection:
        text = "SELECT (SELECT count(*) FROM workflow_runs WHERE status = 'queued'), count(*) FROM activity_executions"
        left = connection.exec_driver_sql(f"{text} WHERE status = 'pending'").one()
    assert tuple(left) == (0, 0)


async def test_many_writers_at_once_never_take_too_many_slots(journal: Journal, database: Database) -> None:
    """Each worker has a connection of its own, so that their transactions overlap where a store lets them."""
    if database.url.memory:
        # One connection is all that there is.
        return
    await write_queue(journal, concurrency=5, worker_concurrency=3, partition_concurrency=2)
    for place in range(20):
        await enqueue(journal, f"queued{place}", f"p{place % 4}")
    await call_all(journal, [call(place, f"p{place % 4}") for place in range(1, 61)])
    others = [Journal(database, database.environment) for _ in range(3)]
    most: list[int] = []
    done: set[tuple[str, int]] = set()

    def look() -> None:
        text = (
            "SELECT (SELECT count(*) FROM workflow_runs WHERE slot_queue IS NOT NULL) + "
            "(SELECT count(*) FROM activity_executions WHERE status = 'running')"
        )
        with database.reader() as connection:
            most.append(connection.exec_driver_sql(text).scalar() or 0)

    async def work(name: str, mine: Journal) -> None:
        for _ in range(400):
            found = await mine.apply(admit(name, runs=3, slots=3))
            look()
            for run in found.runs:
                done.add((run.run_id, 0))
                await mine.apply(TerminateRun(run.workflow_id, run.run_id, "ended"))
            for claimed in found.activities:
                done.add((claimed.row.run_id, claimed.row.activity_id))
                await complete(mine, claimed.row)
            if len(done) == 80:
                return
            await asyncio.sleep(0)

    try:
        await asyncio.gather(*[work(f"worker {place}", mine) for place, mine in enumerate(others)])
    finally:
        for mine in others:
            await mine.close()
    assert len(done) == 80
    assert max(most) <= 5
