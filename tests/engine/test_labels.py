"""Labels for people: summaries of runs, activities, timers and children, and how far a run is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engine.conftest import MakeEnvironment

from outlast import (
    ActivityOptions,
    RetryPolicy,
    RunStatus,
    StartOptions,
    WorkflowHandle,
    activity,
    workflow,
)
from outlast.errors import InvalidOptionError, QueryFailedError
from outlast.testing import Replayer, TestEnvironment
from outlast.visibility.views import RunProgress

LONG = "x" * 201


@activity.defn(start_to_close_timeout=1000, summary="wait for the bank")
async def wait_for(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow.defn
async def labelled(first: str, others: str) -> None:
    """Have one of each open: three activities, two timers, a child."""
    waits = [
        workflow.start_activity(wait_for, 100.0, summary=first),
        workflow.start_activity("wait_for", 100.0, summary=others, start_to_close_timeout=1000),
        workflow.start_local_activity(wait_for, 100.0, options=ActivityOptions(summary=others)),
        wait_for(100.0),
        wait_for.with_options(summary=others)(100.0),
        workflow.start_child(resting, summary=first, id=f"{workflow.info().workflow_id}-child"),
        workflow.wait_condition(lambda: False, 101, timeout_summary=others),
        workflow.sleep(102, summary=first),
        workflow.sleep(103),
    ]
    await asyncio.gather(*waits, return_exceptions=True)


@workflow.defn
async def resting() -> None:
    await workflow.sleep(100)


@workflow.defn
async def outlasting() -> None:
    """Wait for a timer that is open before and after an activity."""
    waiting = asyncio.ensure_future(workflow.sleep(1000, summary="a long wait"))
    await wait_for(10.0)
    await waiting


@workflow.defn
def labelled_plainly(text: str) -> None:
    workflow.blocking.start_activity(wait_for, 100.0, summary=text)
    workflow.blocking.start_child(resting, summary=text)
    workflow.blocking.set_progress(1, 2, text)
    try:
        workflow.blocking.wait_condition(lambda: False, 50, timeout_summary=text)
    except TimeoutError:
        workflow.blocking.sleep(50, summary=text)


@workflow.defn
async def in_chain(how: str) -> None:
    workflow.set_progress(workflow.info().run_number)
    await workflow.sleep(10)
    if workflow.info().run_number == 1:
        if how == "continue":
            workflow.continue_as_new(how)
        raise ValueError("once more")
    await workflow.sleep(100)


@workflow.defn
async def mislabelled(where: str) -> None:
    await asyncio.sleep(1)
    match where:
        case "activity":
            await workflow.execute_activity(wait_for, 1.0, summary=LONG)
        case "timer":
            await workflow.sleep(1, summary=LONG)
        case "timeout":
            await workflow.wait_condition(lambda: False, 1, timeout_summary="\0")
        case "child":
            await workflow.execute_child(resting, summary=LONG)
        case "message":
            workflow.set_progress(1, 2, "\ud800")
        case "negative":
            workflow.set_progress(-1)
        case "total":
            workflow.set_progress(1, float("inf"))
        case "kind":
            given: Any = "1"
            workflow.set_progress(given)
        case _:
            raise AssertionError(where)


@workflow.defn
class Importing:
    def __init__(self) -> None:
        self.done = 0

    @workflow.run
    async def run(self, rows: int) -> None:
        for row in range(rows):
            workflow.set_progress(row, rows, "overwritten in the same workflow task")
            workflow.set_progress(row, rows, f"row {row}")
            await workflow.sleep(10)
        workflow.set_progress(rows, rows)

    @workflow.query
    def cheat(self) -> None:
        workflow.set_progress(99)


async def test_describe_shows_the_summary_of_all_that_is_open(engine: MakeEnvironment) -> None:
    async with engine(workflows=[labelled, resting], activities=[wait_for]) as env:
        options = StartOptions(summary="one of each")
        handle = await env.client.start(labelled, "the first", "another", id="w", options=options)
        await asyncio.sleep(5)
        seen = await handle.describe()
        assert seen.run.summary == "one of each"
        activities = [one.summary for one in seen.pending_activities]
        assert activities == ["the first", "another", "another", "wait for the bank", "another"]
        assert [one.summary for one in seen.pending_timers] == ["another", "the first", None]
        (child,) = seen.pending_children
        assert child.summary == "the first"
        listed = {run.workflow_id: run.summary async for run in env.client.list()}
        assert listed == {"w": "one of each", "w-child": "the first"}
        assert (await env.client.handle("w-child").describe()).run.summary == "the first"
        assert await said(handle, "WorkflowStarted") == ["one of each"]
        assert await said(handle, "ActivityScheduled") == activities
        assert await said(handle, "ChildWorkflowScheduled") == ["the first"]
        assert await said(handle, "TimerScheduled") == ["another", "the first", None]
        assert await said(env.client.handle("w-child"), "WorkflowStarted") == ["the first"]
        await handle.result()


async def said(handle: WorkflowHandle[Any], kind: str) -> list[str | None]:
    """The summaries of a run's events of a kind."""
    return [event.payload.get("summary") async for event in handle.history() if event.type == kind]


