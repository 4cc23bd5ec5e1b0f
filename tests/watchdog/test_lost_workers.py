"""Workers that died: declared once, only by who can tell, their work handed over at once, and not for ever."""

from __future__ import annotations

import pytest
from tests.watchdog.stage import POLICY, SECOND, Stage

from outlast_runs.claims import ClaimRuns
from outlast_runs.owner_losses import backoff_us
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import WorkflowTask
from outlast_watchdog.enforcement import DeclareWorkerLost, Released, ReleaseLostRuns, RescueActivity
from outlast_workflow.errors import RefusedError, StoreUnreachableError
from outlast_workflow.options.options import ActivityOptions, StartOptions

OPTIONS = ActivityOptions(schedule_to_start_timeout=600, start_to_close_timeout=600, retry_policy=POLICY)


async def test_a_lost_worker_is_declared_and_its_work_goes_to_others_at_once(stage: Stage) -> None:
    await stage.register("gone")
    run_id = await stage.start(owner_id="gone")
    activity_id = await stage.schedule(run_id, OPTIONS, claimed_by="gone")
    await stage.prove_connection()
    stage.clock.advance_us(15 * SECOND - 1)
    assert (await stage.watchdog.run_pass()).done == 0, "the lease is not over"
    stage.clock.advance_us(1)
    report = await stage.watchdog.run_pass()
    assert report.counts == {"worker_lost": 1, "run_released": 1, "activity_rescued": 1}
    assert stage.rows("workers") == []
    run = stage.run(run_id)
    assert (run.owner_id, run.fence, run.owner_losses) == (None, 2, 0)
    row = stage.activity(run_id, activity_id)
    assert (row.status, row.available_at, row.claimed_by) == ("pending", stage.clock.us, None)
    [row] = await stage.claim()
    assert (row.attempt, row.charged_attempt, row.rescues) == (2, 1, 1)
    assert await stage.complete(row)


async def test_a_rescued_attempt_is_not_charged_and_keeps_its_heartbeat_details(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, OPTIONS)
    await stage.claim(worker_id="gone")
    await stage.beat(run_id, activity_id, ["half"])
    await stage.watchdog.run_pass()
    [row] = await stage.claim()
    assert row.heartbeat_details == '["half"]'
    assert not await stage.fail(row), "attempt 1 of 3, as the policy counts"
    [rescued, failed] = stage.attempts(run_id, activity_id)
    assert (rescued.outcome, rescued.worker_id, failed.outcome) == ("rescued", "gone", "failed")


async def test_rescues_are_bounded_by_three(stage: Stage) -> None:
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, OPTIONS)
    for number in range(1, 5):
        [row] = await stage.claim(worker_id=f"gone-{number}")
        assert row.charged_attempt == 1
        assert (await stage.watchdog.run_pass()).counts == {"activity_rescued": 1}
    row = stage.activity(run_id, activity_id)
    assert (row.status, row.rescues) == ("failed", 4)
    event = stage.last_event(run_id)
    assert (event.type, event.retry_state) == ("ActivityFailed", "maximum_attempts_reached")
    assert event.failure["category"] == "internal"
    assert stage.run(run_id).wake_at is not None


@pytest.mark.parametrize(
    ("options", "kind", "end"),
    [
        (ActivityOptions(start_to_close_timeout=20, retry_policy=POLICY), "start_to_close", "pending"),
        (
            ActivityOptions(schedule_to_close_timeout=20, retry_policy=POLICY),
            "schedule_to_close",
            "timed_out",
        ),
    ],
)
async def test_what_has_expired_times_out_and_is_not_rescued(
    stage: Stage, options: ActivityOptions, kind: str, end: str
) -> None:
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, options)
    await stage.claim(worker_id="gone")
    stage.clock.advance(20)
    assert (await stage.watchdog.run_pass()).counts == {kind: 1}
    row = stage.activity(run_id, activity_id)
    assert (row.status, row.rescues) == (end, 0)


