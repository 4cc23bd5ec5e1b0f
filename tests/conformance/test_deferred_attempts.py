"""Attempts that go on without a worker, on each store: who may end them, when, and what a latecomer is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.conformance.test_claims import WORK, activity_of, claim_activities, scheduled, started
from tests.watchdog.stage import StillClock

from outlast.runtime.schema_check import ensure_schema
from outlast.testing import check_database
from outlast_activities.attempts import CANCELLED, HANDED_BACK, RESCUED, AttemptEnd, request_cancel
from outlast_activities.changes import ClaimActivities, CompleteAttempt, EndAttempt
from outlast_activities.deferred_attempts import (
    CancelFromOutside,
    CompleteFromOutside,
    DeferAttempt,
    FailFromOutside,
    HeartbeatFromOutside,
    NamedAttempt,
)
from outlast_activities.heartbeats import Due
from outlast_runs.run_change import TerminateRun
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.journal.journal import Journal
from outlast_store.reads.due import LOST_CLAIMERS
from outlast_store.reads.histories import read_history
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_watchdog.enforcement import EnforceActivityDeadline, RescueActivity
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    ActivityNotFoundError,
    AttemptNotRunningError,
    RefusedError,
    RunNotFoundError,
)
from outlast_workflow.history.events import ActivityCompleted, ActivityScheduled
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import AttemptOutcome
from outlast_workflow.primitives.payloads import Payload

SECOND = 1_000_000
RETRIED = RetryPolicy(initial_interval=1, backoff_coefficient=1, max_attempts=3)
BOUNDED = ActivityOptions(start_to_close_timeout=60, retry_policy=RETRIED)
BEATING = ActivityOptions(heartbeat_timeout=10, retry_policy=RETRIED)
FAILURE = {"category": "application", "type": "Refused", "message": "no"}
FAILED = AttemptEnd(AttemptOutcome.FAILED, FAILURE)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def database(database_url: str, clock: StillClock) -> Iterator[Database]:
    """Each store, on a clock that stands still."""
    opened = Database(DatabaseUrl.parse(database_url), Environment(clock))
    ensure_schema(opened)
    yield opened
    opened.dispose()


class RequestCancel(BaseChange):
    """The workflow no longer wants its activity."""

    def __init__(self, run_id: str) -> None:
        self.runs = (run_id,)
        self.activities = ((run_id, 1),)

    def apply(self, batch: Batch) -> None:
        run = batch.run(self.runs[0])
        assert run is not None
        request_cancel(batch, run, batch.activity(*self.activities[0]))


class Outside:
    """A workflow whose activity's first attempt runs, and a party outside that knows its token."""

    def __init__(self, journal: Journal, database: Database, run: RunRow) -> None:
        self.journal = journal
        self.database = database
        self.run = run

    def named(self, attempt: int | None = 1) -> NamedAttempt:
        return NamedAttempt(self.run.run_id, 1, attempt)

    async def defer(self, attempt: int = 1, details: str | None = None) -> bool:
        heartbeat = Due(details, self.database.environment.clock.now()) if details is not None else None
        change = DeferAttempt(self.run.run_id, 1, attempt, heartbeat)
        return bool(await self.journal.apply(change))

    async def complete(self, attempt: int | None = 1, result: Any = "yes") -> AttemptNotRunningError | None:
        return await self.journal.apply(CompleteFromOutside(self.named(attempt), Payload.of(result)))

    async def fail(self, attempt: int | None = 1) -> AttemptNotRunningError | None:
        return await self.journal.apply(FailFromOutside(self.named(attempt), FAILURE))

    async def cancel(self, attempt: int | None = 1) -> AttemptNotRunningError | None:
        return await self.journal.apply(CancelFromOutside(self.named(attempt)))

    async def beat(
        self, attempt: int | None = 1, details: str | None = None
    ) -> AttemptNotRunningError | bool:
        return await self.journal.apply(HeartbeatFromOutside(self.named(attempt), details))

    @property
    def row(self) -> ActivityRow | None:
        return activity_of(self.database, self.run.run_id)

    @property
    def open_row(self) -> ActivityRow:
        row = self.row
        assert row is not None
        return row

    @property
    def ends(self) -> list[str]:
        with self.database.reader() as connection:
            types = [row[1] for row in read_history(connection, self.run.run_id)]
        return [type for type in types if type.startswith("Activity") and type != "ActivityScheduled"]

    async def claim_again(self, clock: StillClock) -> int:
        """The next attempt, after its backoff."""
        clock.advance(1)
        (claimed,) = await self.journal.apply(claim_activities("other"))
        return claimed.row.attempt


