"""The watchdog at work: when it wakes, what it says, and that any number of it are as good as one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.scheduled import a_row
from tests.watchdog.stage import FAILURE, POLICY, SECOND, Stage, StillClock

from outlast.testing.clock import VirtualClock, VirtualLoop
from outlast.watchdog import TaskWatchdog, WatchdogReport
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_schedules.changes import CreateSchedule
from outlast_schedules.firing import FireSchedule
from outlast_store.reads.schedules import find_schedule
from outlast_watchdog import passes
from outlast_watchdog.enforcement import EnforceActivityDeadline, FireTimers
from outlast_workflow.environment import SystemClock
from outlast_workflow.errors import (
    InvalidOptionError,
    OutcomeUnknownError,
    RefusedError,
    StoreUnreachableError,
)
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions

ONCE = ActivityOptions(start_to_close_timeout=20, retry_policy=RetryPolicy(max_attempts=1))


def in_virtual_time(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a loop that never waits, with a watchdog that looks only every 1,000 s by itself."""

    async def play() -> None:
        stage = await Stage.open("sqlite://", VirtualClock())
        stage.watchdog = TaskWatchdog(stage, interval=1000, lease_duration=10_000)
        stage.watchdog.start()
        try:
            await asyncio.sleep(1)
            await scenario(stage)
        finally:
            await stage.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())


# --- when it wakes --------------------------------------------------------------------------------------------------


def test_it_wakes_at_the_deadlines_that_this_process_writes() -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await stage.start(StartOptions(execution_timeout=60))
        activity_id = await stage.schedule(run_id, ONCE)
        await stage.claim()
        await stage.set_timer(run_id, 10)
        await asyncio.sleep(10)
        await asyncio.sleep(0.001)
        assert stage.types(run_id)[-1] == "TimerFired"
        await asyncio.sleep(10)
        [attempt] = stage.attempts(run_id, activity_id)
        assert attempt.ended_at - stage.activity(run_id, activity_id).scheduled_at - 20 * SECOND <= 2
        await asyncio.sleep(40)
        run = stage.run(run_id)
        assert run.status == "timed_out"
        assert run.closed_at is not None
        assert run.execution_deadline_at is not None
        assert 0 <= run.closed_at - run.execution_deadline_at <= 2

    in_virtual_time(scenario)


def test_a_nearer_deadline_heard_of_in_its_sleep_wakes_it_sooner() -> None:
    async def scenario(stage: Stage) -> None:
        far = await stage.start(StartOptions(execution_timeout=500))
        near = await stage.start(StartOptions(execution_timeout=5))
        await asyncio.sleep(5.001)
        assert (stage.run(far).status, stage.run(near).status) == ("pending", "timed_out")
        await asyncio.sleep(495)
        assert stage.run(far).status == "timed_out", "and the one it had set its alarm for is not forgotten"

    in_virtual_time(scenario)


def test_what_it_was_not_told_of_it_finds_at_the_next_interval() -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await stage.start(StartOptions(execution_timeout=5))
        stage.watchdog._nearest = 1 << 62
        stage.watchdog._sleep()  # as if another process had written it
        await asyncio.sleep(900)
        assert stage.run(run_id).status == "pending"
        await asyncio.sleep(100)
        assert stage.run(run_id).status == "timed_out"

    in_virtual_time(scenario)


def test_wake_makes_it_look_now() -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await stage.start(StartOptions(execution_timeout=5))
        stage.watchdog._nearest = 1 << 62
        stage.watchdog._sleep()
        await asyncio.sleep(5)
        stage.watchdog.wake()
        await asyncio.sleep(0.001)
        assert stage.run(run_id).status == "timed_out"

    in_virtual_time(scenario)


def test_a_pass_that_failed_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await stage.start(StartOptions(execution_timeout=5))
        read, errors = stage.runtime.read, [StoreUnreachableError("away"), ValueError("a defect")]

        async def fail(*args: Any) -> Any:
            if errors:
                raise errors.pop(0)
            return await read(*args)

        vars(stage.runtime)["read"] = fail
        await asyncio.sleep(1100)
        assert stage.run(run_id).status == "pending"
        assert len(errors) == 0
        await asyncio.sleep(1000)
        assert stage.run(run_id).status == "timed_out"

    in_virtual_time(scenario)
    said = [record.levelname for record in caplog.records if record.name == "outlast.watchdog"]
    assert said == ["WARNING", "ERROR"]


