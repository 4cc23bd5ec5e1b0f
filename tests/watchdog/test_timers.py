"""Timers: never early, once, in the order of their times, and not past the run's end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.watchdog.stage import SECOND, Decide, Stage

from outlast_store.journal.batch import Batch
from outlast_watchdog.enforcement import Fired, FireTimers
from outlast_workflow.history.events import TimerCancelled, TimerFired
from outlast_workflow.options.options import ActivityOptions, StartOptions


async def test_a_timer_fires_at_its_time_and_not_a_microsecond_before(stage: Stage) -> None:
    run_id = await stage.start()
    timer_id = await stage.set_timer(run_id, 30)
    fire_at = stage.clock.us + 30 * SECOND
    stage.clock.advance_us(30 * SECOND - 1)
    assert (await stage.watchdog.run_pass()).done == 0
    assert (await stage.apply(FireTimers(run_id, [timer_id]))).timers == []
    assert stage.run(run_id).wake_at is None
    stage.clock.advance_us(1)
    assert (await stage.watchdog.run_pass()).counts == {"timer_fired": 1}
    assert stage.history(run_id)[-1] == TimerFired(timer_id, fire_at)
    assert stage.run(run_id).wake_at == stage.clock.us
    assert stage.rows("timers") == []
    assert (await stage.watchdog.run_pass()).done == 0


async def test_the_timers_of_a_run_fire_in_the_order_of_their_times_in_one_change(stage: Stage) -> None:
    run_id = await stage.start()
    ids = [await stage.set_timer(run_id, seconds) for seconds in (30, 10, 20, 300)]
    stage.clock.advance(60)
    batches = stage.runtime.journal.committer.statistics["batches"]
    assert (await stage.watchdog.run_pass()).counts == {"timer_fired": 3}
    assert stage.runtime.journal.committer.statistics["batches"] == batches + 1
    fired = [event.command_id for event in stage.history(run_id) if isinstance(event, TimerFired)]
    assert fired == [ids[1], ids[2], ids[0]]
    assert [row[1] for row in stage.rows("timers")] == [ids[3]]


async def test_a_timer_that_was_cancelled_meanwhile_does_not_fire(stage: Stage) -> None:
    run_id = await stage.start()
    timer_id = await stage.set_timer(run_id, 30)
    stage.clock.advance(30)
    await stage.apply(Cancel(run_id, timer_id))
    assert await stage.apply(FireTimers(run_id, [timer_id])) == Fired(stage.clock.us)


async def test_a_timer_cancelled_earlier_in_the_same_batch_does_not_fire(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    timer_id = await stage.set_timer(run_id, 30)
    stage.clock.advance(30)
    outcomes: list[object] = []
    for change in (Cancel(run_id, timer_id), FireTimers(run_id, [timer_id]), FireTimers(run_id, [timer_id])):
        stage.runtime.journal.submit(change, lambda value, error: outcomes.append(error or value))
    await stage.apply(FireTimers(run_id, [timer_id]))
    assert outcomes[1:] == [Fired(stage.clock.us)] * 2
    assert "TimerFired" not in stage.types(run_id)


async def test_two_firings_of_a_timer_in_one_batch_are_one(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    timer_id = await stage.set_timer(run_id, 30)
    stage.clock.advance(30)
    stage.runtime.journal.submit(FireTimers(run_id, [timer_id]), lambda value, error: None)
    assert (await stage.apply(FireTimers(run_id, [timer_id]))).timers == []
    assert stage.types(run_id).count("TimerFired") == 1


async def test_a_timer_of_a_run_whose_own_time_is_over_ends_the_run_instead(stage: Stage) -> None:
    run_id = await stage.start(StartOptions(run_timeout=30))
    timer_id = await stage.set_timer(run_id, 30)
    stage.clock.advance(30)
    fired = await stage.apply(FireTimers(run_id, [timer_id]))
    assert fired.timers == []
    assert fired.run.kind == "run_timeout"
    assert stage.types(run_id)[-2:] == ["TimerCancelled", "WorkflowTimedOut"]


async def test_a_timer_due_at_a_workflow_task_that_has_not_seen_it_still_fires(memory_stage: Stage) -> None:
    stage = memory_stage
    run_id = await stage.start()
    await stage.set_timer(run_id, 10)
    stage.clock.advance(10)
    await stage.set_timer(run_id, 5)
    stage.clock.advance(5)
    assert (await stage.watchdog.run_pass()).counts == {"timer_fired": 2}


class Cancel(Decide):
    """The workflow cancels a timer."""

    def __init__(self, run_id: str, timer_id: int) -> None:
        super().__init__(run_id, [TimerCancelled(timer_id)], ActivityOptions(), None)
        self.timer_id = timer_id

    def apply(self, batch: Batch) -> None:
        super().apply(batch)
        batch.remove_timer(self.runs[0], self.timer_id)


async def test_what_becomes_due_while_a_pass_is_on_its_way_goes_with_it_and_nothing_goes_early(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass reads as far ahead as the one before it took; each change looks at the clock again."""
    stage = memory_stage
    journal = stage.runtime.journal
    submit = journal.submit

    def slow(change: Any, callback: Any) -> None:
        stage.clock.advance_us(SECOND // 100)
        submit(change, callback)

    monkeypatch.setattr(journal, "submit", slow)
    run_ids = [await stage.start() for _ in range(5)]
    now = stage.clock.us
    for run_id, ms in zip(run_ids, (0, 1000, 1005, 1035, 1500), strict=True):
        await stage.set_timer(run_id, (now + ms * 1000 - stage.clock.us) / SECOND)
    for at_ms, fired in ((0, 1), (1000, 2), (1034, 0), (1035, 1)):
        stage.clock.advance_to(max(stage.clock.us, now + at_ms * 1000))
        assert (await stage.watchdog.run_pass()).done == fired
    assert [run_id for run_id in run_ids if stage.run(run_id).wake_at is not None] == run_ids[:4]