async def test_plain_code_labels_in_the_same_way(engine: MakeEnvironment) -> None:
    async with engine(workflows=[labelled_plainly, resting], activities=[wait_for]) as env:
        handle = await env.client.start(labelled_plainly, "why", id="w")
        await asyncio.sleep(5)
        seen = await handle.describe()
        assert [one.summary for one in seen.pending_activities] == ["why"]
        assert [one.summary for one in seen.pending_timers] == ["why"]
        assert [one.summary for one in seen.pending_children] == ["why"]
        assert seen.run.progress == RunProgress(done=1, total=2, message="why")
        await handle.result()
        assert await said(handle, "TimerScheduled") == ["why", "why"]


@pytest.mark.parametrize("how", ["continue", "fail"])
async def test_the_runs_of_a_chain_share_the_summary_and_each_begins_without_progress(
    engine: MakeEnvironment, how: str
) -> None:
    async with engine(workflows=[in_chain]) as env:
        options = StartOptions(summary="on and on", retry_policy=RetryPolicy(initial_interval=50))
        handle = await env.client.start(in_chain, how, id="w", options=options)
        await asyncio.sleep(5)
        first = (await handle.describe()).run
        assert (first.summary, first.progress) == ("on and on", RunProgress(done=1))
        if how == "fail":
            await asyncio.sleep(20)
            waiting = (await handle.describe()).run
            assert (waiting.run_number, waiting.summary, waiting.progress) == (2, "on and on", None)
        await asyncio.sleep(50)
        second = (await handle.describe()).run
        assert (second.run_number, second.summary, second.progress) == (2, "on and on", RunProgress(done=2))
        assert await said(handle, "WorkflowStarted") == ["on and on"]
        await handle.result()
        runs = {run.run_number: run.progress async for run in env.client.list()}
        assert runs == {1: RunProgress(done=1), 2: RunProgress(done=2)}, "an ended run keeps its last one"


async def test_a_reset_keeps_labels_and_finds_the_progress_again(engine: MakeEnvironment) -> None:
    async with engine(workflows=[outlasting, Importing], activities=[wait_for]) as env:
        handle = await env.client.start(Importing.run, 3, id="w", options=StartOptions(summary="rows"))
        await asyncio.sleep(15)
        await handle.reset("last-workflow-task")
        await asyncio.sleep(1)
        again = (await handle.describe()).run
        assert (again.run_number, again.summary) == (2, "rows")
        assert again.progress == RunProgress(done=1, total=3, message="row 1")
        (timer,) = (await handle.describe()).pending_timers
        assert timer.summary is None
        await handle.terminate()
        waiting = await env.client.start(outlasting, id="timer")
        await asyncio.sleep(15)
        await waiting.reset("last-workflow-task")
        (timer,) = (await waiting.describe()).pending_timers
        assert timer.summary == "a long wait"
        await waiting.terminate()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("activity", "summary must be at most 200 characters, not 201"),
        ("timer", "sleep summary must be at most 200 characters, not 201"),
        ("timeout", "timeout summary must not hold NUL"),
        ("child", "summary must be at most 200 characters, not 201"),
        ("message", "progress message must be valid Unicode text"),
        ("negative", "progress done must be at least 0"),
        ("total", "progress total must be finite"),
        ("kind", "progress done must be a number, not str"),
    ],
)
async def test_a_label_that_cannot_be_one_fails_the_task(
    engine: MakeEnvironment, where: str, message: str
) -> None:
    async with engine(workflows=[mislabelled, resting], activities=[wait_for]) as env:
        handle = await env.client.start(mislabelled, where)
        await asyncio.sleep(10)
        seen = await handle.describe()
        assert seen.failures[0].exception_class == "InvalidOptionError"
        assert message in seen.failures[0].message
        assert seen.run.status == RunStatus.RUNNING
        await handle.terminate()


def test_options_refuse_what_is_no_label() -> None:
    for options in (StartOptions, ActivityOptions):
        with pytest.raises(InvalidOptionError, match="at most 200 characters, not 201: it is a label"):
            options(summary=LONG)
        given: Any = 7
        with pytest.raises(InvalidOptionError, match="summary must be text, not int"):
            options(summary=given)
        assert options(summary="").summary is None
        assert options().with_summary("why") == options(summary="why")