def test_more_than_it_does_at_a_turn_is_done_all_the_same() -> None:
    async def scenario(stage: Stage) -> None:
        stage.watchdog.batch = 2
        runs = [await stage.start(StartOptions(execution_timeout=5)) for _ in range(30)]
        await asyncio.sleep(5.1)
        assert {stage.run(run_id).status for run_id in runs} == {"timed_out"}

    in_virtual_time(scenario)


def test_stopped_it_does_nothing_more_and_it_can_be_started_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.watchdog.stop()
        await stage.watchdog.stop()
        run_id = await stage.start(StartOptions(execution_timeout=5))
        await asyncio.sleep(5000)
        assert stage.run(run_id).status == "pending"
        stage.watchdog.start()
        stage.watchdog.start()
        await asyncio.sleep(0.001)
        assert stage.run(run_id).status == "timed_out"

    in_virtual_time(scenario)


def test_rows_set_aside_do_not_keep_it_awake() -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await stage.start(StartOptions(run_timeout=5, retry_policy=POLICY))
        await stage.sql("UPDATE workflow_runs SET retry_policy = '{'")
        before = stage.runtime.journal.committer.statistics["batches"]
        await asyncio.sleep(900)
        assert stage.runtime.journal.committer.statistics["batches"] - before <= 2
        assert stage.run(run_id).status == "pending"
        await stage.wipe()

    in_virtual_time(scenario)


async def test_in_a_real_process_a_timer_fires_by_itself(database_url: str) -> None:
    stage = await Stage.open(database_url, SystemClock(), threads=True)
    try:
        stage.watchdog = TaskWatchdog(stage, interval=60)
        stage.watchdog.start()
        fired = asyncio.Event()
        run_id = await stage.start()
        stage.runtime.journal.subscribe(
            lambda news: fired.set() if len(news.events.get(run_id, ())) == 1 else None
        )
        await stage.set_timer(run_id, 0.02)
        await asyncio.wait_for(fired.wait(), 20)
    finally:
        await stage.close()


# --- the clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-3600, -1.1, 1.1, 3600])
async def test_after_a_jump_of_the_wall_clock_one_pass_is_skipped(memory_stage: Stage, jump: float) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(execution_timeout=3000))
    await stage.watchdog.run_pass()
    stage.clock.us += round(jump * SECOND)
    report = await stage.watchdog.run_pass()
    assert (report.skipped, report.done) == (True, 0)
    assert stage.run(run_id).status == "pending"
    report = await stage.watchdog.run_pass()
    assert not report.skipped
    assert report.counts == ({"execution_timeout": 1} if jump == 3600 else {})


async def test_a_clock_that_is_slewed_by_less_than_a_second_skips_nothing(memory_stage: Stage) -> None:
    await memory_stage.watchdog.run_pass()
    memory_stage.clock.us += SECOND
    assert not (await memory_stage.watchdog.run_pass()).skipped


# --- any number of them ---------------------------------------------------------------------------------------------


async def contend(url: str, runs: int, each: int, watchdogs: int) -> None:
    """Due rows of every kind, and several processes' worth of watchdogs at them at once."""
    clock = StillClock()
    first = await Stage.open(url, clock)
    stages = [first] + [await Stage.open(url, clock, threads=True, seed=n) for n in range(2, watchdogs + 1)]
    try:
        for _ in range(runs):
            await first.start(StartOptions(execution_timeout=60))
            run_id = await first.start()
            await first.schedule(run_id, ONCE, number=each, claimed_by="gone")
            await first.set_timer(run_id, 20, number=each)
        lost = await first.start(owner_id="gone")
        await first.schedule(
            lost, ActivityOptions(start_to_close_timeout=900), number=each, claimed_by="gone"
        )
        clock.advance(60)
        for stage in stages:
            stage.watchdog.batch = 7
        reports = await asyncio.gather(*(stage.watchdog.run_pass() for stage in stages))
        total = WatchdogReport(0)
        for report in reports:
            assert report.set_aside == 0
            for kind, number in report.counts.items():
                total.count(kind, number)
        assert total.counts == {
            "execution_timeout": runs,
            "start_to_close": runs * each,
            "timer_fired": runs * each,
            "activity_rescued": each,
            "run_released": 1,
        }
        assert (await first.watchdog.run_pass()).done == 0
        types = [row[2] for row in first.rows("history_events")]
        assert types.count("WorkflowTimedOut") == runs
        assert types.count("ActivityTimedOut") == types.count("TimerFired") == runs * each
        assert len(first.rows("workflow_failures")) == runs * (each + 1)
    finally:
        for stage in stages:
            await stage.close()


