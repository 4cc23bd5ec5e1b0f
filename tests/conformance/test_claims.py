"""Who may do what: claims, fences and tokens, on each store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.exc import ProgrammingError
from tests.conformance.changes import start

from outlast.runtime.schema_check import ensure_schema
from outlast_activities.attempts import HANDED_BACK, RESCUED, AttemptEnd
from outlast_activities.changes import ClaimActivities, CompleteAttempt, EndAttempt
from outlast_runs.claims import ClaimRuns, ReleaseAllRuns, ReleaseRuns
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import WorkflowTask
from outlast_store.database.database import Database, PostgresSettings
from outlast_store.database.postgres_server import has_skip_locked
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.journal import Journal
from outlast_store.reads.activities import find_open_activities
from outlast_store.reads.histories import read_history
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.environment import Environment
from outlast_workflow.errors import RefusedError
from outlast_workflow.history.events import (
    ActivityCompleted,
    ActivityScheduled,
    Event,
    TimerScheduled,
    WorkflowCompleted,
    WorkflowTaskCompleted,
)
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import AttemptOutcome
from outlast_workflow.primitives.payloads import Payload

TYPES = frozenset({"Tried"})
WORK = frozenset({"work"})
OPTIONS = ActivityOptions(
    start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=3)
)


@pytest.fixture(
    params=[
        "sqlite-file",
        "sqlite-memory",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("postgresql-without-skip-locked", marks=pytest.mark.postgresql),
    ]
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Each store; and PostgreSQL as if it had no ``SKIP LOCKED``, as some that speak its language have not."""
    skip_locked = False if request.param.endswith("without-skip-locked") else None
    fixture = {"sqlite-file": "sqlite_url", "sqlite-memory": None}.get(request.param, "postgresql_url")
    url = request.getfixturevalue(fixture) if fixture is not None else "sqlite://"
    settings = PostgresSettings(skip_locked=skip_locked)
    opened = Database(DatabaseUrl.parse(url), Environment(), postgres=settings)
    ensure_schema(opened)
    yield opened
    opened.dispose()


def claim_runs(worker: str, limit: int = 10) -> ClaimRuns:
    return ClaimRuns(worker, ["default"], TYPES, limit)


def claim_activities(worker: str, limit: int = 100) -> ClaimActivities:
    return ClaimActivities(worker, ["default"], WORK, limit)


def workflow_task(
    run: RunRow, worker: str, commands: list[Event], *, seen: int, now: int
) -> CommitWorkflowTask:
    record = WorkflowTaskCompleted(
        through=seen, own=0, at=now, commands=len(commands), history_events=seen, history_bytes=0, python=11
    )
    return CommitWorkflowTask(run, WorkflowTask(worker, run.fence, seen, run.inbox, record, commands))


def scheduled(command_id: int, *, priority: int = 5, options: ActivityOptions = OPTIONS) -> ActivityScheduled:
    input = Payload.of([command_id])
    return ActivityScheduled(command_id, "work", "default", input, options.snapshot, priority)


async def started(journal: Journal, *commands: Event, workflow_id: str = "w", **options: Any) -> RunRow:
    """A run that worker ``owner`` owns, with these commands."""
    environment = journal.committer._environment
    change = start(environment, workflow_id, options=StartOptions(**options))
    await journal.apply(change)
    (run,) = await journal.apply(claim_runs("owner"))
    if commands:
        now = environment.clock.now()
        applied = await journal.apply(workflow_task(run, "owner", list(commands), seen=1, now=now))
        return applied.run
    return run


def activity_of(database: Database, run_id: str, activity_id: int = 1) -> ActivityRow | None:
    with database.reader() as connection:
        found = [row for row in find_open_activities(connection, run_id) if row.activity_id == activity_id]
    return found[0] if found else None


# --- runs -----------------------------------------------------------------------------------------------------------


