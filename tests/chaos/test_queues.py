"""Queues under fire: no limit is ever exceeded, whoever is killed; and whoever exceeds one is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.chaos.campaign import Plan, Report, campaign
from tests.chaos.queues import check_histories, install_witness, most_at_once, most_in_a_window
from tests.chaos.record import Event, Record
from tests.conformance.changes import start
from tests.conftest import at_head
from tests.queued import write_queue

from outlast_runs.admission import Admission, AdmitFromQueue, Taker
from outlast_runs.claims import ReleaseRuns
from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Batch
from outlast_store.journal.journal import Journal
from outlast_store.queues import lines
from outlast_store.schema.rows import RunRow
from outlast_workflow.environment import Environment
from outlast_workflow.options.options import StartOptions

CALM = ("jump_clock", "silence", "black_hole", "kill_backend")
"""What a storm does without: rates are judged by the machine's clock, and the rest only takes time."""


def assert_no_limit_was_exceeded(report: Report, least: dict[str, int]) -> None:
    found = json.dumps(report.to_document(), indent=2)
    assert report.verdict.wrong == [], found
    assert 0 < report.verdict.acknowledged["started"] == report.verdict.acknowledged["result"], found
    assert all(report.faults[name] >= count for name, count in least.items()), found
    assert report.verdict.admitted > 20, found


@pytest.mark.postgresql
async def test_no_queue_admits_too_many_whoever_is_killed() -> None:
    least = {"kill_worker": 2, "kill_server": 1}
    plan = Plan(
        "postgresql", seed=1, seconds=3, pause_s=0.4, workers=4, in_flight=40, queued=True, at_least=least
    )
    plan.without = CALM
    assert_no_limit_was_exceeded(await campaign(plan), least)


@pytest.mark.nightly
@pytest.mark.postgresql
@pytest.mark.parametrize("seed", range(3))
async def test_no_queue_admits_too_many_in_a_storm(seed: int) -> None:
    least = {"kill_worker": 30, "kill_server": 3}
    plan = Plan(
        "postgresql", seed=seed, seconds=60, pause_s=0.5, workers=8, in_flight=80, queued=True, at_least=least
    )
    plan.without = CALM
    assert_no_limit_was_exceeded(await campaign(plan), least)


@pytest.mark.nightly
@pytest.mark.postgresql
async def test_a_count_in_the_locking_statement_is_found() -> None:
    plan = Plan("postgresql", seed=1, seconds=8, pause_s=1, workers=8, in_flight=60, queued=True)
    plan.only = ("kill_worker",)
    plan.bug = "count_in_the_locking_statement"
    report = await campaign(plan)
    assert any("too many: concurrency" in what for what in report.verdict.wrong), report.to_document()


# --- the witness ----------------------------------------------------------------------------------------------------


@pytest.fixture
def seen(postgresql_url: str) -> Iterator[Database]:
    """A PostgreSQL database with the witness."""
    with at_head(postgresql_url) as database:
        install_witness(postgresql_url)
        yield database


def admit(worker: str, limit: int = 100) -> AdmitFromQueue:
    return AdmitFromQueue("q", Taker(worker, ["default"], workflows=frozenset({"Tried"}), runs=limit))


class AdmitAnyway(AdmitFromQueue):
    """Admits from a queue that is paused."""

    def apply(self, batch: Batch) -> Admission:
        batch.gates[self.queue].paused_at = None
        return super().apply(batch)


async def enqueue(journal: Journal, count: int) -> None:
    for number in range(count):
        options = StartOptions(queue="q", partition_key="t")
        await journal.apply(start(journal.committer._environment, f"w{number}", options=options))


def told(database: Database) -> list[Any]:
    with database.reader() as connection:
        rows = fetch(connection, "SELECT worker_id, dequeued, wrong FROM slots_taken")
    return [tuple(row) for row in rows]


