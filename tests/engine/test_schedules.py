"""Schedules end to end, in virtual time: slots, policies, outages, triggers, backfills, changes."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.conftest import MakeEnvironment

from outlast import At, Client, Cron, Every, Overlap, RetryPolicy, Schedule, StartOptions, workflow
from outlast.client.schedules.views import ScheduleDescription
from outlast.errors import (
    ApplicationError,
    DamagedScheduleError,
    DurableCallError,
    InvalidOptionError,
    PayloadEncodeError,
    QueueNotFoundError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    StructuralLimitError,
    WorkflowAlreadyStartedError,
)
from outlast.testing import TestEnvironment
from outlast_schedules import firing
from outlast_schedules.changes import BackfillSchedule
from outlast_schedules.due_slots import DueSlots, due_slots
from outlast_schedules.firing import FireSchedule, Start
from outlast_schedules.specs.calendar import Calendar
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.schedules import find_schedule
from outlast_store.schema.rows import ScheduleRow
from outlast_watchdog.watchdog import TaskWatchdog


@workflow.defn
async def told_slot(name: str = "x") -> list[Any]:
    """Say which slot this is for, and what the one before returned."""
    schedule = workflow.info().schedule
    last = workflow.info().last_result
    return [name, None if schedule is None else schedule.scheduled_at.isoformat(), last and last[1]]


@workflow.defn
async def lasting(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow.defn
async def failing(times: int) -> str:
    """Fail as often as told, counted by what the schedule hands on."""
    failure = workflow.info().last_failure
    before = int(failure.message) if isinstance(failure, ApplicationError) else 0
    if before < times:
        raise ApplicationError(str(before + 1))
    return f"after {before}"


@workflow.defn
async def twice(again: bool = True) -> str | None:
    """Continue as new once, then say which schedule started the chain."""
    if again:
        workflow.continue_as_new(False)
    schedule = workflow.info().schedule
    return None if schedule is None else schedule.schedule_id


WORKFLOWS = [told_slot, lasting, failing, twice]


async def ids_of(client: Client, schedule_id: str) -> list[str]:
    """The ids of the workflows of a schedule, without the schedule's own, in order."""
    found = [run.workflow_id async for run in client.list(schedule=schedule_id, latest=True)]
    return sorted(one.removeprefix(f"{schedule_id}-") for one in found)


def minutes(description: ScheduleDescription, outcome: str) -> list[int]:
    return [one.slot.minute for one in description.recent if one.slot is not None and one.outcome == outcome]


# --- slots ----------------------------------------------------------------------------------------------------------