async def test_two_workers_claim_different_runs(journal: Journal) -> None:
    environment = journal.committer._environment
    await asyncio.gather(*[journal.apply(start(environment, f"w-{n}")) for n in range(20)])
    claimed: list[RunRow] = []
    for _ in range(3):
        for runs in await asyncio.gather(
            journal.apply(claim_runs("one", 7)), journal.apply(claim_runs("two", 7))
        ):
            assert len({run.owner_id for run in runs}) <= 1
            claimed += runs
    assert len({run.run_id for run in claimed}) == len(claimed) == 20


async def test_two_claims_of_one_batch_do_not_want_the_same_runs(journal: Journal) -> None:
    environment = journal.committer._environment
    await asyncio.gather(*[journal.apply(start(environment, f"w-{n}")) for n in range(20)])
    changes = [claim_runs(name, 7) for name in ("one", "two", "three")]
    claimed = await asyncio.gather(*[journal.apply(change) for change in changes])
    assert [len(runs) for runs in claimed] == [7, 7, 6]
    assert [change.more for change in changes] == [True, True, False]


async def test_the_oldest_runs_are_claimed_first_whatever_their_queue(journal: Journal) -> None:
    environment = journal.committer._environment
    changes = [start(environment, f"w-{n}", task_queue="ab"[n % 2]) for n in range(6)]
    for change in changes:
        await journal.apply(change)
    claim = ClaimRuns("owner", ["a", "b"], TYPES, 3)
    assert {run.workflow_id for run in await journal.apply(claim)} == {"w-0", "w-1", "w-2"}
    assert claim.more
    claim = ClaimRuns("owner", ["a", "b"], TYPES, 4)
    assert {run.workflow_id for run in await journal.apply(claim)} == {"w-3", "w-4", "w-5"}
    assert not claim.more


@pytest.mark.postgresql
async def test_runs_that_somebody_else_holds_are_passed_over(postgresql_url: str) -> None:
    """However few are wanted: those behind them are free."""
    database = Database(DatabaseUrl.parse(postgresql_url), Environment())
    journal = Journal(database, database.environment)
    journal.committer.connect()
    other = database.writer()
    try:
        runs = [(await journal.apply(start(database.environment, f"w-{n}"))).run_id for n in range(4)]
        other.exec_driver_sql("BEGIN")
        other.exec_driver_sql("SELECT 1 FROM workflow_runs WHERE run_id = %s FOR UPDATE", (runs[0],))
        (claimed,) = await journal.apply(claim_runs("owner", 1))
        assert claimed.run_id == runs[1]
        other.exec_driver_sql("ROLLBACK")
        assert {run.run_id for run in await journal.apply(claim_runs("owner", 9))} == {
            runs[0],
            runs[2],
            runs[3],
        }
    finally:
        other.close()
        await journal.close()
        database.dispose()


async def test_two_claims_of_one_batch_do_not_want_the_same_activities(journal: Journal) -> None:
    await started(journal, *[scheduled(n) for n in range(1, 21)])
    claimed = await asyncio.gather(*[journal.apply(claim_activities(name, 7)) for name in ("a", "b", "c")])
    assert [len(found) for found in claimed] == [7, 7, 6]


async def test_a_claim_finds_what_another_transaction_does_not_hold(
    journal: Journal, on_disk: Database
) -> None:
    """With ``SKIP LOCKED`` at once, without it as soon as that is over: never twice, and never nothing forever."""
    environment = journal.committer._environment
    await asyncio.gather(*[journal.apply(start(environment, f"w-{n}")) for n in range(30)])
    others = [Journal(on_disk, environment) for _ in range(3)]
    claimed: list[str] = []

    async def work(one: Journal, name: str) -> None:
        while len(claimed) < 30:
            claimed.extend(run.run_id for run in await one.apply(claim_runs(name, 4)))

    await asyncio.gather(*[work(one, f"worker-{n}") for n, one in enumerate([journal, *others])])
    assert len(set(claimed)) == len(claimed) == 30
    for one in others:
        await one.close()