async def test_watchdogs_that_race_never_act_twice(sqlite_url: str) -> None:
    await contend(sqlite_url, runs=10, each=5, watchdogs=3)


async def test_watchdogs_that_race_on_postgresql_never_act_twice(postgresql_url: str) -> None:
    await contend(postgresql_url, runs=10, each=5, watchdogs=3)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["sqlite_url", "postgresql_url"])
async def test_ten_thousand_contended_enforcements(backend: str, request: pytest.FixtureRequest) -> None:
    await contend(request.getfixturevalue(backend), runs=450, each=11, watchdogs=4)


async def test_enforcing_twice_in_one_batch_is_once(memory_stage: Stage) -> None:
    stage = memory_stage
    ended = await stage.start(StartOptions(execution_timeout=20))
    busy = await stage.start()
    activity_id = await stage.schedule(busy, ONCE, claimed_by="worker-1")
    timer_id = await stage.set_timer(busy, 20)
    stage.clock.advance(20)
    changes: list[Any] = []
    for _ in range(2):
        changes += [EnforceRunDeadline(ended, "workflow-1"), EnforceActivityDeadline(busy, activity_id)]
        changes += [FireTimers(busy, [timer_id])]
    outcomes = await passes.apply_all(stage.runtime.journal, changes)
    assert outcomes[:2] != [None, None]
    assert outcomes[3:5] == [None, None]
    assert [len(outcome.timers) for outcome in (outcomes[2], outcomes[5])] == [1, 0]


async def test_two_passes_of_one_watchdog_take_turns(memory_stage: Stage) -> None:
    stage = memory_stage
    for _ in range(20):
        await stage.start(StartOptions(execution_timeout=20))
    stage.clock.advance(20)
    stage.watchdog.batch = 3
    one, two = await asyncio.gather(stage.watchdog.run_pass(), stage.watchdog.run_pass())
    assert (one.done, two.done) == (20, 0)


async def test_many_enforcements_share_a_commit(stage: Stage) -> None:
    for _ in range(150):
        await stage.start(StartOptions(execution_timeout=20))
    stage.clock.advance(20)
    before = stage.runtime.journal.committer.statistics["batches"]
    assert (await stage.watchdog.run_pass()).done == 150
    assert stage.runtime.journal.committer.statistics["batches"] - before == 1


