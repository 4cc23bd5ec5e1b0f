"""Documents are started by their own schedules."""

from __future__ import annotations

import asyncio

import pytest
from tests.serverless.cases import whole
from tests.serverless.events.cases import subscriptions

from outlast.errors import InvalidOptionError, ScheduleNotFoundError
from outlast.testing import TestEnvironment
from outlast_activities.definitions import definition_of
from outlast_serverless import Document, Runtime
from outlast_workflow.options.limits import StructuralLimits

TASKS = "do: [{s: {set: {v: 1}}}]"


def make(schedule: str, version: str = "0.1.0") -> Document:
    text = whole(f"{schedule}\n{TASKS}")
    return Document.parse(text.replace("version: '0.1.0'", f"version: '{version}'"))


async def test_every_counts_from_when_it_was_scheduled(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await asyncio.sleep(7)
        await runtime.register(make("timeout: {after: PT5S}\nschedule: {every: PT1M}"))
        handle = await runtime.schedule("n/a")
        assert handle.id == "serverless:n/a"
        await asyncio.sleep(59)
        assert await env.client.count(workflow_type="serverless:n/a") == 0
        await asyncio.sleep(122)
        runs = [one async for one in env.client.list(workflow_type="serverless:n/a")]
        assert [one.status for one in runs] == ["completed"] * 3
        assert await runtime.run(runs[0].workflow_id).result() == {"v": 1}
        await runtime.register(make("schedule: {every: PT10S}", "0.2.0"))
        await runtime.schedule("n/a")
        await asyncio.sleep(31)
        assert await env.client.count(workflow_type="serverless:n/a") == 6
        await runtime.unschedule("n/a")
        await asyncio.sleep(100)
        assert await env.client.count(workflow_type="serverless:n/a") == 6
        with pytest.raises(ScheduleNotFoundError):
            await runtime.unschedule("n/a")


async def test_starts_overlap_and_of_missed_instants_the_newest_is_caught_up(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        handle = (
            await runtime.schedule(Document.parse(whole(f"schedule: {{every: PT4S}}\n{SLEEPS}")))
        ).schedule
        assert handle is not None
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            await asyncio.sleep(9)
            assert await env.client.count(workflow_type="serverless:n/a", open=True) == 2
        described = await handle.describe()
        assert (described.overlap, described.catch_up) == ("allow_all", "latest")


async def test_a_cron_text_is_read_in_the_documents_time_zone(sqlite_url: str) -> None:
    text = whole(f"schedule: {{cron: '0 9 * * *'}}\n{TASKS}").replace(
        "version: '0.1.0'", "version: '0.1.0', metadata: {outlast: {timezone: Europe/Zurich}}"
    )
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        handle = (await runtime.schedule(Document.parse(text))).schedule
        assert handle is not None
        described = await handle.describe()
        assert "Europe/Zurich" in str(described.specs)


async def test_what_cannot_be_scheduled(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        with pytest.raises(InvalidOptionError, match="has no `schedule`"):
            await runtime.schedule(make(""))


SLEEPS = "do: [{w: {wait: PT10S}}]"


async def starts(env: TestEnvironment) -> list[float]:
    """Return when runs were started, the earliest first, in seconds since the epoch."""
    found = [one.created_at.timestamp() async for one in env.client.list(workflow_type="serverless:n/a")]
    return sorted(found)


async def test_after_counts_from_the_end_of_a_run(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        handle = await runtime.schedule(Document.parse(whole(f"schedule: {{after: PT1M}}\n{SLEEPS}")))
        await asyncio.sleep(30)
        state = await runtime.run(handle.id).describe()
        assert [(one.pointer, one.kind) for one in state.open] == [("/schedule/after", "after")]
        await asyncio.sleep(130)
        first = await starts(env)
        assert [round(one - first[0]) for one in first] == [0, 70, 140]
        # Another version begins at once, unless a run of the one before is under way.
        await asyncio.sleep(20)
        await runtime.schedule(make("schedule: {after: PT5M}", "0.2.0"))
        await asyncio.sleep(1)
        runs = [one async for one in env.client.list(workflow_type="serverless:n/a")]
        versions = [(await runtime.run(one.workflow_id).describe()).version for one in runs]
        assert sorted(versions) == ["0.1.0"] * 3 + ["0.2.0"]
        await runtime.unschedule("n/a")
        await asyncio.sleep(1_000)
        assert len(await starts(env)) == 4
        with pytest.raises(ScheduleNotFoundError):
            await runtime.unschedule("n/a")


async def test_a_run_that_faults_is_followed_by_the_next(sqlite_url: str) -> None:
    text = "schedule: {after: PT1M}\ndo: [{r: {raise: {error: {type: 'https://e.x/e', status: 500}}}}]"
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.schedule(Document.parse(whole(text)))
        await asyncio.sleep(125)
        assert len(await starts(env)) == 3


async def test_a_long_schedule_keeps_a_short_history(sqlite_url: str) -> None:
    limits = StructuralLimits(continue_as_new_events=60)
    async with (
        TestEnvironment(url=sqlite_url, limits=limits) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        handle = await runtime.schedule(make("schedule: {after: PT1S}"))
        await asyncio.sleep(60)
        assert len(await starts(env)) >= 50
        described = await env.client.handle(handle.id).describe()
        assert described.run.run_id != described.run.first_run_id
        assert described.run.history_length < 100


# --- on events --------------------------------------------------------------------------------------------------------

PAIR = "all: [{with: {type: a}, correlate: {o: {from: .data.o}}}, {with: {type: b}, correlate: {o: {from: .data.o}}}]"


def on(strategy: str, version: str = "0.1.0", rest: str = "") -> Document:
    text = f"schedule: {{on: {{{strategy}}}{rest}}}\ndo: [{{s: {{set: {{got: '${{ . }}'}}}}}}]"
    return Document.parse(whole(text).replace("version: '0.1.0'", f"version: '{version}'"))


async def inputs(env: TestEnvironment, runtime: Runtime) -> list[list[str]]:
    """Return the ids of the events that each run was started with, in the order of starts."""
    found = [one async for one in env.client.list(workflow_type="serverless:n/a")]
    outputs = [(await runtime.run(one.workflow_id).result())["got"] for one in reversed(found)]
    return [[event["id"] for event in output] for output in outputs]


@pytest.mark.parametrize(
    ("strategy", "events", "expected"),
    [
        ("one: {with: {type: a}}", "a1 b1 a2 a1", ["1", "2"]),
        ("any: [{with: {type: a}}, {with: {type: b}}]", "a1 b2 c3 a4", ["1", "2", "4"]),
        ("all: [{with: {type: a}}, {with: {type: b}}]", "a1 a2 b3 b4 a5", ["13", "45"]),
        (PAIR, "a1x a2y b3y a4x b5x b6z b7x", ["23", "15"]),
        ("any: [{with: {type: a}}], until: length == 3", "a1 a2 a3 a4 a5 a6 a7", ["123", "456"]),
        ("any: [{with: {type: a}}], until: {one: {with: {type: b}}}", "b1 a2 a3 b4 b5 a6 b7", ["23", "6"]),
    ],
)
async def test_on_starts_a_run_for_each_group(
    database_url: str, strategy: str, events: str, expected: list[str]
) -> None:
    # So few that the schedule continues as new in between, more than once.
    limits = StructuralLimits(continue_as_new_events=12)
    async with (
        TestEnvironment(url=database_url, limits=limits) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        handle = await runtime.schedule(on(strategy))
        await asyncio.sleep(2)
        for word in events.split():
            data = {"o": word[2:]}
            await runtime.publish({"id": word[1], "source": "/s", "type": word[0], "data": data})
            await asyncio.sleep(2)
        assert ["".join(one) for one in await inputs(env, runtime)] == expected
        described = await env.client.handle(handle.id).describe()
        assert described.run.run_id != described.run.first_run_id


async def test_a_start_that_is_reported_lost_is_no_second_run(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        [start] = [one for one in runtime.activities if definition_of(one).name == "serverless.start"]
        definition = on("one: {with: {type: a}}").definition
        for _ in range(2):
            await start({"definition": definition, "input": [1], "id": "one", "task_queue": "default"})
            assert await runtime.run("one").result() == {"got": [1]}
        assert len(await starts(env)) == 1


async def test_another_version_misses_no_event(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.schedule(on("all: [{with: {type: a}}, {with: {type: b}}]"))
        await asyncio.sleep(2)
        await runtime.publish({"id": "1", "source": "/s", "type": "a"})
        await asyncio.sleep(2)
        await runtime.schedule(on("all: [{with: {type: a}}, {with: {type: c}}]", "0.2.0"))
        await runtime.publish({"id": "2", "source": "/s", "type": "c"})
        await asyncio.sleep(2)
        assert await inputs(env, runtime) == [["1", "2"]]
        # The schedule by time takes its place, and back.
        await runtime.schedule(make("schedule: {every: PT1M}", "0.3.0"))
        await asyncio.sleep(61)
        await runtime.publish({"id": "3", "source": "/s", "type": "a"})
        await runtime.publish({"id": "4", "source": "/s", "type": "c"})
        await asyncio.sleep(30)
        assert len(await starts(env)) == 2
        await runtime.schedule(on("one: {with: {type: a}}", "0.4.0"))
        await asyncio.sleep(200)
        assert len(await starts(env)) == 2
        await runtime.publish({"id": "5", "source": "/s", "type": "a"})
        await asyncio.sleep(2)
        assert len(await starts(env)) == 3
        await runtime.unschedule("n/a")
        await runtime.publish({"id": "6", "source": "/s", "type": "a"})
        await asyncio.sleep(5)
        assert len(await starts(env)) == 3
        assert await subscriptions(env.client) == 0


async def test_a_schedule_looks_back_once(database_url: str) -> None:
    def looking_back(version: str) -> Document:
        text = "schedule: {on: {one: {with: {type: a}}}}\ndo: [{s: {set: {got: '${ . }'}}}]"
        metadata = f"version: '{version}', metadata: {{outlast: {{lookback: PT1H}}}}"
        return Document.parse(whole(text).replace("version: '0.1.0'", metadata))

    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.publish({"id": "1", "source": "/s", "type": "a"})
        await asyncio.sleep(2)
        for version in ("0.1.0", "0.2.0", "0.3.0"):
            await runtime.schedule(looking_back(version))
            await asyncio.sleep(2)
        assert await inputs(env, runtime) == [["1"]]


async def test_another_version_moves_to_another_task_queue(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities, task_queue="other"),
    ):
        document = on("one: {with: {type: a}}")
        await runtime.schedule(document)
        await asyncio.sleep(2)
        await runtime.schedule(document, task_queue="other")
        await asyncio.sleep(2)
        await runtime.publish({"id": "1", "source": "/s", "type": "a"})
        await asyncio.sleep(2)
        [run] = [one async for one in env.client.list(workflow_type="serverless:n/a")]
        assert run.task_queue == "other"


async def test_events_are_read_as_the_schedule_says(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.publish({"id": "0", "source": "/s", "type": "a", "data": "before"})
        document = on("one: {with: {type: a}}", rest=", read: data")
        await runtime.schedule(document)
        await asyncio.sleep(2)
        await runtime.publish({"id": "1", "source": "/s", "type": "a", "data": 7})
        await asyncio.sleep(2)
        (run,) = [one async for one in env.client.list(workflow_type="serverless:n/a")]
        assert await runtime.run(run.workflow_id).result() == {"got": [7]}


async def test_the_oldest_group_is_dropped_where_too_much_waits(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.schedule(on(PAIR))
        await asyncio.sleep(2)
        for number in range(5):
            data = {"o": number, "bulk": "x" * 300_000}
            await runtime.publish({"id": f"a{number}", "source": "/s", "type": "a", "data": data})
        await asyncio.sleep(2)
        for number in range(5):
            await runtime.publish({"id": f"b{number}", "source": "/s", "type": "b", "data": {"o": number}})
        await asyncio.sleep(2)
        assert await inputs(env, runtime) == [["a2", "b2"], ["a3", "b3"], ["a4", "b4"]]
        assert "that waited for others are dropped" in caplog.text


async def test_a_schedule_keeps_its_version_of_the_rulings(sqlite_url: str) -> None:
    document = make("schedule: {after: PT1M}")
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        handle = await runtime.schedule(document)
        (first, *_) = [event async for event in env.client.handle(handle.id).history()]
        (request,) = first.payload["input"]
        assert request["rules"] == 1
        newer = await env.client.start("serverless-schedule:n/b", {**request, "rules": 2}, id="newer")
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            await asyncio.sleep(5)
        assert await newer.is_open()
        assert [one.value for one in (await newer.describe()).attention] == ["task_keeps_failing"]