@pytest.mark.parametrize(("sqlstate", "known"), [("42601", False), ("0A000", False), ("42501", None)])
def test_a_database_is_asked_whether_it_can_skip(sqlstate: str, known: bool | None) -> None:
    class Answer(Exception):
        def __init__(self) -> None:
            self.sqlstate = sqlstate

    class Elsewhere:
        """A server that answers with an error."""

        def exec_driver_sql(self, text: str) -> None:
            assert text.endswith("FOR UPDATE SKIP LOCKED")
            raise ProgrammingError(text, None, Answer())

    connection: Any = Elsewhere()
    if known is None:
        with pytest.raises(ProgrammingError):
            has_skip_locked(connection)
    else:
        assert has_skip_locked(connection) is known


async def test_a_claim_bumps_the_fence_and_the_old_owner_is_refused(journal: Journal) -> None:
    run = await started(journal)
    assert run.fence == 1
    now = journal.committer._environment.clock.now()
    late = workflow_task(run.copy(), "owner", [WorkflowCompleted(Payload.of(1))], seen=1, now=now)
    await journal.apply(ReleaseRuns("owner", [run.run_id]))
    (again,) = await journal.apply(claim_runs("other"))
    assert (again.run_id, again.fence) == (run.run_id, 2)
    with pytest.raises(RefusedError) as caught:
        await journal.apply(late)
    assert caught.value.reason == "fenced"
    done = workflow_task(again, "other", [WorkflowCompleted(Payload.of(2))], seen=1, now=now)
    applied = await journal.apply(done)
    assert applied.run.status == "completed"
    with pytest.raises(RefusedError):
        await journal.apply(done)


async def test_the_same_workflow_task_twice_is_refused(journal: Journal) -> None:
    run = await started(journal)
    now = journal.committer._environment.clock.now()
    first = workflow_task(run.copy(), "owner", [TimerScheduled(1, now + 10**12)], seen=1, now=now)
    second = workflow_task(run.copy(), "owner", [TimerScheduled(2, now + 10**12)], seen=1, now=now)
    await journal.apply(first)
    with pytest.raises(RefusedError) as caught:
        await journal.apply(second)
    assert caught.value.reason == "stale"


async def test_only_awake_runs_of_known_types_and_queues_are_claimed(journal: Journal) -> None:
    environment = journal.committer._environment
    await journal.apply(start(environment, "later", options=StartOptions(start_delay=3600)))
    assert await journal.apply(claim_runs("one")) == []
    await journal.apply(start(environment, "now"))
    assert await journal.apply(ClaimRuns("one", ["other"], TYPES, 10)) == []
    assert await journal.apply(ClaimRuns("one", ["default"], frozenset({"Else"}), 10)) == []
    assert [run.workflow_id for run in await journal.apply(claim_runs("one"))] == ["now"]


async def test_releasing_lets_go_of_own_runs_only(journal: Journal) -> None:
    run = await started(journal)
    assert await journal.apply(ReleaseRuns("stranger", [run.run_id])) == 0
    assert await journal.apply(ReleaseAllRuns("owner", 500)) == 1
    assert await journal.apply(ReleaseAllRuns("owner", 500)) == 0


# --- activities -----------------------------------------------------------------------------------------------------


async def test_activities_are_claimed_once_by_priority_then_age(journal: Journal) -> None:
    commands = [scheduled(n, priority=9 - n) for n in range(1, 6)]
    await started(journal, *commands)
    first = await journal.apply(claim_activities("one", 2))
    assert [found.row.activity_id for found in sorted(first, key=lambda found: found.row.priority)] == [5, 4]
    rest = await asyncio.gather(
        journal.apply(claim_activities("one")), journal.apply(claim_activities("two"))
    )
    assert sum(len(found) for found in rest) == 3
    assert all(found.row.attempt == 1 and found.row.start_to_close_deadline_at for found in first)


async def test_a_claim_says_whether_the_claimer_owns_the_run(journal: Journal) -> None:
    await started(journal, scheduled(1), scheduled(2))
    (mine,) = await journal.apply(claim_activities("owner", 1))
    (theirs,) = await journal.apply(claim_activities("other", 1))
    assert (mine.owner_fence, theirs.owner_fence) == (1, None)