async def begun(journal: Journal, database: Database, options: ActivityOptions = BOUNDED) -> Outside:
    run = await started(journal, scheduled(1, options=options))
    await journal.apply(claim_activities("one"))
    return Outside(journal, database, run)


@pytest.fixture
async def outside(journal: Journal, database: Database) -> AsyncIterator[Outside]:
    made = await begun(journal, database)
    yield made
    with database.reader() as connection:
        assert check_database(connection) == []


# --- deferring ------------------------------------------------------------------------------------------------------


async def test_a_deferred_attempt_runs_on_without_a_worker(outside: Outside, database: Database):
    before = outside.open_row
    assert await outside.defer(details='["asked"]')
    row = outside.open_row
    assert (row.status, row.claimed_by, row.attempt, row.is_deferred) == ("running", None, 1, True)
    assert (row.started_at, row.next_deadline_at) == (before.started_at, before.next_deadline_at)
    assert row.heartbeat_details == '["asked"]'
    assert await outside.defer(), "the same again, as by a worker that did not hear the answer"
    with database.reader() as connection:
        assert connection.exec_driver_sql(LOST_CLAIMERS).fetchall() == []
    rescue = RescueActivity(outside.run.run_id, 1, "one")
    assert await outside.journal.apply(rescue) is None, "its worker may die"
    assert await outside.journal.apply(claim_activities("other")) == [], "nobody claims it"


async def test_a_deferral_of_an_attempt_that_is_over_is_refused(outside: Outside):
    assert not await outside.journal.apply(EndAttempt(outside.run.run_id, 1, 1, RESCUED))
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            await outside.defer()
        assert caught.value.reason == "stale_attempt"
        await outside.journal.apply(claim_activities("other"))
    assert outside.open_row.claimed_by == "other"


async def test_a_deadline_beats_the_deferral(outside: Outside, clock: StillClock):
    clock.advance(60)
    assert not await outside.defer()
    assert (outside.open_row.status, outside.open_row.uncharged) == ("pending", 0)


# --- ending it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deferred", [True, False], ids=["deferred", "before the deferral"])
@pytest.mark.parametrize("attempt", [1, None], ids=["token", "ids"])
async def test_a_result_completes_it_once(outside: Outside, deferred: bool, attempt: int | None):
    if deferred:
        await outside.defer()
    assert await outside.complete(attempt) is None
    assert outside.row is None
    assert outside.ends == ["ActivityCompleted"]
    if not deferred:
        with pytest.raises(RefusedError):
            await outside.defer()
    for verb in (outside.complete, outside.fail, outside.cancel, outside.beat):
        with pytest.raises(AttemptNotRunningError, match="it has completed already") as caught:
            await verb(attempt)
        assert (caught.value.outcome, caught.value.status) == ("completed", "completed")
    assert outside.ends == ["ActivityCompleted"]


async def test_the_workers_own_result_and_one_from_outside_exclude_each_other(outside: Outside):
    own = CompleteAttempt(outside.run.run_id, 1, 1, ActivityCompleted(1, Payload.of("own"), 1))
    assert await outside.journal.apply(own)
    with pytest.raises(AttemptNotRunningError):
        await outside.complete()
    assert outside.ends == ["ActivityCompleted"]


@pytest.mark.parametrize("deferred", [True, False], ids=["deferred", "before the deferral"])
async def test_a_failure_is_retried_and_the_old_token_is_refused(
    outside: Outside, clock: StillClock, deferred: bool
):
    if deferred:
        await outside.defer()
    assert await outside.fail() is None
    assert (outside.open_row.status, outside.open_row.started_at) == ("pending", None)
    with pytest.raises(AttemptNotRunningError, match="its attempt has failed; the next one waits") as caught:
        await outside.complete()
    assert (caught.value.outcome, caught.value.status) == ("failed", "pending")
    with pytest.raises(AttemptNotRunningError, match="send this again once a worker") as caught:
        await outside.complete(None)
    assert (caught.value.outcome, caught.value.status) == (None, "pending")
    assert await outside.claim_again(clock) == 2
    with pytest.raises(AttemptNotRunningError, match="the attempt that runs now has a token") as caught:
        await outside.complete()
    assert (caught.value.outcome, caught.value.status) == ("failed", "running")
    await outside.defer(2)
    assert await outside.complete(2) is None
    assert outside.ends == ["ActivityCompleted"]


