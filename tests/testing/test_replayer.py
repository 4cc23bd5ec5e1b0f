"""The replayer: histories at hand, in files and in databases, fed to today's code."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.engine import family, programs, talkers

from outlast import Client, DataConverter, workflow
from outlast.errors import (
    InvalidHistoryError,
    InvalidOptionError,
    NonDeterminismError,
    PayloadDecodeError,
    RestrictedWorkflowAccessError,
    UnknownWorkflowTypeError,
)
from outlast.interceptors import Interceptor, RunWorkflow
from outlast.testing import Replayer, TestEnvironment, VirtualLoop
from outlast_workflow.options.options import ActivityOptions

WORKFLOWS = [*programs.WORKFLOWS, *family.WORKFLOWS, *talkers.WORKFLOWS]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


def environment(url: str = "sqlite://", **options: Any) -> TestEnvironment:
    return TestEnvironment(workflows=WORKFLOWS, activities=programs.ACTIVITIES, url=url, **options)


@workflow.defn(name="Sum")
class OtherSum:
    """As programs.Sum, but for a timer before each activity."""

    @workflow.run
    async def run(self, numbers: list[int]) -> int:
        total = 0
        for number in numbers:
            await asyncio.sleep(1)
            total = await programs.add(total, number)
        return total


async def live(client: Client) -> None:
    await asyncio.gather(
        client.execute(programs.Sum.run, [1, 2, 3], id="sum"),
        client.execute(programs.Sum.run, [4], id="sum-2"),
        client.execute(programs.with_gather, id="gather"),
        client.execute(family.relay, id="relay"),
        client.execute(programs.with_failing_group, id="group"),
    )
    await client.start(programs.waiting, 1000.0, id="open")


async def test_a_document_and_a_list_of_them_replay() -> None:
    async with environment() as env:
        await live(env.client)
        one = await env.client.export_history("sum")
        documents = [document async for document in env.client.export_histories()]
    replayer = Replayer(WORKFLOWS)
    report = replayer.replay(one)
    assert (report.runs, report.events, report.workflow_tasks, report.ok) == (1, len(one["events"]), 4, True)
    report = replayer.replay(documents)
    assert report.runs == len(documents)
    assert report.events == sum(len(document["events"]) for document in documents)


async def test_the_events_of_a_handle_replay() -> None:
    async with environment() as env:
        await live(env.client)
        events = [event async for event in env.client.handle("sum").history()]
    assert Replayer(WORKFLOWS).replay(events).events == len(events)
    with pytest.raises(NonDeterminismError):
        Replayer([OtherSum]).replay(events)
    as_printed = [{"seq": event.seq, "type": event.type, "payload": event.payload} for event in events]
    assert Replayer(WORKFLOWS).replay(as_printed).ok
    with pytest.raises(InvalidHistoryError, match="not complete"):
        Replayer(WORKFLOWS).replay(events[1:])


async def test_a_file_replays(tmp_path: Path) -> None:
    async with environment() as env:
        await live(env.client)
        documents = [document async for document in env.client.export_histories()]
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(document) for document in documents))
    reached: list[int] = []
    report = Replayer(WORKFLOWS).replay(path, progress=reached.append)
    assert report.runs == len(documents) == len(reached)
    assert reached == sorted(reached)
    assert Replayer(WORKFLOWS).replay(str(path)).runs == len(documents)


async def test_a_difference_shows_both_sides_and_names_the_run() -> None:
    async with environment() as env:
        await live(env.client)
        document = await env.client.export_history("sum")
    with pytest.raises(NonDeterminismError) as caught:
        Replayer([OtherSum]).replay(document)
    error = caught.value
    assert error.expected == ["ActivityScheduled #1 add"]
    assert error.actual == ["TimerScheduled #1"]
    assert error.source is not None
    assert error.source.startswith(__file__)
    assert error.__notes__ == [f"This is run {document['run']['run_id']} of workflow 'sum'."]


async def test_differences_can_be_collected() -> None:
    async with environment() as env:
        await live(env.client)
        documents = [document async for document in env.client.export_histories()]
    mixed = [one for one in WORKFLOWS if one is not programs.Sum]
    report = Replayer([*mixed, OtherSum]).replay(documents, raise_on_failure=False)
    assert report.runs == len(documents)
    assert report.failures == 2
    assert {run.workflow_id for run in report.failed} == {"sum", "sum-2"}
    assert all(isinstance(run.error, NonDeterminismError) for run in report.failed)
    assert not report.ok
    with pytest.raises(NonDeterminismError) as caught:
        report.raise_for_failures()
    assert "1 more runs failed" in caught.value.__notes__[0]


async def test_a_history_of_an_unknown_workflow_fails() -> None:
    async with environment() as env:
        await live(env.client)
        document = await env.client.export_history("gather")
    with pytest.raises(UnknownWorkflowTypeError, match="'with_gather' is not known here"):
        Replayer([OtherSum]).replay(document)


async def test_every_database_is_replayed_in_place(database_url: str) -> None:
    async with environment(database_url) as env:
        await live(env.client)
        replayer = Replayer([OtherSum, *family.WORKFLOWS, programs.waiting])
        report = await replayer.replay_all(env.client)
        assert {run.workflow_id for run in report.failed} == {"sum", "sum-2"}
        assert report.skipped == {"with_gather": 1, "with_failing_group": 1}
        assert report.runs + 2 == await env.client.count()
        everything = Replayer(WORKFLOWS)
        assert (await everything.replay_all(env.client)).ok
        assert (await everything.replay_all(env.client, workflow_type="Sum", status="completed")).runs == 2
        assert (await everything.replay_all(env.client, limit=3)).runs == 3
        with pytest.raises(NonDeterminismError):
            await replayer.replay_all(env.client, raise_on_failure=True)


class Backwards:
    name = "backwards"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


async def test_encoded_histories_need_the_codec() -> None:
    converter = DataConverter(Backwards())
    async with environment(converter=converter) as env:
        await env.client.execute(programs.Sum.run, [1, 2], id="sum")
        document = await env.client.export_history("sum")
    assert Replayer(WORKFLOWS, converter=converter).replay(document).ok
    with pytest.raises(PayloadDecodeError):
        Replayer(WORKFLOWS).replay(document)


async def test_options_of_the_worker_are_given() -> None:
    @workflow.defn
    async def unbounded() -> int:
        return int(await workflow.execute_activity("add", 1, 2, result_type=int))

    options = ActivityOptions(start_to_close_timeout=5)
    async with TestEnvironment(
        workflows=[unbounded], activities=programs.ACTIVITIES, default_activity_options=options
    ) as env:
        assert await env.client.execute(unbounded, id="w") == 3
        document = await env.client.export_history("w")
    assert Replayer([unbounded], default_activity_options=options).replay(document).ok


def test_what_is_no_history_or_no_workflow_is_refused(tmp_path: Path) -> None:
    replayer = Replayer(WORKFLOWS)
    wrong: list[tuple[Any, str]] = [
        (tmp_path / "none.jsonl", "cannot be read"),
        ({"events": []}, "not an exported history"),
        ({"format": "outlast-history", "version": 1}, "its run or its events"),
        ({"format": "outlast-history", "version": 1, "run": {"run_id": "r"}, "events": []}, "not complete"),
        ([{"seq": 1, "type": "WorkflowStarted", "payload": None}], "its first event"),
        ([{"seq": 1, "type": "Surprise", "payload": {}}], "does not know"),
    ]
    for history, words in wrong:
        with pytest.raises(InvalidHistoryError, match=words):
            replayer.replay(history)
    with pytest.raises(InvalidOptionError):
        Replayer([])
    with pytest.raises(InvalidOptionError, match="two workflows are called 'Sum'"):
        Replayer([programs.Sum, OtherSum])
    with pytest.raises(InvalidOptionError):
        Replayer([len])


class Audited(Interceptor):
    """Adds a durable call of its own to every run."""

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        await programs.add(0, 0)
        return await next(call)


async def test_an_interceptor_that_makes_durable_calls_is_part_of_what_is_replayed() -> None:
    async with environment(interceptors=[Audited()], replay=True) as env:
        assert await env.client.execute(programs.Sum.run, [1, 2], id="sum") == 3
        document = await env.client.export_history("sum")
        assert (await Replayer(WORKFLOWS, interceptors=[Audited()]).replay_all(env.client)).ok
        assert not (await Replayer(WORKFLOWS).replay_all(env.client)).ok
    assert Replayer(WORKFLOWS, interceptors=[Audited()]).replay(document).ok
    with pytest.raises(NonDeterminismError):
        Replayer(WORKFLOWS).replay(document)
    wrong: Any = [Audited]
    with pytest.raises(InvalidOptionError, match="not the class Audited"):
        Replayer(WORKFLOWS, interceptors=wrong)


@workflow.defn
async def reads_a_file() -> int:
    with open(os.devnull) as file:  # noqa: ASYNC230
        return len(file.read())


async def test_the_runtime_guard_stands_where_the_worker_would_have_it() -> None:
    sleeps = time.sleep
    async with TestEnvironment(
        workflows=[reads_a_file], runtime_guard=False, static_checks="off", replay=True
    ) as env:
        assert await env.client.execute(reads_a_file, id="r") == 0
        document = await env.client.export_history("r")
    with pytest.raises(RestrictedWorkflowAccessError, match=r"opened a file at .*test_replayer"):
        Replayer([reads_a_file]).replay(document)
    assert Replayer([reads_a_file], runtime_guard=False).replay(document).ok
    assert time.sleep is sleeps