async def test_each_slot_starts_a_workflow_that_knows_it_and_the_result_before(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        nightly = await env.client.schedules.create(
            "nightly", told_slot, "zurich", spec=Cron("0 2 * * *", time_zone="Europe/Zurich")
        )
        await env.sleep(days=2)
        assert await ids_of(env.client, "nightly") == ["2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z"]
        first, second = "2026-01-01T01:00:00+00:00", "2026-01-02T01:00:00+00:00"
        results = [
            await env.client.handle(f"nightly-{slot}").result()
            for slot in ("2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z")
        ]
        assert results == [["zurich", first, None], ["zurich", second, first]]
        described = await nightly.describe(next=2)
        assert (described.started, described.skipped, described.missed) == (2, 0, 0)
        assert [slot.isoformat() for slot in described.next_slots] == [
            "2026-01-03T01:00:00+00:00",
            "2026-01-04T01:00:00+00:00",
        ]
        assert described.last_slot_at == datetime(2026, 1, 2, 1, tzinfo=UTC)
        runs = [run async for run in env.client.list(schedule="nightly")]
        assert all(run.search_attributes == {"outlast_schedule": "nightly"} for run in runs)


async def test_a_slot_fires_at_its_time_to_the_moment(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.schedules.create("s", told_slot, spec=Every(3600))
        begin = env.now()
        await env.sleep(hours=5, seconds=1)
        runs = [run.created_at async for run in env.client.list(schedule="s", order="oldest")]
        assert runs == [begin + timedelta(hours=n) for n in range(1, 6)]


async def test_the_failure_of_one_is_handed_to_the_next(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.schedules.create("s", failing, 2, spec=Every(60))
        await env.sleep(minutes=3, seconds=1)
        ids = await ids_of(env.client, "s")
        described = [(await env.client.describe(f"s-{one}")).run.status for one in ids]
        assert described == ["failed", "failed", "completed"]
        assert await env.client.handle(f"s-{ids[2]}").result() == "after 2"


async def test_a_chain_stays_the_schedules(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", twice, spec=At(env.now() + timedelta(minutes=1)))
        await env.sleep(minutes=2)
        [one] = await ids_of(env.client, "s")
        assert await env.client.handle(f"s-{one}").result() == "s"
        described = await handle.describe()
        assert (described.next_slots, described.next_look_at, described.started) == ((), None, 1)


async def test_options_reach_the_workflow(in_memory: MakeEnvironment) -> None:
    options = StartOptions(
        execution_timeout=7200,
        run_timeout=3600,
        retry_policy=RetryPolicy(max_attempts=3),
        memo={"team": "blue"},
        search_attributes={"region": "eu", "size": 5},
        priority=2,
        summary="a report",
    )
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.schedules.create("s", told_slot, spec=Every(60), options=options, max_runs=1)
        await env.sleep(minutes=2)
        [run] = [run async for run in env.client.list(where={"region": "eu"})]
        described = await env.client.describe(run.workflow_id)
        assert run.search_attributes == {"region": "eu", "size": 5, "outlast_schedule": "s"}
        assert (run.priority, run.summary) == (2, "a report")
        assert described.execution_timeout_seconds == 7200
        assert described.run.run_timeout_seconds == 3600
        assert described.run.memo == {"team": "blue"}


async def test_jitter_delays_within_its_bound(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        for number in range(10):
            await env.client.schedules.create(f"s-{number}", told_slot, spec=Every(3600), jitter=600)
        await env.sleep(minutes=59)
        assert await env.client.count() == 0
        await env.sleep(minutes=12)
        late = [(run.created_at - datetime(2026, 1, 1, 1, tzinfo=UTC)) async for run in env.client.list()]
        assert len(set(late)) == 10
        assert timedelta() <= min(late) <= max(late) < timedelta(minutes=10)


# --- overlap --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "started", "skipped", "buffered"),
    [
        ("skip", [1, 4, 7], 6, 0),
        ("buffer_one", [1, 2, 4, 7], 4, 1),
        ("buffer_all", [1, 2, 3, 4], 0, 5),
        ("cancel_other", [1, 2, 3, 4, 5, 6, 7, 8, 9], 0, 0),
        ("terminate_other", [1, 2, 3, 4, 5, 6, 7, 8, 9], 0, 0),
        ("allow_all", [1, 2, 3, 4, 5, 6, 7, 8, 9], 0, 0),
    ],
)
async def test_overlap_policies(
    in_memory: MakeEnvironment, overlap: str, started: list[int], skipped: int, buffered: int
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", lasting, 150, spec=Every(60), overlap=overlap)
        await env.sleep(minutes=9, seconds=20)
        described = await handle.describe()
        assert [int(one[14:16]) for one in await ids_of(env.client, "s")] == started
        assert (described.started, described.skipped, len(described.buffered)) == (
            len(started),
            skipped,
            buffered,
        )
        ends = Counter([run.status.value async for run in env.client.list()])
        if overlap == "cancel_other":
            assert ends == {"cancelled": 8, "running": 1}
        if overlap == "terminate_other":
            assert ends == {"terminated": 8, "running": 1}


async def test_a_buffered_slot_follows_within_a_second(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.schedules.create("s", lasting, 90, spec=Every(60), overlap="buffer_one")
        await env.sleep(minutes=2, seconds=32)
        runs = [run.created_at async for run in env.client.list(order="oldest")]
        gap = runs[1] - runs[0] - timedelta(seconds=90)
        assert timedelta() <= gap <= timedelta(seconds=1)


@pytest.mark.parametrize("overlap", ["buffer_one", "buffer_all", "cancel_other"])
async def test_a_slot_that_waits_starts_when_the_workflow_before_ends_in_this_process(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, overlap: str
) -> None:
    # Nobody looks by the clock, and the pass of every second finds nothing due.
    monkeypatch.setattr(firing, "LOOK_AGAIN_US", 3_600_000_000)
    async with in_memory(workflows=WORKFLOWS) as env:
        end = env.now() + timedelta(minutes=2)
        await env.client.schedules.create(
            "s", lasting, 90, spec=Every(60), overlap=overlap, end_at=end, catch_up="all"
        )
        await env.sleep(minutes=5)
        runs = [run async for run in env.client.list(order="oldest")]
        assert len(runs) == 2
        assert runs[0].closed_at is not None
        waited = runs[1].created_at - runs[0].closed_at
        # A pass that did something is followed by a pause of five milliseconds.
        assert timedelta() <= waited <= timedelta(milliseconds=6)


async def test_the_end_of_another_workflow_of_the_schedule_starts_nothing(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    right = firing.FireSchedule.apply

    def noted(self: firing.FireSchedule, batch: Any) -> Any:
        written.append(self.row.schedule_id)
        return right(self, batch)

    async with in_memory(workflows=WORKFLOWS) as env:
        end = env.now() + timedelta(minutes=2)
        handle = await env.client.schedules.create(
            "s", lasting, 3600, spec=Every(60), overlap="buffer_one", end_at=end
        )
        await env.sleep(minutes=1, seconds=30)
        first = (await handle.describe()).recent[-1].workflow_id
        assert first is not None
        await handle.backfill(env.now() - timedelta(minutes=2), env.now() - timedelta(minutes=1))
        await env.sleep(minutes=1)
        assert len((await handle.describe()).buffered) == 1
        monkeypatch.setattr(firing, "LOOK_AGAIN_US", 3_600_000_000)
        await env.sleep(seconds=2)
        monkeypatch.setattr(firing.FireSchedule, "apply", noted)
        # What was filled in later is no reason to look: the slot waits for the one that the schedule started last.
        await env.client.handle("s-2026-01-01T00:00:00Z").terminate("enough")
        await env.sleep(seconds=1)
        assert written == []
        await env.client.handle(first).terminate("enough")
        await env.sleep(seconds=1)
        assert written == ["s"]


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("catch_up", "started"), [("latest", 1), ("all", 24), ("none", 0)])
async def test_a_days_outage(in_memory: MakeEnvironment, catch_up: str, started: int) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create(
            "s", told_slot, spec=Every(3600), catch_up=catch_up, overlap="allow_all"
        )
        await env.worker.stop()
        await env.sleep(days=1, minutes=30)
        env.worker = env.new_worker(workflows=WORKFLOWS)
        await env.worker.start()
        await env.sleep(minutes=1)
        described = await handle.describe()
        assert (described.started, described.missed) == (started, 24 - started)
        if catch_up == "latest":
            assert described.last_slot_at == datetime(2026, 1, 2, tzinfo=UTC)
        # Life goes on.
        await env.sleep(hours=1)
        assert (await handle.describe()).started == started + 1


async def test_only_what_is_within_the_window_is_caught_up(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        options: dict[str, Any] = {"spec": Every(3600), "overlap": "allow_all", "catch_up_window": 3 * 3600}
        everything = await env.client.schedules.create("a", told_slot, catch_up="all", **options)
        options["spec"] = Every(86400, offset=12 * 3600)
        rare = await env.client.schedules.create("b", told_slot, **options)
        await env.worker.stop()
        await env.sleep(days=1, minutes=30)
        env.worker = env.new_worker(workflows=WORKFLOWS)
        await env.worker.start()
        await env.sleep(minutes=1)
        described = await everything.describe()
        assert (described.started, described.missed) == (3, 21)
        described = await rare.describe()
        assert (described.started, described.missed) == (0, 1)


async def test_a_backlog_is_started_in_parts(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create(
            "s", told_slot, spec=Every(60), catch_up="all", overlap="allow_all"
        )
        await env.worker.stop()
        await env.sleep(minutes=350)
        env.worker = env.new_worker(workflows=WORKFLOWS)
        await env.worker.start()
        await env.sleep(1)
        described = await handle.describe()
        assert (described.started, described.missed) == (350, 0)
        assert await env.client.count() == 350


async def test_a_clock_that_is_set_back_fires_nothing_again(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(3600))
        await env.sleep(hours=3, seconds=1)
        assert (await handle.describe()).started == 3
        env.clock.jump(-2 * 3600)
        watchdog = TaskWatchdog(env.client)
        for _ in range(6):
            await watchdog.run_pass()
            await env.sleep(minutes=20)
        assert (await handle.describe()).started == 3
        await watchdog.run_pass()
        await env.sleep(hours=1)
        described = await handle.describe()
        assert (described.started, described.skipped, described.missed) == (4, 0, 0)


async def test_a_preview_of_what_is_all_excluded_says_so_at_once(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        each_second, all_of_them = Cron("* * * * * *"), [Cron("0-59 * * * * *")]
        looked: list[int] = []
        right = Cron.covered_until

        def counted(self: Cron, at: int) -> int | None:
            looked.append(at)
            return right(self, at)

        with patch.object(Cron, "covered_until", counted):
            with pytest.raises(InvalidOptionError, match="has found no slot: exclude less") as refused:
                await env.client.schedules.preview(each_second, exclude=all_of_them)
            next_minute = (env.now() + timedelta(minutes=1)).minute
            others = ",".join(str(minute) for minute in range(60) if minute != next_minute)
            but_a_minute = Cron(f"0-59 {others} * * * *")
            with pytest.raises(InvalidOptionError, match="has found 60 of 100 slots"):
                await env.client.schedules.preview(each_second, exclude=but_a_minute, next=100)
        assert refused.value.field == "exclude"
        assert len(looked) < 2 * 5_000


async def test_many_excluded_slots_in_a_row_do_not_end_a_schedule(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.sleep(hours=8, minutes=59, seconds=58)
        each_second = Cron("* * * * * *")
        by_the_second = Cron("0-59 * 9-17 * * *")
        handle = await env.client.schedules.create("s", told_slot, spec=each_second, exclude=by_the_second)
        await env.sleep(hours=9, seconds=3.5)
        described = await handle.describe()
        assert (described.started, described.skipped, described.missed) == (3, 0, 0)
        assert described.recent[-1].slot == datetime(2026, 1, 1, 18, 0, 1, tzinfo=UTC)


@settings(max_examples=150)
@given(
    period=st.integers(1, 7200),
    catch_up=st.sampled_from(["latest", "all", "none"]),
    window=st.integers(0, 5000),
    looks=st.lists(st.integers(1, 9000), min_size=1, max_size=8),
    jitter=st.integers(0, 5000),
)
def test_every_slot_between_two_looks_is_decided_once(
    period: int, catch_up: str, window: int, looks: list[int], jitter: int
) -> None:
    calendar = Calendar(Every(period), jitter=jitter)
    row = a_row(calendar, catch_up, window * 1_000_000)
    begin = now = row.decided_until
    acted: list[int] = []
    missed = 0
    for seconds in looks:
        now += seconds * 1_000_000
        while True:
            found: DueSlots = due_slots(calendar, row, now)
            acted += found.slots
            missed += found.missed
            row.decided_until = found.decided_until
            if found.next_at is None or found.next_at > now:
                break
    due = []
    for slot in islice(calendar.slots(begin), 100_000):
        if calendar.fire_at("s", slot) > now:
            break
        due.append(slot)
    assert acted == sorted(set(acted))
    assert set(acted) <= set(due)
    assert len(acted) + missed == len(due)


def a_row(calendar: Calendar, catch_up: str, window: int) -> ScheduleRow:
    return ScheduleRow(
        schedule_id="s",
        version=1,
        workflow_type="w",
        task_queue="default",
        input="[]",
        action="{}",
        spec=calendar.to_json(),
        overlap="skip",
        catch_up=catch_up,
        catch_up_window=window,
        pause_on_failure=False,
        paused_at=None,
        note=None,
        max_runs=None,
        remaining_runs=None,
        decided_until=1_767_225_600_000_000,
        last_slot_at=None,
        next_look_at=None,
        buffered=None,
        last_workflow_id=None,
        last_first_run_id=None,
        failed_run_id=None,
        recent=None,
        started=0,
        skipped=0,
        missed=0,
        created_at=0,
        updated_at=0,
    )


# --- pausing, limits ------------------------------------------------------------------------------------------------


async def test_what_passes_while_it_is_paused_is_not_missed(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(60), catch_up="all")
        await env.sleep(minutes=1, seconds=30)
        await handle.pause("the customer's database moves")
        described = await handle.describe()
        assert (described.paused, described.note) == (True, "the customer's database moves")
        assert described.next_slots == ()
        assert [one.schedule_id async for one in env.client.schedules.list(paused=True)] == ["s"]
        await env.sleep(minutes=10)
        await handle.resume()
        await env.sleep(minutes=1)
        described = await handle.describe()
        assert (described.started, described.missed, described.paused, described.note) == (2, 0, False, None)


async def test_it_pauses_when_its_workflow_fails(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", failing, 1, spec=Every(60), pause_on_failure=True)
        await env.sleep(minutes=5, seconds=30)
        described = await handle.describe()
        assert (described.paused, described.started) == (True, 1)
        assert described.note == "workflow s-2026-01-01T00:01:00Z ended as failed"
        await handle.resume()
        # One failure pauses once.
        await env.sleep(minutes=2)
        described = await handle.describe()
        assert (described.paused, described.started, described.missed) == (False, 3, 0)


async def test_a_limit_of_runs(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(60), max_runs=2)
        await env.sleep(minutes=5)
        described = await handle.describe()
        assert (described.started, described.remaining_runs, described.next_look_at) == (2, 0, None)
        assert described.next_slots == ()
        await handle.trigger()
        await handle.update(max_runs=3)
        assert (await handle.describe()).remaining_runs == 1


# --- by hand --------------------------------------------------------------------------------------------------------


async def test_a_trigger_starts_one_now(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(3600), paused=True)
        triggered = await handle.trigger(request_id="k")
        assert triggered.workflow_id == "s-trigger-k"
        assert not triggered.existed
        assert (await handle.trigger(request_id="k")).existed
        assert (await triggered.result())[0] == "x"
        described = await handle.describe()
        assert (described.started, described.recent[-1].outcome) == (0, "triggered")
        assert await env.client.count(schedule="s") == 1


async def test_a_trigger_and_the_workflow_that_is_open(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", lasting, 1000, spec=Every(60), max_runs=1)
        await env.sleep(minutes=1, seconds=1)
        with pytest.raises(WorkflowAlreadyStartedError) as caught:
            await handle.trigger(overlap="skip")
        assert caught.value.workflow_id == "s-2026-01-01T00:01:00Z"
        await handle.trigger(overlap="terminate_other", request_id="t")
        assert (await env.client.describe("s-2026-01-01T00:01:00Z")).run.status == "terminated"
        await handle.trigger(overlap=Overlap.ALLOW_ALL)
        assert await env.client.count(open=True) == 2
        with pytest.raises(InvalidOptionError, match="overlap of a trigger must be one of skip"):
            await handle.trigger(overlap=Overlap.BUFFER_ALL)


async def test_a_backfill_twice_adds_nothing(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(3600))
        await env.sleep(hours=2)
        end = env.now()
        first = await handle.backfill(end - timedelta(hours=130), end)
        assert (first.started, first.existing) == (129, 1), "the end itself is not filled"
        again = await handle.backfill(end - timedelta(hours=130), end)
        assert (again.started, again.existing) == (0, 130)
        assert await env.client.count(schedule="s") == 131
        assert (await handle.describe()).started == 2


async def test_a_backfill_of_more_slots_than_its_limit_starts_nothing(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(60), paused=True)
        end = env.now()
        with pytest.raises(
            InvalidOptionError, match=r"limit is 10,000 workflows, and .* 43,200 slots"
        ) as caught:
            await handle.backfill(end - timedelta(days=30), end)
        assert caught.value.field == "limit"
        with pytest.raises(InvalidOptionError, match="more than 100,000 slots"):
            await handle.backfill(end - timedelta(days=365), end)
        with pytest.raises(InvalidOptionError, match="limit is 2 workflows"):
            await handle.backfill(end - timedelta(minutes=3), end, limit=2)
        with pytest.raises(InvalidOptionError, match="limit must be at least 1"):
            await handle.backfill(end - timedelta(minutes=3), end, limit=0)
        assert await env.client.count(schedule="s") == 0
        assert (await handle.backfill(end - timedelta(minutes=3), end, limit=3)).started == 3
        assert (await handle.backfill(end - timedelta(minutes=130), end, limit=None)).started == 127


async def test_a_backfill_goes_on_behind_whatever_is_excluded(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        # 27,900 slots of the day are excluded.
        spec, exclude = Cron("0-30 * * * * *"), Cron("0-30 * 8-22 * * *")
        handle = await env.client.schedules.create("s", told_slot, spec=spec, exclude=exclude, paused=True)
        day = datetime(2025, 12, 1, tzinfo=UTC)
        begin, end = day + timedelta(hours=8, seconds=-31), day + timedelta(hours=23, seconds=2)
        with pytest.raises(InvalidOptionError, match="has 4 slots in that time"):
            await handle.backfill(begin, end, limit=3)
        assert (await handle.backfill(begin, end)).started == 4


async def test_a_schedule_that_is_not_there_is_told_with_ids_like_it(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.schedules.create("nightly", told_slot, spec=Every(3600))
        wrong = env.client.schedules.handle("nihgtly")
        calls: list[Callable[[], Any]] = [
            wrong.describe,
            wrong.pause,
            wrong.trigger,
            wrong.delete,
            lambda: wrong.update(jitter=1),
            lambda: wrong.backfill(env.now() - timedelta(hours=1), env.now()),
        ]
        for call in calls:
            with pytest.raises(ScheduleNotFoundError, match=r"did you mean 'nightly'\?") as caught:
                await call()
            assert caught.value.similar == ["nightly"]
        with pytest.raises(ScheduleNotFoundError, match="'other': check the id"):
            await env.client.schedules.handle("other").describe()


async def test_a_schedule_whose_workflow_nobody_runs_says_so_and_what_to_do(
    in_memory: MakeEnvironment,
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", "Reprot", spec=Every(60), options=StartOptions())
        described = await handle.describe()
        assert described.trouble is None
        assert described.unserved is not None
        assert "none of them knows workflow 'Reprot' (known: " in described.unserved
        assert "or correct the name" in described.unserved
        [listed] = [one async for one in env.client.schedules.list()]
        assert listed.unserved == described.unserved
        await handle.update(workflow=told_slot)
        assert (await handle.describe()).unserved is None
        await handle.update(task_queue="slow")
        unserved = (await handle.describe()).unserved
        assert unserved is not None
        assert "no live worker polls task queue 'slow'" in unserved


async def test_wrong_arguments_of_verbs_are_told_with_what_they_take(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle: Any = await env.client.schedules.create("s", told_slot, spec=Every(3600))
        schedules: Any = env.client.schedules
        queues: Any = env.client.queues
        for call, said in (
            (lambda: handle.update(), "update needs something to change: give spec="),
            (
                lambda: handle.update(told_slot),
                "too many positional arguments; it is called as handle.update",
            ),
            (lambda: handle.update(cron="@daily"), "say when it fires: spec=Cron"),
            (
                lambda: handle.backfill(start_at=1),
                "backfill has no option 'start_at': did you mean start_time",
            ),
            (lambda: handle.backfill(env.now()), "missing a required argument: 'end_time'"),
            (lambda: handle.pause(reason="r"), "pause has no option 'reason': it is called note here"),
            (lambda: schedules.preview(cron="@daily"), "say when it fires: spec=Cron"),
            (lambda: schedules.list(type="t"), "it is called workflow_type here"),
            (lambda: queues.pause("q", reason="r"), "it is called note here"),
        ):
            with pytest.raises(InvalidOptionError, match=re.escape(said)):
                await call()


async def test_a_queue_orders_what_a_schedule_starts(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        options: dict[str, Any] = {"spec": Every(60), "options": StartOptions(queue="q"), "max_runs": 3}
        with pytest.raises(QueueNotFoundError):
            await env.client.schedules.create("s", lasting, 100, overlap="allow_all", **options)
        await env.client.queues.define("q", concurrency=1)
        with pytest.raises(InvalidOptionError, match="cannot be combined with a queue"):
            await env.client.schedules.create("s", lasting, 100, overlap="buffer_all", **options)
        handle = await env.client.schedules.create("s", lasting, 100, overlap="allow_all", **options)
        await env.sleep(minutes=3, seconds=1)
        assert (await handle.describe()).started == 3
        assert await env.client.count(status="queued", queue="q") >= 1
        await env.sleep(minutes=4)
        assert await env.client.count(status="completed", schedule="s") == 3


async def test_without_its_queue_a_schedule_starts_nothing(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.queues.define("q")
        options = StartOptions(queue="q")
        handle = await env.client.schedules.create("s", told_slot, spec=Every(3600), options=options)
        await env.client.queues.delete("q")
        await env.sleep(hours=1, seconds=1)
        assert (await handle.describe()).started == 0
        with pytest.raises(QueueNotFoundError):
            await handle.trigger()
        await env.client.queues.define("q")
        await TaskWatchdog(env.client).run_pass()
        assert (await handle.describe()).started == 1


# --- changes --------------------------------------------------------------------------------------------------------


async def test_an_update_changes_what_is_given(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, "a", spec=Every(3600), jitter=0, note="n")
        await env.sleep(minutes=30)
        await handle.update(spec=Every(60), args=["b"], overlap="allow_all")
        await env.sleep(minutes=2, seconds=1)
        described = await handle.describe()
        assert (described.started, described.missed, described.note) == (2, 0, "n")
        assert described.specs == ({"every": 60},)
        assert described.overlap == "allow_all"
        [last, _] = [run async for run in env.client.list(schedule="s")]
        assert (await env.client.handle(last.workflow_id).result())[0] == "b"
        await handle.delete()
        await env.sleep(minutes=5)
        assert await env.client.count(schedule="s") == 2
        for call in (handle.describe, handle.pause, handle.resume, handle.delete, handle.trigger):
            with pytest.raises(ScheduleNotFoundError):
                await call()


async def test_an_update_changes_what_it_starts(engine: MakeEnvironment) -> None:
    """The workflow, its arguments, its task queue and every option of its start."""
    before = StartOptions(execution_timeout=7200, memo={"team": "blue"}, search_attributes={"region": "eu"})
    async with engine(workflows=WORKFLOWS) as env:
        await env.client.queues.define("reports")
        handle = await env.client.schedules.create("s", lasting, 5, spec=Every(60), options=before)
        await handle.update(workflow=told_slot, args=["b"])
        await handle.update(options={"priority": 2, "summary": "a report", "queue": "reports"})
        await handle.update(options={"partition_key": "eu", "retry_policy": RetryPolicy(max_attempts=3)})
        described = await handle.describe()
        assert described.workflow_type == "told_slot"
        assert described.options.model_dump(exclude_none=True, exclude_defaults=True) == {
            "execution_timeout": 7200,
            "priority": 2,
            "summary": "a report",
            "queue": "reports",
            "partition_key": "eu",
            "retry_policy": RetryPolicy(max_attempts=3).to_document(),
            "search_attributes": {"region": "eu"},
        }
        await env.sleep(seconds=61)
        [run] = [run async for run in env.client.list(schedule="s")]
        assert (await env.client.handle(run.workflow_id).result())[0] == "b"
        assert (run.priority, run.queue, run.partition_key, run.summary) == (2, "reports", "eu", "a report")
        started = await env.client.describe(run.workflow_id)
        assert started.run.memo == {"team": "blue"}, "what is not named stays"
        await handle.update(options={"queue": None, "memo": None, "search_attributes": {"size": 5}})
        described = await handle.describe()
        assert (described.options.queue, described.options.partition_key) == (None, None)
        assert described.options.search_attributes == {"size": 5}
        await handle.update(options=StartOptions(run_timeout=60))
        described = await handle.describe()
        assert described.options.model_dump(exclude_none=True, exclude_defaults=True) == {"run_timeout": 60}


async def test_an_update_that_cannot_be_is_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, "a", spec=Every(60), overlap="buffer_one")
        before = await handle.describe()
        wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"workflow": lasting, "args": [1, 2, 3]}, DurableCallError, "lasting"),
            ({"workflow": failing}, InvalidOptionError, "give args= as well"),
            ({"workflow": failing, "args": ["x"]}, DurableCallError, "cannot be called like this"),
            ({"args": "text"}, InvalidOptionError, "a list of arguments"),
            ({"options": {"queue": "reports"}}, InvalidOptionError, "give skip or allow_all"),
            ({"overlap": "skip", "options": {"queue": "reports"}}, QueueNotFoundError, "reports"),
            ({"options": {"partition_key": "eu"}}, InvalidOptionError, "needs a queue"),
            ({"options": {"duplicate_policy": "reject_duplicate"}}, InvalidOptionError, "duplicate_policy"),
            ({"options": StartOptions.reject_duplicate()}, InvalidOptionError, "duplicate policy"),
            ({"options": {"timeout": 5}}, InvalidOptionError, "timeout"),
            ({"options": ["priority"]}, InvalidOptionError, "options must be StartOptions"),
            ({"options": {"memo": {"a": object()}}}, PayloadEncodeError, "memo"),
            ({"cron": "@daily"}, InvalidOptionError, "cron"),
        ]
        for fields, error, words in wrong:
            with pytest.raises(error, match=words):
                await handle.update(**fields)
        assert await handle.describe() == before
        await handle.update(workflow="another.type")
        assert (await handle.describe()).workflow_type == "another.type"


async def test_applying_a_set_makes_the_database_follow(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        schedules = env.client.schedules
        await schedules.create("old", told_slot, spec=Every(60), paused=True)
        a = Schedule("a", told_slot, "1", spec=Every(60))
        b = Schedule("b", lasting, 5, spec=Cron("@daily"))
        applied = await schedules.apply([b, a], prune=True)
        assert (applied.created, applied.updated, applied.deleted) == (["a", "b"], [], ["old"])
        await env.sleep(minutes=2, seconds=1)
        await schedules.handle("a").pause("by hand")
        applied = await schedules.apply([a, b])
        assert (applied.created, applied.updated, applied.deleted) == ([], [], [])
        changed = Schedule("a", told_slot, "2", spec=Every(60))
        assert (await schedules.apply([changed, b])).updated == ["a"]
        described = await schedules.handle("a").describe()
        assert (described.paused, described.note, described.started) == (True, "by hand", 2)
        assert [one.schedule_id async for one in schedules.list()] == ["a", "b"]


async def test_many_processes_may_apply_the_same_set(on_disk: None, engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        wanted = [Schedule(f"s-{number}", told_slot, spec=Every(3600)) for number in range(20)]
        outcomes = await asyncio.gather(*[env.client.schedules.apply(wanted) for _ in range(8)])
        assert sum(len(one.created) for one in outcomes) == 20
        assert sum(len(one.updated) for one in outcomes) == 0


async def test_an_id_that_is_taken(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        schedules = env.client.schedules
        await schedules.create("s", told_slot, spec=Every(60))
        with pytest.raises(ScheduleExistsError):
            await schedules.create("s", told_slot, spec=Every(61))
        await schedules.create("s", told_slot, spec=Every(61), if_exists="keep")
        assert (await schedules.handle("s").describe()).specs == ({"every": 60},)
        await schedules.create("s", told_slot, spec=Every(61), if_exists="update")
        assert (await schedules.handle("s").describe()).specs == ({"every": 61},)


async def test_what_cannot_be_a_schedule_is_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        create = env.client.schedules.create
        wrongly_called: Any = told_slot
        wrong: list[dict[str, Any]] = [
            {"spec": Cron("0 0 30 2 *")},
            {"spec": At(datetime(2020, 1, 1, tzinfo=UTC))},
            {"spec": Every(60), "end_at": datetime(2020, 1, 1, tzinfo=UTC)},
            {"spec": Every(60), "overlap": "queue"},
            {"spec": Every(60), "catch_up": "some"},
            {"spec": Every(60), "max_runs": 0},
            {"spec": Every(60), "paused": "yes"},
            {"spec": Every(60), "if_exists": "replace"},
            {"spec": Every(60), "task_queue": ""},
            {"spec": Every(60), "options": StartOptions.reject_duplicate()},
            {"spec": Every(60), "cron": "@daily"},
            {},
        ]
        for options in wrong:
            with pytest.raises(InvalidOptionError):
                await create("s", told_slot, **options)
        for schedule_id in ("", "..", "outlast_x", "x" * 151, "a\nb"):
            with pytest.raises(InvalidOptionError):
                await create(schedule_id, told_slot, spec=Every(60))
        with pytest.raises(DurableCallError):
            await create("s", wrongly_called, 1, 2, 3, spec=Every(60))
        with pytest.raises(StructuralLimitError):
            await create("s", told_slot, "x" * 3_000_000, spec=Every(60))
        with pytest.raises(InvalidOptionError, match="have the same id"):
            await env.client.schedules.apply([Schedule("s", told_slot, spec=Every(60))] * 2)
        one_alone: Any = Schedule("s", told_slot, spec=Every(60))
        with pytest.raises(InvalidOptionError, match="must be a list"):
            await env.client.schedules.apply(one_alone)
        assert [one async for one in env.client.schedules.list()] == []
        handle = await create("s", told_slot, spec=Every(60))
        with pytest.raises(InvalidOptionError, match="never fires"):
            await handle.update(spec=Cron("0 0 30 2 *"))
        with pytest.raises(InvalidOptionError, match="in the future"):
            await handle.backfill(env.now(), env.now() + timedelta(hours=1))


# --- several watchdogs ----------------------------------------------------------------------------------------------


async def test_of_many_watchdogs_one_fires(on_disk: None, engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        for number in range(5):
            await env.client.schedules.create(
                f"s-{number}", lasting, 1000, spec=Every(60), overlap="allow_all"
            )
        await env.worker.stop()
        watchdogs = [TaskWatchdog(env.client) for _ in range(4)]
        env.clock.set(env.now() + timedelta(seconds=61))
        reports = await asyncio.gather(*[one.run_pass() for one in watchdogs])
        assert sum(report.counts.get("schedule_fired", 0) for report in reports) == 5
        assert await env.client.count() == 5
        described = [one async for one in env.client.schedules.list(next=0)]
        assert [(one.started, one.skipped) for one in described] == [(1, 0)] * 5


def test_the_list_shows_what_a_page_holds() -> None:
    async def body() -> None:
        async with TestEnvironment(workflows=WORKFLOWS) as env:
            await env.client.schedules.apply(
                [Schedule(f"s-{number:03}", told_slot, spec=Every(3600)) for number in range(250)]
            )
            found = [one.schedule_id async for one in env.client.schedules.list(next=1)]
            assert found == [f"s-{number:03}" for number in range(250)]
            later = [one.schedule_id async for one in env.client.schedules.list(after="s-247", next=0)]
            assert later == ["s-248", "s-249"]

    TestEnvironment.run(body)


# --- damage, and races ----------------------------------------------------------------------------------------------


async def damage(client: Client, **columns: str) -> None:
    """Write into the row of schedule ``s`` what nobody can read."""

    class Damage(BaseChange):
        def apply(self, batch: Batch) -> None:
            for column, text in columns.items():
                batch.execute(f"UPDATE schedules SET {column} = ? WHERE schedule_id = 's'", (text,))

    await client.runtime.journal.apply(Damage())


@pytest.mark.parametrize("column", ["spec", "action", "input", "overlap", "catch_up", "buffered", "recent"])
async def test_a_damaged_schedule_says_so_and_stops_no_other(
    in_memory: MakeEnvironment, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        schedules = env.client.schedules
        handle = await schedules.create("s", told_slot, spec=Every(60))
        other = await schedules.create("t", told_slot, spec=Every(60))
        await damage(env.client, **{column: '{"x": ['})
        await env.sleep(minutes=3, seconds=1)
        assert (await other.describe()).started == 3
        described = await handle.describe()
        assert (described.started, described.next_slots) == (0, ())
        assert described.trouble is not None
        assert f"its {column} cannot be read; restore the database" in described.trouble
        assert [(one.schedule_id, one.trouble is None) async for one in schedules.list()] == [
            ("s", False),
            ("t", True),
        ]
        assert caplog.text.count(f"its {column} cannot be read") == 1
        for use in (handle.trigger, handle.resume, partial(handle.update, note="x")):
            with pytest.raises(DamagedScheduleError):
                await use()
        with pytest.raises(DamagedScheduleError):
            await handle.backfill(env.now() - timedelta(hours=1), env.now())
        await handle.pause("broken")
        assert (await handle.describe()).note == "broken"
        # Who declares it anew heals it.
        assert (await schedules.apply([Schedule("s", told_slot, spec=Every(60))])).updated == ["s"]
        await handle.resume()
        await env.sleep(minutes=1)
        described = await handle.describe()
        assert (described.started, described.trouble) == (1, None)


async def test_a_schedule_whose_queue_is_gone_says_so(
    in_memory: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.queues.define("reports")
        handle = await env.client.schedules.create(
            "s", told_slot, spec=Every(60), options=StartOptions(queue="reports")
        )
        assert (await handle.describe()).trouble is None
        await env.client.queues.delete("reports")
        await env.sleep(minutes=2)
        described = await handle.describe()
        assert described.trouble is not None
        assert "reports" in described.trouble
        assert "reports" in caplog.text
        await env.client.queues.define("reports")
        assert (await handle.describe()).trouble is None


@pytest.mark.parametrize("seq", [1, 3])
async def test_a_last_workflow_that_cannot_be_read_hands_nothing_on(
    in_memory: MakeEnvironment, seq: int
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(60))
        await env.sleep(seconds=61)

        class Rewrite(BaseChange):
            def __init__(self, payload: str) -> None:
                self.payload = payload

            def apply(self, batch: Batch) -> None:
                text = f"UPDATE history_events SET payload = {self.payload} WHERE seq = ? AND run_id = ?"
                batch.execute(text, (seq, first.run_id))

        [first] = [run async for run in env.client.list(schedule="s")]
        await env.client.runtime.journal.apply(Rewrite("substr(payload, 2)"))
        await env.sleep(minutes=1)
        assert (await handle.describe()).started == 2
        last = (await handle.describe()).last_workflow_id
        assert last is not None
        assert (await env.client.handle(last).result())[2] is None
        await env.client.runtime.journal.apply(Rewrite("'{' || payload"))


async def test_a_fire_of_a_schedule_that_was_created_anew_starts_nothing_old(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        schedules, runtime = env.client.schedules, env.client.runtime
        await schedules.create("s", told_slot, "old", spec=Every(60))
        row = await runtime.read(find_schedule, "s")
        assert row is not None
        await schedules.handle("s").delete()
        await env.sleep(1)
        await schedules.create("s", told_slot, "new", spec=Every(60))
        due = DueSlots(slots=[row.decided_until + 1], decided_until=row.decided_until + 1)
        assert await runtime.journal.apply(FireSchedule(row, due, None, runtime.environment)) is None
        start = Start(row, row.decided_until, "s-x", runtime.environment)
        await schedules.handle("s").delete()
        with pytest.raises(ScheduleNotFoundError):
            await runtime.journal.apply(BackfillSchedule(row, [start]))
        assert await env.client.count() == 0


async def test_of_triggers_at_once_that_skip_one_starts(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", lasting, 1000, spec=Every(86_400))
        skipping = [handle.trigger(overlap="skip") for _ in range(5)]
        outcomes = await asyncio.gather(*skipping, return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, WorkflowAlreadyStartedError)]
        assert len(refused) == 4
        ending = [handle.trigger(overlap="terminate_other") for _ in range(3)]
        await asyncio.gather(*ending)
        assert await env.client.count(open=True) == 1


async def test_a_further_pause_without_a_note_keeps_the_reason(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.schedules.create("s", told_slot, spec=Every(60))
        await handle.pause("the warehouse moves")
        await handle.pause()
        assert (await handle.describe()).note == "the warehouse moves"
        await handle.pause("until Monday")
        assert (await handle.describe()).note == "until Monday"