async def test_the_last_failure_ends_it(outside: Outside, clock: StillClock):
    for attempt in (1, 2, 3):
        await outside.defer(attempt)
        await outside.fail(attempt)
        if attempt < 3:
            assert await outside.claim_again(clock) == attempt + 1
    assert outside.ends == ["ActivityFailed"]
    for named in (2, 3, None):
        with pytest.raises(AttemptNotRunningError, match="its attempt has failed"):
            await outside.complete(named)


@pytest.mark.parametrize(
    ("end", "words"),
    [(RESCUED, "the worker of its attempt died"), (HANDED_BACK, "the worker of its attempt was shut down")],
)
async def test_a_worker_that_is_gone_before_the_deferral_gives_the_token_up(
    outside: Outside, clock: StillClock, end: AttemptEnd, words: str
):
    await outside.journal.apply(EndAttempt(outside.run.run_id, 1, 1, end))
    with pytest.raises(AttemptNotRunningError, match=words) as caught:
        await outside.complete()
    assert caught.value.outcome == end.outcome.value
    assert await outside.claim_again(clock) == 2
    assert await outside.complete(2) is None


async def test_two_verbs_of_one_transaction_exclude_each_other(outside: Outside):
    await outside.defer()
    first, second = await asyncio.gather(outside.fail(), outside.complete(), return_exceptions=True)
    assert first is None
    assert isinstance(second, AttemptNotRunningError)
    assert second.outcome == "failed"


# --- deadlines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["complete", "fail", "beat"])
async def test_at_its_deadline_the_timeout_wins_and_is_enforced(
    outside: Outside, clock: StillClock, verb: str
):
    await outside.defer()
    clock.advance(60)
    found = await getattr(outside, verb)()
    assert isinstance(found, AttemptNotRunningError)
    assert (found.outcome, found.status) == ("timed_out", "pending")
    assert await outside.claim_again(clock) == 2


async def test_the_watchdog_ends_what_nobody_completes(outside: Outside, clock: StillClock):
    await outside.defer()
    clock.advance(60)
    enforced = await outside.journal.apply(EnforceActivityDeadline(outside.run.run_id, 1))
    assert enforced is not None
    assert (enforced.kind.value, outside.open_row.status) == ("start_to_close", "pending")


async def test_the_handlers_last_heartbeat_counts_from_when_it_beat(
    journal: Journal, database: Database, clock: StillClock
):
    outside = await begun(journal, database, BEATING)
    clock.advance(5)
    heartbeat = Due(None, clock.us)
    clock.advance(4)
    assert await journal.apply(DeferAttempt(outside.run.run_id, 1, 1, heartbeat))
    assert outside.open_row.heartbeat_deadline_at == heartbeat.beat_at + 10 * SECOND


async def test_heartbeats_from_outside_count_from_their_write(
    journal: Journal, database: Database, clock: StillClock
):
    outside = await begun(journal, database, BEATING)
    await outside.defer()
    for number in range(3):
        clock.advance(9)
        assert await outside.beat(details=f"[{number}]") is False
        assert outside.open_row.heartbeat_deadline_at == clock.us + 10 * SECOND
    assert await outside.beat() is False
    assert outside.open_row.heartbeat_details == "[2]", "one without details leaves the earlier ones"
    clock.advance(10)
    assert isinstance(await outside.beat(), AttemptNotRunningError)
    assert await outside.claim_again(clock) == 2
    assert outside.open_row.heartbeat_details == "[2]", "the next attempt gets them"


# --- cancelling -----------------------------------------------------------------------------------------------------


async def test_a_heartbeat_tells_of_a_cancel_request_and_a_verb_acknowledges_it(outside: Outside):
    await outside.defer()
    with pytest.raises(RefusedError) as caught:
        await outside.cancel()
    assert caught.value.reason == "no_cancel_request"
    await outside.journal.apply(RequestCancel(outside.run.run_id))
    assert (outside.open_row.status, outside.open_row.cancel_requested) == ("running", True)
    assert await outside.beat() is True
    assert await outside.cancel() is None
    assert outside.ends == ["ActivityCancelled"]
    with pytest.raises(AttemptNotRunningError, match="it was cancelled"):
        await outside.complete()


async def test_an_attempt_that_ended_before_its_activity_was_cancelled_is_said_to_have_ended_so(
    outside: Outside, clock: StillClock
):
    await outside.defer()
    clock.advance(60)
    assert isinstance(await outside.beat(), AttemptNotRunningError)
    await outside.journal.apply(RequestCancel(outside.run.run_id))
    assert outside.ends == ["ActivityCancelled"]
    for verb in (outside.complete, outside.fail, outside.beat, outside.cancel):
        with pytest.raises(AttemptNotRunningError, match="its attempt has timed out") as caught:
            await verb()
        assert (caught.value.outcome, caught.value.status) == ("timed_out", "cancelled")
        with pytest.raises(AttemptNotRunningError) as caught:
            await verb(None)
        assert caught.value.outcome == "cancelled", "by ids it is the activity that is meant"