async def test_a_result_ends_its_attempt_once(journal: Journal, database: Database) -> None:
    run = await started(journal, scheduled(1))
    await journal.apply(claim_activities("one"))
    result = ActivityCompleted(1, Payload.of("done"), 1)
    assert await journal.apply(CompleteAttempt(run.run_id, 1, 1, result))
    with pytest.raises(RefusedError) as caught:
        await journal.apply(CompleteAttempt(run.run_id, 1, 1, result))
    assert caught.value.reason == "stale_attempt"
    with database.reader() as connection:
        row = find_run(connection, run.run_id)
        assert row is not None
        assert row.wake_at is not None, "appending an event wakes the run"


async def test_a_zombies_result_is_refused_and_not_merged(journal: Journal, database: Database) -> None:
    """The attempt number is the claim's token: a rescue gives the activity to another."""
    run = await started(journal, scheduled(1))
    await journal.apply(claim_activities("zombie"))
    assert not await journal.apply(EndAttempt(run.run_id, 1, 1, RESCUED))
    (again,) = await journal.apply(claim_activities("other"))
    assert again.row.attempt == 2
    with pytest.raises(RefusedError):
        await journal.apply(CompleteAttempt(run.run_id, 1, 1, ActivityCompleted(1, Payload.of("late"), 1)))
    row = activity_of(database, run.run_id)
    assert row is not None
    assert (row.status, row.claimed_by, row.uncharged, row.rescues) == ("running", "other", 1, 1)


async def test_a_release_is_neither_counted_nor_a_rescue(journal: Journal, database: Database) -> None:
    run = await started(journal, scheduled(1))
    for attempt in range(1, 8):
        (claimed,) = await journal.apply(claim_activities("one"))
        assert (claimed.row.attempt, claimed.row.charged_attempt) == (attempt, 1)
        await journal.apply(EndAttempt(run.run_id, 1, attempt, HANDED_BACK))
    row = activity_of(database, run.run_id)
    assert row is not None
    assert (row.attempt, row.uncharged, row.rescues) == (7, 7, 0)


async def test_rescues_have_a_counter_and_a_limit_of_their_own(journal: Journal, database: Database) -> None:
    run = await started(journal, scheduled(1))
    for attempt in range(1, 5):
        (claimed,) = await journal.apply(claim_activities("doomed"))
        assert claimed.row.charged_attempt == 1
        closed = await journal.apply(EndAttempt(run.run_id, 1, attempt, RESCUED))
        assert closed == (attempt == 4)
    assert activity_of(database, run.run_id) is None
    with database.reader() as connection:
        assert read_history(connection, run.run_id)[-1][1] == "ActivityFailed"


async def test_failures_are_charged_and_end(journal: Journal, database: Database) -> None:
    run = await started(journal, scheduled(1))
    failed = AttemptEnd(AttemptOutcome.FAILED, {"category": "application", "type": "X", "message": "x"})
    attempts = 0
    while activity_of(database, run.run_id) is not None:
        claimed = await journal.apply(claim_activities("one"))
        if claimed:
            attempts += 1
            await journal.apply(EndAttempt(run.run_id, 1, attempts, failed))
    assert attempts == 3


async def test_many_workers_claim_each_activity_once(journal: Journal, on_disk: Database) -> None:
    database = on_disk
    await started(journal, *[scheduled(n) for n in range(1, 101)])
    others = [Journal(database, database.environment) for _ in range(3)]
    claimed: list[int] = []

    async def work(one: Journal, name: str) -> None:
        while len(claimed) < 100:
            for found in await one.apply(claim_activities(name, 7)):
                claimed.append(found.row.activity_id)

    await asyncio.gather(*[work(one, f"worker-{n}") for n, one in enumerate([journal, *others])])
    assert sorted(claimed) == list(range(1, 101))
    for one in others:
        await one.close()
