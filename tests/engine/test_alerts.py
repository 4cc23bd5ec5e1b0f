"""Deadline alerts: armed with their deadlines, fired once and never early, shown, logged and signalled."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.queued import write_queue

from outlast import AlertPolicy, Every, RetryPolicy, StartOptions, activity, starting, workflow
from outlast.errors import InvalidOptionError, OutlastError
from outlast.testing import check_database
from outlast.visibility.views import WorkflowDescription
from outlast.watchdog import TaskWatchdog
from outlast_activities.attempts import AttemptEnd
from outlast_activities.changes import EndAttempt
from outlast_watchdog.alerts import FireAlerts, FiredAlerts
from outlast_workflow.primitives.enums import AttemptOutcome

Seen = tuple[str, str, int | None]


def armed(found: WorkflowDescription) -> list[Seen]:
    return [(one.kind.value, one.mark, one.attempt) for one in found.alerts.armed]


def fired(found: WorkflowDescription) -> list[Seen]:
    """The oldest first."""
    return [(one.kind.value, one.mark, one.attempt) for one in reversed(found.alerts.fired)]


def lateness(found: WorkflowDescription) -> set[timedelta]:
    return {one.fired_at - one.due_at for one in found.alerts.fired}


@activity.defn(start_to_close_timeout=100, retry_policy=RetryPolicy(initial_interval=1, max_attempts=2))
async def stuck() -> None:
    await asyncio.sleep(1000)


@activity.defn(start_to_close_timeout=100)
async def quick() -> None:
    await asyncio.sleep(10)


WATCHED = AlertPolicy(at=[0.5, 1], before=[20], after=[130])


@workflow.defn
class Waiting:
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    @workflow.signal
    def late(self, what: dict[str, Any]) -> None:
        self.told.append(what)

    @workflow.run
    async def run(self, seconds: float) -> list[tuple[str, str, float]]:
        began = workflow.now()
        await workflow.sleep(seconds)
        return [
            (one["kind"], one["mark"], (datetime.fromisoformat(one["due_at"]) - began).total_seconds())
            for one in self.told
        ]


@workflow.defn
async def calling(alerts: bool) -> None:
    call = stuck.with_options(alerts=WATCHED) if alerts else stuck
    try:
        await call()
    except Exception:
        await quick.with_options(alerts=WATCHED)()


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, left: int, seconds: float) -> None:
        await workflow.sleep(seconds)
        if left:
            workflow.continue_as_new(left - 1, seconds)


@workflow.defn
async def failing() -> None:
    await workflow.sleep(30)
    raise OutlastError("no")


@workflow.defn
async def parent(options: dict[str, Any]) -> None:
    await workflow.execute_child(Waiting.run, 500, id="child", alerts=AlertPolicy(at=[0.5]), **options)


WORKFLOWS = [Waiting, calling, Chain, failing, parent]


def options(**given: Any) -> StartOptions:
    return StartOptions(**given)


async def test_marks_are_armed_with_their_deadlines_and_fire_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=[]) as env:
        wanted = StartOptions(execution_timeout=1000, run_timeout=400).with_alerts(
            0.5, 0.8, before=[10, 500], after=[60], at_instant=env.now() + timedelta(seconds=70)
        )
        handle = await env.client.start(Waiting.run, 300, id="w", options=wanted)
        found = await handle.describe()
        # A lead that the run timeout does not have is none.
        assert [
            (*key[:2], round((one.due_at - found.described_at).total_seconds()))
            for key, one in zip(armed(found), found.alerts.armed, strict=True)
        ] == [
            ("after", "+60s", 60),
            ("at_instant", (found.described_at + timedelta(seconds=70)).isoformat(), 70),
            ("run", "50%", 200),
            ("run", "80%", 320),
            ("run", "-10s", 390),
            ("execution", "-500s", 500),
            ("execution", "50%", 500),
            ("execution", "80%", 800),
            ("execution", "-10s", 990),
        ]
        await handle.result()
        found = await handle.describe()
        assert [one[0] for one in fired(found)] == ["after", "at_instant", "run"]
        assert armed(found) == []
        assert max(lateness(found)) < timedelta(seconds=1)
        listed = (await env.client.alerts.list(workflow_id="w")).alerts
        assert listed == found.alerts.fired
        assert [one.text for one in listed[::2]] == [
            "50% of its run timeout is used up",
            "it has taken 60 s",
        ]


async def test_each_attempt_has_its_marks_and_the_enforcement_is_one(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=[stuck, quick]) as env:
        handle = await env.client.start(calling, True, id="c")
        await env.sleep(60)
        found = await handle.describe()
        assert fired(found) == [("start_to_close", "50%", 1)]
        assert armed(found) == [("start_to_close", "-20s", 1), ("after", "+130s", None)]
        [activity_id] = {one.activity_id for one in found.alerts.armed}
        assert activity_id == found.pending_activities[0].activity_id
        await handle.result()
        found = await handle.describe()
        assert fired(found) == [
            ("start_to_close", "50%", 1),
            ("start_to_close", "-20s", 1),
            ("start_to_close", "100%", 1),
            ("after", "+130s", None),
            ("start_to_close", "50%", 2),
            ("start_to_close", "-20s", 2),
            ("start_to_close", "100%", 2),
        ]
        assert armed(found) == []
        assert {one.activity_type for one in found.alerts.fired} == {"stuck"}


async def test_a_signal_tells_the_workflow(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=[]) as env:
        wanted = StartOptions(execution_timeout=1000).with_alerts(0.1, after=[20, 200], signal="late")
        told = await env.client.execute(Waiting.run, 150, id="w", options=wanted)
        assert [(kind, mark) for kind, mark, _ in told] == [("after", "+20s"), ("execution", "10%")]
        assert [round(seconds) for *_, seconds in told] == [20, 100]


async def test_a_signal_of_an_alert_ends_no_start_delay(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        wanted = StartOptions(start_delay=100).with_alerts(after=[20], signal="late")
        handle = await env.client.start(Waiting.run, 1, id="w", options=wanted)
        await env.sleep(50)
        found = await handle.describe()
        assert fired(found) == [("after", "+20s", None)]
        assert found.run.started_at is None
        assert [(kind, mark) for kind, mark, _ in await handle.result()] == [("after", "+20s")]


async def test_marks_of_the_chain_move_with_it_and_those_of_a_run_come_anew(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS, activities=[]) as env:
        wanted = StartOptions(execution_timeout=1000, run_timeout=200).with_alerts(0.25, 0.8, after=[150])
        handle = await env.client.start(Chain.run, 3, 100.0, id="c", options=wanted)
        await env.sleep(120)
        found = await handle.describe()
        assert found.run.run_number == 2
        assert fired(found) == []
        await handle.result()
        alerts = (await env.client.alerts.list(workflow_id="c")).alerts
        once = [(one.kind, one.mark) for one in reversed(alerts) if one.kind != "run"]
        assert once == [("after", "+150s"), ("execution", "25%")]
        assert [one.mark for one in alerts if one.kind == "run"] == ["25%"] * 4


async def test_a_mark_that_is_due_when_the_run_continues_is_not_lost(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        monkeypatch.setattr(FireAlerts, "apply", lambda _self, batch: FiredAlerts(batch.now))
        wanted = StartOptions(execution_timeout=1000).with_alerts(0.1)
        handle = await env.client.start(Waiting.run, 500, id="c", options=wanted)
        await env.sleep(150)
        assert armed(await handle.describe()) == [("execution", "10%", None)]
        again = await handle.reset("first-workflow-task")
        assert armed(await again.describe()) == [("execution", "10%", None)]
        monkeypatch.undo()
        await TaskWatchdog(env.client).run_pass()
        assert fired(await again.describe()) == [("execution", "10%", None)]


async def test_a_retried_run_and_a_timed_out_one(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        wanted = StartOptions(
            run_timeout=50,
            execution_timeout=80,
            retry_policy=RetryPolicy(initial_interval=10),
            alerts=AlertPolicy(at=[0.5, 1]),
        )
        handle = await env.client.start(failing, id="f", options=wanted)
        with pytest.raises(OutlastError):
            await handle.result()
        alerts = (await env.client.alerts.list(workflow_id="f")).alerts
        assert [(one.kind, one.mark) for one in reversed(alerts)] == [
            ("run", "50%"),
            ("execution", "50%"),
            ("run", "50%"),
        ]
        late = await env.client.start(Waiting.run, 90, id="w", options=wanted.replace(retry_policy=None))
        with pytest.raises(OutlastError):
            await late.result()
        assert fired(await late.describe()) == [
            ("run", "50%", None),
            ("execution", "50%", None),
            ("run", "100%", None),
        ]


async def test_marks_move_with_the_deadline(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        wanted = StartOptions(start_delay=100, run_timeout=100).with_alerts(0.5)
        handle = await env.client.start(Waiting.run, 500, id="w", options=wanted)
        before = (await handle.describe()).alerts.armed[0].due_at
        await handle.set_start_delay(300)
        after = (await handle.describe()).alerts.armed[0].due_at
        assert after - before == timedelta(seconds=200)
        await env.sleep(330)
        assert fired(await handle.describe()) == []
        await env.sleep(30)
        assert fired(await handle.describe()) == [("run", "50%", None)]


async def test_a_queue_arms_what_waits_and_what_it_admits(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await write_queue(env.client.runtime.journal, "q", concurrency=1)
        await env.client.start(Waiting.run, 60, id="first", options=StartOptions(queue="q"))
        wanted = StartOptions(queue="q", schedule_to_start_timeout=100, run_timeout=100).with_alerts(0.5)
        handle = await env.client.start(Waiting.run, 80, id="second", options=wanted)
        assert armed(await handle.describe()) == [("schedule_to_start", "50%", None)]
        await env.sleep(70)
        found = await handle.describe()
        assert fired(found) == [("schedule_to_start", "50%", None)]
        assert armed(found) == [("run", "50%", None)]
        await handle.result()
        assert [one[0] for one in fired(await handle.describe())] == ["schedule_to_start", "run"]


async def test_a_child_counts_the_share_of_the_deadline_that_it_has(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        wanted = StartOptions(execution_timeout=100)
        handle = await env.client.start(parent, {"execution_timeout": 1000}, id="p", options=wanted)
        await env.sleep(1)
        child = (await env.client.describe("child")).alerts.armed
        began = (await handle.describe()).run.created_at
        assert [round((one.due_at - began).total_seconds()) for one in child] == [50]
        with pytest.raises(OutlastError):
            await handle.result()
        assert fired(await env.client.describe("child")) == [("execution", "50%", None)]


async def test_a_fork_counts_anew(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.start(Waiting.run, 500, id="w", options=StartOptions().with_alerts(after=[50]))
        await env.sleep(60)
        fork = await env.client.fork("w", "first-workflow-task", id="fork")
        assert armed(await fork.describe()) == [("after", "+50s", None)]
        await env.sleep(60)
        assert fired(await fork.describe()) == [("after", "+50s", None)]
        assert len((await env.client.alerts.list()).alerts) == 2


async def test_schedules_and_scopes_give_alerts(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        policy = AlertPolicy(after=[5], signal="late")
        with starting(alerts=policy):
            await env.client.start(Waiting.run, 20, id="scoped")
        create = env.client.schedules.create
        await create("s", Waiting.run, 8, spec=Every(10), max_runs=1, options=options(alerts=policy))
        await env.sleep(40)
        found = (await env.client.alerts.list(kind="after")).alerts
        assert len(found) == 2
        assert found[-1].workflow_id == "scoped"
        shown = await env.client.schedules.handle("s").describe()
        assert shown.options.alerts == policy.to_document()


async def test_alerts_that_could_never_fire_are_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        start = env.client.start
        with pytest.raises(InvalidOptionError, match="give execution_timeout or run_timeout, or use after="):
            await start(Waiting.run, 1, options=StartOptions().with_alerts(0.8))
        wrong = StartOptions(run_timeout=5).with_alerts(0.8, kinds=["execution"])
        with pytest.raises(InvalidOptionError, match=r"a deadline that they are about \(execution\)"):
            await start(Waiting.run, 1, options=wrong)
        with pytest.raises(InvalidOptionError, match=r"has passed .*: give a later one"):
            await start(
                Waiting.run,
                1,
                options=StartOptions().with_alerts(at_instant=datetime(2020, 1, 1, tzinfo=UTC)),
            )


async def test_the_log_says_what_came_near(
    in_memory: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outlast.alerts")
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.execute(
            Waiting.run, 90, id="w", options=StartOptions(execution_timeout=100).with_alerts(0.5, before=[20])
        )
    assert [record.getMessage() for record in caplog.records if record.name == "outlast.alerts"] == [
        "workflow w (Waiting): 50% of its execution timeout is used up, 0.000 s late",
        "workflow w (Waiting): 20 s of its execution timeout are left, 0.000 s late",
    ]


async def test_what_nobody_saw_in_time_is_missed(
    in_memory: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outlast.alerts")
    async with in_memory(workflows=[], activities=[]) as env:
        wanted = StartOptions(execution_timeout=100).with_alerts(0.5, 1)
        handle = await env.client.start(Waiting.run, 500, id="w", options=wanted)
        await env.sleep(200)
        report = await TaskWatchdog(env.client).run_pass()
        assert report.counts == {"execution_timeout": 1, "alert_missed": 1}
        assert fired(await handle.describe()) == [("execution", "100%", None)]
        assert "nobody saw mark 50%" in caplog.text


async def test_the_checker_that_knows_the_instant_does_not_ask_for_what_was_missed(
    in_memory: MakeEnvironment,
) -> None:
    async with in_memory(workflows=[], activities=[]) as env:
        wanted = StartOptions(execution_timeout=100).with_alerts(0.5)
        handle = await env.client.start(Waiting.run, 500, id="w", options=wanted)
        await env.sleep(200)
        assert handle.run_id is not None
        done = await env.client.runtime.journal.apply(FireAlerts([(handle.run_id, 0, "execution", "50%")]))
        assert [one.mark for one in done.missed] == ["50%"]
        with env.client.runtime.database.reader() as connection:
            assert check_database(connection, now=done.at) == []
            # What it does not know of looks forgotten.
            assert "neither armed nor fired" in check_database(connection)[0]
        await TaskWatchdog(env.client).run_pass()


async def test_a_deleted_workflow_takes_its_alerts_along(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        await env.client.execute(Waiting.run, 9, id="w", options=StartOptions().with_alerts(after=[5]))
        document = await env.client.export_history("w")
        assert [one["mark"] for one in document["alerts"]] == ["+5s"]
        await env.client.delete("w")
        assert not (await env.client.alerts.list()).alerts
        await env.client.import_histories([document])
        assert fired(await env.client.describe("w")) == [("after", "+5s", None)]


async def test_what_is_not_due_is_not_fired_whoever_asks(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handle = await env.client.start(
            Waiting.run, 9, id="w", options=StartOptions().with_alerts(after=[50])
        )
        assert handle.run_id is not None
        done = await env.client.runtime.journal.apply(FireAlerts([(handle.run_id, 0, "after", "+50s")]))
        assert (done.alerts, done.missed) == ([], [])
        assert armed(await handle.describe()) == [("after", "+50s", None)]


async def test_an_attempt_that_ends_takes_its_marks_along(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, the next attempt and the look at its mark are changes of one batch."""
    async with in_memory(workflows=WORKFLOWS, activities=[stuck, quick]) as env:
        handle = await env.client.start(calling, True, id="c")
        with monkeypatch.context() as patched:
            patched.setattr(FireAlerts, "apply", lambda _self, batch: FiredAlerts(batch.now))
            await env.sleep(60)
        assert armed(await handle.describe())[0] == ("start_to_close", "50%", 1)
        assert handle.run_id is not None
        journal, failed = env.client.runtime.journal, AttemptEnd(AttemptOutcome.FAILED, {"type": "Oops"})
        [activity_id] = {one.activity_id for one in (await handle.describe()).alerts.armed}
        assert activity_id is not None
        _, done = await asyncio.gather(
            journal.apply(EndAttempt(handle.run_id, activity_id, 1, failed)),
            journal.apply(FireAlerts([(handle.run_id, activity_id, "start_to_close", "50%")])),
        )
        assert done.alerts == []
        assert armed(await handle.describe()) == [("after", "+130s", None)]
        await env.sleep(2)
        assert armed(await handle.describe())[:2] == [
            ("start_to_close", "50%", 2),
            ("after", "+130s", None),
        ]


@workflow.defn
async def locally() -> None:
    await workflow.execute_local_activity(stuck, alerts=AlertPolicy(at=[0.5]))


async def test_an_alert_of_a_local_activity_names_the_task_queue_of_its_users(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[locally], activities=[stuck]) as env:
        handle = await env.client.start(locally, id="l")
        await env.sleep(60)
        [alert] = (await handle.describe()).alerts.fired
        assert alert.task_queue == "default"
        await handle.terminate()