@workflow.defn(name="labelled")
async def relabelled(first: str, others: str) -> None:
    """The same commands under other labels, one of them wrong by now."""
    workflow.set_progress(5, 5, "another one")
    waits = [
        workflow.start_activity(wait_for, 100.0),
        workflow.start_activity("wait_for", 100.0, summary=LONG, start_to_close_timeout=1000),
        workflow.start_local_activity(wait_for, 100.0, summary="new"),
        wait_for.with_options(summary="new")(100.0),
        wait_for(100.0),
        workflow.start_child(resting, summary=LONG, id=f"{workflow.info().workflow_id}-child"),
        workflow.wait_condition(lambda: False, 101, timeout_summary=LONG),
        workflow.sleep(102),
        workflow.sleep(103, summary=LONG),
    ]
    await asyncio.gather(*waits, return_exceptions=True)


async def test_replay_compares_no_labels(engine: MakeEnvironment) -> None:
    async with engine(workflows=[labelled, resting], activities=[wait_for]) as env:
        await env.client.execute(labelled, "the first", "another", id="w")
        documents = [one async for one in env.client.export_histories(workflow_id="w")]
    assert Replayer([relabelled, resting]).replay(documents).runs == 1


async def test_progress_is_the_last_value_of_each_workflow_task_and_no_event(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Importing]) as env:
        handle = await env.client.start(Importing.run, 3, id="w")
        for row in range(3):
            await asyncio.sleep(5)
            seen = (await handle.describe()).run.progress
            assert seen == RunProgress(done=row, total=3, message=f"row {row}")
            (listed,) = [run async for run in env.client.list()]
            assert listed.progress == seen
            await asyncio.sleep(5)
        await handle.result()
        assert (await handle.describe()).run.progress == RunProgress(done=3, total=3)
        kinds = {event.type async for event in handle.history()}
        assert kinds == {
            "WorkflowStarted",
            "WorkflowTaskCompleted",
            "TimerScheduled",
            "TimerFired",
            "WorkflowCompleted",
        }


async def test_a_query_may_not_set_it(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Importing]) as env:
        handle = await env.client.start(Importing.run, 3, id="w")
        await asyncio.sleep(5)
        with pytest.raises(QueryFailedError, match="set the progress"):
            await handle.query(Importing.cheat)
        assert (await handle.describe()).run.progress == RunProgress(done=0, total=3, message="row 0")


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [
        (RunProgress(done=3), None),
        (RunProgress(done=3, total=12), 0.25),
        (RunProgress(done=13, total=12), 1.0),
        (RunProgress(done=0, total=0), 1.0),
    ],
)
def test_a_fraction_needs_a_total(progress: RunProgress, fraction: float | None) -> None:
    assert progress.fraction == fraction


# --- any text --------------------------------------------------------------------------------------------------------


async def _labelled_with(url: str, texts: list[str], name: str) -> None:
    """Give every place for a label each of the texts, and read it back: there, and where it was imported to."""
    expected = {f"{name}-{number}": text for number, text in enumerate(texts)}
    async with TestEnvironment(workflows=[labelled_plainly, resting], activities=[wait_for], url=url) as env:
        for id, text in expected.items():
            await env.client.start(labelled_plainly, text, id=id, options=StartOptions(summary=text))
        await env.sleep(5)
        for id, text in expected.items():
            seen = await env.client.describe(id)
            for pending in (seen.pending_activities, seen.pending_timers, seen.pending_children):
                assert [one.summary for one in pending] == [text]
            assert (seen.run.summary, seen.run.progress) == (text, RunProgress(done=1, total=2, message=text))
        await env.sleep(500)
        documents = [one for id in expected async for one in env.client.export_histories(workflow_id=id)]
        exported = await _shown(env, expected)
    async with TestEnvironment() as other:
        await other.client.import_histories(documents)
        assert await _shown(other, expected) == exported
        for (run, *_), summaries in exported:
            assert set(summaries) <= {None, expected[run]}


async def _shown(env: TestEnvironment, ids: Iterable[str]) -> list[Any]:
    """What closed runs show of their labels."""
    found: list[Any] = []
    for id in ids:
        seen = await env.client.describe(id)
        events = [event async for event in env.client.handle(id).history()]
        said = [event.payload.get("summary") for event in events if "summary" in event.payload]
        found.append(((id, seen.run.summary, seen.run.progress), said))
    return found


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A database that lasts from one environment to the next."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    "url", ["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)], indirect=True
)
def test_any_text_survives_every_store_and_a_move(url: str) -> None:
    characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    names = (f"example-{number}" for number in itertools.count())

    unwatched: Any = list(HealthCheck)

    @settings(max_examples=8, suppress_health_check=unwatched)
    @given(st.lists(st.text(characters, min_size=1, max_size=200), min_size=4, max_size=8))
    @example(["\n\t\x1b[31m", "\U0001f600" * 200, "\\'\"", "\ue000\uffff"])
    def check(texts: list[str]) -> None:
        TestEnvironment.run(_labelled_with, url, texts, next(names))

    check()