async def test_what_completes_after_a_cancel_request_is_completed(outside: Outside):
    await outside.defer()
    await outside.journal.apply(RequestCancel(outside.run.run_id))
    assert await outside.complete() is None
    assert outside.ends == ["ActivityCompleted"]


# --- ends of others -------------------------------------------------------------------------------------------------


async def test_the_end_of_its_run_closes_it(outside: Outside):
    await outside.defer()
    await outside.journal.apply(TerminateRun("w", outside.run.run_id, None))
    assert outside.ends == ["ActivityCancelled"]
    for attempt in (1, None):
        with pytest.raises(AttemptNotRunningError, match=r"has ended \(terminated\)") as caught:
            await outside.complete(attempt)
        assert caught.value.outcome == "cancelled"


async def test_a_failure_after_a_cancellation_is_recorded_once(outside: Outside, database: Database):
    """What the outside could not undo is seen, though the run has ended: the rows say it, and no event."""
    await outside.defer()
    await outside.journal.apply(TerminateRun("w", outside.run.run_id, None))
    assert await outside.fail() is None
    with database.reader() as connection:
        found = connection.exec_driver_sql("SELECT outcome, failure FROM activity_attempts").fetchall()
        failures = connection.exec_driver_sql("SELECT exception_class FROM workflow_failures").fetchall()
    assert [outcome for outcome, _ in found] == ["failed"]
    assert ("Refused",) in [tuple(row) for row in failures]
    assert outside.ends == ["ActivityCancelled"]
    with pytest.raises(AttemptNotRunningError):
        await outside.fail()
    with pytest.raises(AttemptNotRunningError):
        await outside.complete()


async def test_a_failure_after_a_cancel_request_is_not_retried(outside: Outside):
    await outside.defer()
    await outside.journal.apply(RequestCancel(outside.run.run_id))
    assert await outside.fail() is None
    assert outside.row is None
    assert outside.ends == ["ActivityCancelled"], "the code has gone on: its rows say that it failed"


async def test_a_run_past_its_deadline_is_ended_first(
    journal: Journal, database: Database, clock: StillClock
):
    run = await started(
        journal, scheduled(1, options=ActivityOptions(start_to_close_timeout=900)), run_timeout=60
    )
    await journal.apply(claim_activities("one"))
    outside = Outside(journal, database, run)
    await outside.defer()
    clock.advance(60)
    found = await outside.complete()
    assert isinstance(found, AttemptNotRunningError)
    assert "has ended (timed_out)" in found.message
    assert outside.ends == ["ActivityCancelled"]


async def test_what_is_not_there_is_said(outside: Outside, journal: Journal):
    def completed(*ids: Any) -> CompleteFromOutside:
        return CompleteFromOutside(NamedAttempt(*ids), Payload.of(1))

    with pytest.raises(RunNotFoundError):
        await journal.apply(completed("no-run", 1, 1))
    with pytest.raises(RunNotFoundError):
        await journal.apply(completed(outside.run.run_id, 1, None, "other-workflow"))
    with pytest.raises(ActivityNotFoundError) as caught:
        await journal.apply(completed(outside.run.run_id, 2, None, "w"))
    assert caught.value.activity_id == 2
    with pytest.raises(AttemptNotRunningError, match="the attempt that was named has ended"):
        await outside.complete(7)


async def test_a_local_activity_ends_where_it_runs(journal: Journal, database: Database):
    command = ActivityScheduled(1, "work", "default", Payload.of([]), BOUNDED.snapshot, 5, local=True)
    run = await started(journal, command)
    with pytest.raises(RefusedError) as caught:
        await Outside(journal, database, run).complete(None)
    assert caught.value.reason == "local_activity"
    with pytest.raises(RefusedError):
        await journal.apply(EndAttempt(run.run_id, 1, 1, CANCELLED))


async def test_only_known_types_are_claimed_after_a_failure_from_outside(outside: Outside, clock: StillClock):
    await outside.defer()
    await outside.fail()
    clock.advance(1)
    assert await outside.journal.apply(ClaimActivities("x", ["default"], frozenset({"else"}), 5)) == []
    (claimed,) = await outside.journal.apply(ClaimActivities("x", ["default"], WORK, 5))
    assert claimed.row.last_failure is not None