async def test_a_rescue_that_finds_a_deadline_passed_enforces_it(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(
        run_id, ActivityOptions(start_to_close_timeout=20, retry_policy=POLICY)
    )
    await stage.claim(worker_id="gone")
    stage.clock.advance(20)
    rescued = await stage.apply(RescueActivity(run_id, activity_id, "gone"))
    assert rescued.enforced.kind == "start_to_close"
    assert stage.activity(run_id, activity_id).rescues == 0


async def test_a_rescue_of_what_was_asked_to_cancel_ends_it(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    activity_id = await stage.schedule(run_id, OPTIONS)
    await stage.claim(worker_id="gone")
    await stage.cancel(run_id, activity_id)
    await stage.watchdog.run_pass()
    assert stage.activity(run_id, activity_id).status == "cancelled"
    assert stage.last_event(run_id).type == "ActivityCancelled"


async def test_a_lease_renewed_meanwhile_wins(stage: Stage) -> None:
    await stage.register("alive")
    stage.clock.advance(30)
    await stage.renew("alive")
    assert not await stage.apply(DeclareWorkerLost("alive"))
    assert len(stage.rows("workers")) == 1


async def test_work_of_a_worker_that_lives_is_not_taken(stage: Stage) -> None:
    await stage.register("alive")
    run_id = await stage.start(owner_id="alive")
    activity_id = await stage.schedule(run_id, OPTIONS, claimed_by="alive")
    assert await stage.apply(RescueActivity(run_id, activity_id, "alive")) is None
    assert await stage.apply(ReleaseLostRuns("alive", [run_id])) == Released()
    assert await stage.apply(RescueActivity(run_id, activity_id, "another")) is None
    assert (await stage.watchdog.run_pass()).done == 0


async def test_a_worker_declared_dead_can_neither_renew_nor_commit(stage: Stage) -> None:
    await stage.register("zombie")
    run_id = await stage.start(owner_id="zombie")
    await stage.apply(DeclareWorkerLost("zombie"))  # not over yet
    stage.clock.advance(30)
    assert await stage.apply(DeclareWorkerLost("zombie"))
    assert await stage.renew("zombie") == 0
    run = stage.run(run_id)
    await stage.apply(ReleaseLostRuns("zombie", [run_id]))
    stage.runtime.journal.cache.owners.add("zombie")
    stage.runtime.journal.cache.runs[run_id] = run  # what the zombie still has in memory
    workflow_task = WorkflowTask("zombie", run.fence, run.last_seq, run.inbox, None, [])
    with pytest.raises(RefusedError) as caught:
        await stage.apply(CommitWorkflowTask(run, workflow_task))
    assert caught.value.reason == "fenced"


async def test_a_pass_that_died_half_way_is_finished_by_the_next(stage: Stage) -> None:
    await stage.register("gone")
    run_id = await stage.start(owner_id="gone")
    await stage.schedule(run_id, OPTIONS, number=3, claimed_by="gone")
    stage.clock.advance(30)
    assert await stage.apply(DeclareWorkerLost("gone"))  # and there the process died
    report = await stage.watchdog.run_pass()
    assert report.counts == {"run_released": 1, "activity_rescued": 3}


async def test_nobody_is_declared_dead_before_half_a_lease_of_unbroken_connection(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = memory_stage
    await stage.register("gone")
    stage.clock.advance(100)

    async def lost(after: float) -> int:
        stage.clock.advance(after)
        report = await stage.watchdog.run_pass()
        assert (report.left == {"workers": 1}) == (not report.counts)
        return report.counts.get("worker_lost", 0)

    assert await lost(0) == 0, "this process has only just come"
    assert await lost(14) == 0
    with monkeypatch.context() as patch:
        patch.setattr(stage.runtime, "read", unreachable)
        with pytest.raises(StoreUnreachableError):
            await stage.watchdog.run_pass()
    assert await lost(2) == 0, "the connection broke: all may renew first"
    assert await lost(14) == 0
    assert await lost(16) == 0, "a gap of more than half a lease proves nothing"
    assert await lost(14) == 0
    assert await lost(1) == 1


DAY = 24 * 3600 * SECOND


async def ahead(stage: Stage) -> str:
    """A worker that has registered, and taken a run and an activity, while the clock was a day ahead."""
    stage.clock.us += DAY
    await stage.register("ahead")
    run_id = await stage.start(owner_id="ahead")
    await stage.schedule(run_id, OPTIONS, claimed_by="ahead")
    await stage.sql("UPDATE workflow_runs SET wake_at = ?", stage.clock.us)
    stage.clock.us -= DAY
    return run_id


async def test_a_worker_that_died_while_the_clock_was_ahead_is_lost_after_half_a_lease(stage: Stage) -> None:
    run_id = await ahead(stage)
    assert (await stage.watchdog.run_pass()).done == 0
    stage.clock.advance(14)
    assert (await stage.watchdog.run_pass()).done == 0
    stage.clock.advance(1)
    report = await stage.watchdog.run_pass()
    assert report.counts == {"worker_lost": 1, "run_released": 1, "activity_rescued": 1}
    assert stage.rows("workers") == []
    run = stage.run(run_id)
    assert (run.owner_id, run.wake_at) == (None, stage.clock.us), "others may claim it at once"


@pytest.mark.parametrize("back_s", [0, 24 * 3600], ids=["its clock stays ahead", "its clock is set back"])
async def test_a_clock_that_is_set_back_kills_nobody(memory_stage: Stage, back_s: int) -> None:
    stage = memory_stage
    await ahead(stage)
    await stage.watchdog.run_pass()
    for _ in range(10):
        stage.clock.advance(10)
        expires_at = stage.clock.us + DAY - back_s * SECOND + 30 * SECOND
        await stage.sql("UPDATE workers SET lease_expires_at = ?", expires_at)
        assert (await stage.watchdog.run_pass()).done == 0


async def test_a_gap_in_the_observation_proves_nothing(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = memory_stage
    await ahead(stage)
    await stage.sql("UPDATE workers SET lease_duration = ?", 60 * SECOND)
    for _ in range(4):
        stage.clock.advance(5)
        await stage.watchdog.run_pass()
    with monkeypatch.context() as patch:
        patch.setattr(stage.runtime, "read", unreachable)
        with pytest.raises(StoreUnreachableError):
            await stage.watchdog.run_pass()
    for _ in range(6):
        stage.clock.advance(5)
        assert (await stage.watchdog.run_pass()).done == 0, "all may renew after an outage"
    stage.clock.advance(5)
    assert (await stage.watchdog.run_pass()).counts["worker_lost"] == 1


async def test_a_renewal_after_the_observation_wins(memory_stage: Stage) -> None:
    stage = memory_stage
    await ahead(stage)
    [expires_at] = [row[7] for row in stage.rows("workers")]
    await stage.renew("ahead")
    assert not await stage.apply(DeclareWorkerLost("ahead", not_renewed=expires_at))
    assert stage.rows("workers")


async def test_the_lease_of_an_older_version_has_no_known_duration(memory_stage: Stage) -> None:
    stage = memory_stage
    await ahead(stage)
    await stage.sql("UPDATE workers SET lease_duration = NULL")
    for _ in range(5):
        stage.clock.advance(7)
        assert (await stage.watchdog.run_pass()).done == 0


async def unreachable(*args: object) -> object:
    raise StoreUnreachableError("away")


async def test_one_poisonous_run_waits_longer_after_each_owner_and_then_needs_a_person(stage: Stage) -> None:
    run_id = await stage.start()
    waits, attention = [], []
    for number in range(1, 6):
        stage.clock.advance(1000)
        claimed = await stage.apply(ClaimRuns(f"gone-{number}", ["default"], frozenset(["Order"]), 10))
        assert [run.run_id for run in claimed] == [run_id]
        await stage.watchdog.run_pass()
        run = stage.run(run_id)
        assert run.owner_losses == number
        waits.append(max(0, run.not_before - stage.clock.us) // SECOND)
        attention.append(run.attention)
    assert waits == [backoff_us(run_id, losses) // SECOND for losses in range(1, 6)]
    assert attention == [None, None, *["owners_keep_dying"] * 3]
    assert await stage.apply(ClaimRuns("eager", ["default"], frozenset(["Order"]), 10)) == []


async def test_a_run_that_slept_when_its_owner_died_is_not_to_blame(memory_stage: Stage) -> None:
    stage = memory_stage
    asleep = await stage.start()
    await stage.set_timer(asleep, 1000)
    delayed = await stage.start(StartOptions(start_delay=1000))
    for run_id in (asleep, delayed):
        before = stage.run(run_id).not_before
        for number in range(5):
            await stage.sql(
                "UPDATE workflow_runs SET owner_id = ? WHERE run_id = ?", f"gone-{number}", run_id
            )
            assert (await stage.watchdog.run_pass()).counts == {"run_released": 1}
        run = stage.run(run_id)
        assert (run.owner_losses, run.not_before, run.attention) == (0, before, None)


async def test_many_idle_runs_of_a_dead_worker_are_released_in_bounded_steps(stage: Stage) -> None:
    runs = [await stage.start(owner_id="gone") for _ in range(25)]
    for run_id in runs[:20]:
        await stage.set_timer(run_id, 1000)
    stage.watchdog.batch = 4
    report = await stage.watchdog.run_pass(8)
    assert report.counts == {"run_released": 8}
    assert report.reached_limit
    awake = [run_id for run_id in runs[20:] if stage.run(run_id).owner_id is not None]
    assert awake == [], "those that have something to do come first"
    assert (await stage.watchdog.run_pass()).counts == {"run_released": 17}