FORGETFUL: dict[str, tuple[str, Any]] = {
    "concurrency": ("count_slots", lambda batch, queue, limit: 0),
    "worker_concurrency": ("count_slots_of", lambda batch, queue, worker: 0),
    "partition_concurrency": (
        "count_partition_slots",
        lambda batch, queue, partitions, worker=None: dict.fromkeys(partitions, 0),
    ),
    "partition_worker_concurrency": (
        "count_partition_slots",
        lambda batch, queue, partitions, worker=None: dict.fromkeys(partitions, 0),
    ),
}
"""What forgets the slots that are held, by the limit that is then exceeded."""


@pytest.mark.postgresql
@pytest.mark.parametrize("limit", FORGETFUL)
async def test_the_witness_sees_who_exceeds_a_limit(
    seen: Database, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    journal = Journal(seen, Environment())
    limits: dict[str, int | None] = {limit: 1}
    await write_queue(journal, "q", **limits)
    await enqueue(journal, 2)
    await journal.apply(admit("one", 1))
    await journal.apply(admit("one", 1))
    assert told(seen) == [("one", True, None)]
    monkeypatch.setattr(lines, *FORGETFUL[limit])
    await journal.apply(admit("one", 1))
    assert told(seen)[1:] == [("one", True, f" {limit}")]
    await journal.close()


@pytest.mark.postgresql
async def test_the_witness_sees_who_takes_over_too_many_and_who_ignores_a_pause(
    seen: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(seen, Environment())
    await write_queue(journal)
    await enqueue(journal, 3)
    lost = (await journal.apply(admit("one", 2))).runs
    await journal.apply(ReleaseRuns("one", [run.run_id for run in lost]))
    await write_queue(journal, worker_concurrency=1, paused_at=1)
    monkeypatch.setattr(lines, "count_slots_of", lambda batch, queue, worker: -1)
    await journal.apply(admit("two", 2))
    assert sorted(told(seen)[2:], key=str) == [("two", False, " worker_concurrency")] * 2
    await write_queue(journal, paused_at=1)
    await journal.apply(AdmitAnyway("q", admit("three", 1).taker))
    assert told(seen)[4:] == [("three", True, " pause")]
    await journal.close()


# --- the histories --------------------------------------------------------------------------------------------------


def admitted(record: Record, name: str, queue: str, partition: str, begin: int, end: int) -> None:
    """Add a run that was admitted and has ended, with its instants in milliseconds."""
    run = RunRow.__new__(RunRow)
    vars(run).update(
        run_id=name, queue=queue, partition_key=partition, started_at=begin * 1000, closed_at=end * 1000
    )
    record.runs[name] = run
    record.histories[name] = [Event(2, "WorkflowDequeued", begin * 1000, {})]


def test_what_histories_say_of_limits() -> None:
    record = Record()
    for number in range(6):
        admitted(record, f"n{number}", "narrow", "", number, 10)
        admitted(record, f"t{number}", "tenants", f"t{number % 2}", number, 10)
        admitted(record, f"p{number}", "paced", "", 1, 2)
    assert list(check_histories(record)) == []
    admitted(record, "n6", "narrow", "t1", 10, 12)
    admitted(record, "t6", "tenants", "t0", 10, 12)
    admitted(record, "p6", "paced", "", 501, 502)
    assert list(check_histories(record)) == []
    admitted(record, "n7", "narrow", "t1", 9, 12)
    admitted(record, "t7", "tenants", "t0", 9, 12)
    for number in range(5):
        admitted(record, f"p{7 + number}", "paced", "", 500, 502)
    assert list(check_histories(record)) == [
        "narrow, partition None: 7 ran at once, 6 may",
        "tenants, partition 't0': 4 ran at once, 3 may",
        "paced, partition '': 11 were admitted in 0.5 s, 10 may be",
    ]


def test_spans_and_windows_do_not_hold_their_ends() -> None:
    assert most_at_once([(0, 5), (5, 9), (4, 6)]) == 2
    assert most_in_a_window([0, 1, 10, 11], 10) == 2
    assert most_in_a_window([0, 1, 9, 11], 10) == 3