async def test_where_the_database_fails_the_pass_says_so_and_sets_nothing_aside(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = memory_stage
    for _ in range(3):
        await stage.start(StartOptions(execution_timeout=20))
    stage.clock.advance(20)
    with monkeypatch.context() as patch:
        gone = lambda change, callback: callback(None, StoreUnreachableError("away"))  # noqa: E731
        patch.setattr(stage.runtime.journal, "submit", gone)
        with pytest.raises(StoreUnreachableError):
            await stage.watchdog.run_pass()
    assert (await stage.watchdog.run_pass()).done == 3


async def test_an_error_of_one_row_alone_sets_that_row_aside(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = memory_stage
    await stage.start(StartOptions(execution_timeout=20))
    run_id = await stage.start()
    await stage.set_timer(run_id, 20)
    stage.clock.advance(20)
    submit = stage.runtime.journal.submit

    def fail_runs(change: Any, callback: Any) -> None:
        if isinstance(change, EnforceRunDeadline):
            callback(None, StoreUnreachableError("this row only"))
        else:
            submit(change, callback)

    monkeypatch.setattr(stage.runtime.journal, "submit", fail_runs)
    report = await stage.watchdog.run_pass()
    assert (report.counts, report.set_aside) == ({"timer_fired": 1}, 1)


async def test_an_outcome_that_nobody_knows_is_no_fault_of_the_row(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by seed 102117: the pass ends, and the next one looks what is left to do."""
    stage = memory_stage
    run_id = await stage.start()
    await stage.set_timer(run_id, 20)
    stage.clock.advance(20)
    with monkeypatch.context() as patch:
        patch.setattr(
            stage.runtime.journal,
            "submit",
            lambda change, callback: callback(None, OutcomeUnknownError("lost")),
        )
        with pytest.raises(OutcomeUnknownError):
            await stage.watchdog.run_pass()
    report = await stage.watchdog.run_pass()
    assert (report.counts, report.set_aside) == ({"timer_fired": 1}, 0)


# --- what it says ---------------------------------------------------------------------------------------------------


async def test_each_enforcement_is_a_line_with_its_facts_and_no_payload(
    memory_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = memory_stage
    ended = await stage.start(StartOptions(execution_timeout=20))
    busy = await stage.start()
    activity_id = await stage.schedule(busy, ActivityOptions(heartbeat_timeout=20, retry_policy=POLICY))
    [row] = await stage.claim()
    await stage.fail(row, details=["secret"], message="secret")
    stage.clock.advance(10)
    await stage.claim()
    await stage.beat(busy, activity_id, ["secret"])
    timer_id = await stage.set_timer(busy, 10)
    stage.clock.advance(21)
    with caplog.at_level(logging.DEBUG, "outlast.watchdog"):
        await stage.watchdog.run_pass()
    records = [vars(record) for record in caplog.records if record.name == "outlast.watchdog"]
    facts = {(one.get("timeout_kind", "timer"), one["run_id"], one["lateness_s"]) for one in records}
    assert facts == {("execution_timeout", ended, 11.0), ("heartbeat", busy, 1.0), ("timer", busy, 11.0)}
    assert {one["workflow_id"] for one in records if "workflow_id" in one} == {"workflow-1"}
    assert [one["activity_id"] for one in records if "activity_id" in one] == [activity_id]
    assert [one["timer_id"] for one in records if "timer_id" in one] == [timer_id]
    assert all(one["deadline_at"].endswith("+00:00") for one in records)
    assert "secret" not in str(records)
    assert FAILURE["type"] not in str(records)


async def test_the_report_is_json_and_says_how_late_it_was(memory_stage: Stage) -> None:
    stage = memory_stage
    await stage.start(StartOptions(execution_timeout=20))
    run_id = await stage.start()
    await stage.set_timer(run_id, 100)
    stage.clock.advance(22.5)
    assert (await stage.watchdog.run_pass()).to_document() == {
        "passed_at": "2026-01-01T00:00:22.500000+00:00",
        "counts": {"execution_timeout": 1},
        "worst_lateness_seconds": 2.5,
        "set_aside": 0,
        "left": {},
        "reached_limit": False,
        "next_deadline_at": "2026-01-01T00:01:40+00:00",
        "skipped": False,
        "duration_seconds": 0.0,
    }


@pytest.mark.parametrize(
    "options", [{"interval": 0}, {"interval": -1}, {"interval": float("inf")}, {"batch": 0}, {"batch": True}]
)
async def test_options_out_of_range_are_refused(memory_stage: Stage, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        TaskWatchdog(memory_stage, **options)


async def test_a_refusal_names_what_it_refuses(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    timer_id = await stage.set_timer(run_id, 1)
    await stage.sql("UPDATE workflow_runs SET closed_at = 1, status = 'completed'")
    stage.clock.advance(1)
    with pytest.raises(RefusedError, match=run_id) as caught:
        await stage.apply(FireTimers(run_id, [timer_id]))
    assert caught.value.reason == "closed_run"
    await stage.wipe()


# --- several watchdogs, one schedule --------------------------------------------------------------------------------


def test_who_comes_second_to_a_schedule_leaves_the_next_slots_to_the_first(tmp_path: Path) -> None:
    tried: list[int] = []
    right = FireSchedule.apply

    def noted(self: FireSchedule, batch: Any) -> Any:
        tried.append(batch.now)
        return right(self, batch)

    async def play() -> None:
        clock, url = VirtualClock(), f"sqlite:///{tmp_path / 'shared.db'}"
        stages = [await Stage.open(url, clock, seed=seed) for seed in (1, 2)]
        watchdogs = [TaskWatchdog(stage, interval=1000, lease_duration=10_000) for stage in stages]
        await stages[0].apply(CreateSchedule(a_row(overlap="allow_all")))
        for watchdog in watchdogs:
            watchdog.start()
        with patch.object(FireSchedule, "apply", noted):
            await asyncio.sleep(51)
        assert len(tried) == 6, "both try to fire the first slot, and one of them the others"
        [ahead] = [watchdog for watchdog in watchdogs if not watchdog._second]
        [second] = [watchdog for watchdog in watchdogs if watchdog._second]
        # The other goes on where the first one stops.
        await ahead.stop()
        run_id = await stages[watchdogs.index(ahead)].start(StartOptions(execution_timeout=5))
        second.wake()
        await asyncio.sleep(5.001)
        assert stages[0].run(run_id).status == "timed_out", "it steps back for schedules only"
        assert second._second
        await asyncio.sleep(14.999)
        row = stages[0].runtime.read_now(find_schedule, "a")
        assert row is not None
        assert row.started == 7
        assert not any(watchdog._second for watchdog in watchdogs)
        for stage, watchdog in zip(stages, watchdogs, strict=True):
            await watchdog.stop()
            await stage.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())
