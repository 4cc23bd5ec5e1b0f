"""Streams end to end: what readers see is what was written, in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import (
    InvalidOptionError,
    RetryPolicy,
    StartOptions,
    StreamItem,
    StructuralLimits,
    WorkflowFailedError,
    WorkflowNotFoundError,
    activity,
    workflow,
)
from outlast.errors import (
    ActivityError,
    InvalidHistoryError,
    StreamClosedError,
    StreamTimeoutError,
    StructuralLimitError,
)
from outlast.testing import TestEnvironment
from outlast_store.database.sql_text import fetch

pytestmark = pytest.mark.anyio


@dataclass
class Token:
    text: str


def no_retry() -> RetryPolicy:
    return RetryPolicy(max_attempts=1)


async def values(items: AsyncIterator[StreamItem[Any]]) -> list[Any]:
    found = [item async for item in items]
    assert [item.offset for item in found] == list(
        range(found[0].offset, found[0].offset + len(found)) if found else []
    )
    return [item.value for item in found]


@activity.defn(start_to_close_timeout=60)
async def speak(words: list[str], stream: str) -> int:
    said = activity.stream(stream)
    for word in words:
        said.write(word)
    return len(words)


@activity.defn(start_to_close_timeout=60)
def speak_plainly(words: list[str], stream: str) -> int:
    for word in words:
        activity.stream(stream).write(word)
    return len(words)


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3))
async def speak_again(stream: str) -> None:
    attempt = activity.info().attempt
    activity.stream(stream).write(attempt)
    if attempt < 3:
        raise ValueError("once more")


@workflow.defn
class Counting:
    """Writes numbers, sleeping between them, and closes."""

    @workflow.run
    async def run(self, count: int, close: bool) -> str:
        numbers = workflow.stream("numbers")
        for number in range(count):
            numbers.write(number)
            await workflow.sleep(1)
        if close:
            numbers.close()
        return "counted"


@workflow.defn
class Speaking:
    @workflow.run
    async def run(self, words: list[str]) -> int:
        stream = workflow.stream("words")
        stream.write("<begin>")
        total = await speak(words, "words")
        total += await speak_plainly(words, "words")
        stream.write("<end>")
        return total


@workflow.defn
async def chained(left: int) -> int:
    workflow.stream("chain").write(left)
    if left:
        workflow.continue_as_new(left - 1)
    workflow.stream("chain").close()
    return left


@workflow.defn
async def closing_first(catch: bool) -> str:
    stream = workflow.stream("s")
    stream.write(1)
    stream.close()
    stream.close()
    try:
        stream.write(2)
    except StreamClosedError as error:
        if not catch:
            raise
        return error.name
    return "written"


@workflow.defn
async def closed_by_another_run(again: bool) -> None:
    workflow.stream("s").write(again)
    if not again:
        workflow.stream("s").close()
        workflow.continue_as_new(True)


@workflow.defn
async def speaking_to_a_closed_stream() -> str:
    workflow.stream("s").close()
    try:
        await speak.with_options(retry_policy=RetryPolicy(max_attempts=5))(["late"], "s")
    except ActivityError as error:
        return type(error.__cause__).__name__
    return "written"


@workflow.defn
async def retried_speech() -> None:
    await speak_again("s")


@workflow.defn
async def failing_once() -> str:
    stream = workflow.stream("s")
    stream.write(workflow.info().attempt)
    stream.close()
    if workflow.info().attempt == 1:
        raise ValueError("once more")
    return "done"


@workflow.defn
class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: "stop" in self.heard)

    @workflow.signal
    def hear(self, word: str) -> None:
        workflow.stream("heard").write(word)
        self.heard.append(word)

    @workflow.query
    def write(self) -> None:
        workflow.stream("heard").write("from a query")


@workflow.defn
async def writing_much(items: int, size: int) -> None:
    for _ in range(items):
        workflow.stream("s").write("x" * size)


WORKFLOWS = [
    Counting,
    Speaking,
    Listener,
    chained,
    closing_first,
    closed_by_another_run,
    speaking_to_a_closed_stream,
    retried_speech,
    failing_once,
    writing_much,
]
ACTIVITIES = [speak, speak_plainly, speak_again]


@pytest.fixture
def streams(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(**{"workflows": WORKFLOWS, "activities": ACTIVITIES, **options})


async def test_a_reader_gets_each_item_in_order_and_ends_at_the_close(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Counting.run, 5, True, id="counting")
        found = [item async for item in handle.stream("numbers", item_type=int)]
        assert [(item.offset, item.value) for item in found] == [(n, n) for n in range(5)]
        assert all(item.activity_id is None and item.attempt is None for item in found)
        assert {item.run_id for item in found} == {await handle.resolve()}
        assert [item.written_at for item in found] == sorted(item.written_at for item in found)
        assert await handle.result() == "counted"
        assert await values(handle.stream("numbers")) == list(range(5))
        assert await values(handle.stream("numbers", start=3)) == [3, 4]
        assert await values(handle.stream("numbers", start=9)) == []


async def test_a_reader_ends_when_the_workflow_ends(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Counting.run, 3, False, id="counting")
        assert await values(handle.stream("numbers")) == [0, 1, 2]
        assert await values(handle.stream("nothing of that name")) == []


async def test_items_are_there_while_the_workflow_runs(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Listener.run, id="listener")
        heard = handle.stream("heard", timeout=30)
        for word in ("one", "two", "stop"):
            await handle.signal(Listener.hear, word)
            assert (await anext(heard)).value == word
        with pytest.raises(StopAsyncIteration):
            await anext(heard)


async def test_many_readers_read_the_same_stream(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Counting.run, 10, True, id="counting")
        readers = [values(handle.stream("numbers", start=start)) for start in range(10)]
        assert await asyncio.gather(*readers) == [list(range(start, 10)) for start in range(10)]


async def test_activities_write_before_their_result_is_there(streams: MakeEnvironment) -> None:
    words = [f"word {n}" for n in range(250)]
    async with streams() as env:
        handle = await env.client.start(Speaking.run, words, id="speaking")
        found = [item async for item in handle.stream("words")]
        assert [item.value for item in found] == ["<begin>", *words, *words, "<end>"]
        assert [item.activity_id for item in found] == [None, *[2] * 250, *[3] * 250, None]
        assert {item.attempt for item in found} == {None, 1}
        assert await handle.result() == 500


async def test_each_attempt_publishes_and_names_itself(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(retried_speech, id="retried")
        await handle.result()
        found = [(item.value, item.attempt) async for item in handle.stream("s")]
        assert found == [(1, 1), (2, 2), (3, 3)]


async def test_the_runs_of_a_chain_share_their_streams(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(chained, 4, id="chained")
        found = [item async for item in handle.stream("chain")]
        assert [item.value for item in found] == [4, 3, 2, 1, 0]
        assert len({item.run_id for item in found}) == 5
        first = env.client.handle("chained", run_id=found[0].run_id)
        assert await values(first.stream("chain")) == [4, 3, 2, 1, 0]


async def test_a_write_after_the_close_raises(streams: MakeEnvironment) -> None:
    async with streams() as env:
        assert await env.client.execute(closing_first, True, id="caught") == "s"
        handle = await env.client.start(closing_first, False, id="uncaught")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, StreamClosedError)
        assert await values(handle.stream("s")) == [1]


async def test_a_stream_that_another_run_closed_fails_the_run_that_writes(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(closed_by_another_run, False, id="closed")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, StreamClosedError)
        assert await values(handle.stream("s")) == [False]


async def test_an_activity_whose_items_are_refused_fails_and_is_not_retried(streams: MakeEnvironment) -> None:
    async with streams() as env:
        assert await env.client.execute(speaking_to_a_closed_stream, id="late") == "StreamClosedError"


async def test_a_retried_run_writes_on_though_the_failed_one_had_closed(streams: MakeEnvironment) -> None:
    async with streams() as env:
        options = StartOptions(retry_policy=RetryPolicy(initial_interval=1, max_attempts=2))
        handle = await env.client.start(failing_once, id="failing", options=options)
        assert await handle.result() == "done"
        assert await values(handle.stream("s")) == [1, 2]


async def test_a_reset_keeps_what_was_published_and_opens_what_was_closed_later(
    streams: MakeEnvironment,
) -> None:
    async with streams() as env:
        handle = await env.client.start(Counting.run, 2, True, id="counting")
        assert await values(handle.stream("numbers")) == [0, 1]
        await handle.result()
        again = await handle.reset("first-workflow-task")
        assert await again.result() == "counted"
        assert await values(again.stream("numbers")) == [0, 1, 0, 1]


async def test_a_reset_behind_the_close_leaves_it_closed(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Counting.run, 2, True, id="counting")
        await handle.result()
        again = await handle.reset("last-workflow-task")
        assert await again.result() == "counted"
        assert await values(again.stream("numbers")) == [0, 1]


async def test_an_item_that_does_not_come_in_time_raises(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Listener.run, id="listener")
        await handle.signal(Listener.hear, "one")
        reader = handle.stream("heard", timeout=2)
        assert (await anext(reader)).value == "one"
        with pytest.raises(StreamTimeoutError, match="start=1") as caught:
            await anext(reader)
        assert (caught.value.offset, caught.value.timeout_seconds) == (1, 2)
        assert isinstance(caught.value, TimeoutError)
        await handle.signal(Listener.hear, "stop")
        assert (await anext(reader)).value == "stop", "a reader goes on after a timeout"


async def test_values_are_read_as_a_type(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Listener.run, id="listener")
        await handle.signal("hear", "stop")
        texts = [item.value async for item in handle.stream("heard", item_type=str)]
        assert texts == ["stop"]


async def test_a_query_cannot_write(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = await env.client.start(Listener.run, id="listener")
        with pytest.raises(Exception, match="write"):
            await handle.query(Listener.write)
        await handle.signal(Listener.hear, "stop")
        assert await values(handle.stream("heard")) == ["stop"]


async def test_bad_options_are_refused(streams: MakeEnvironment) -> None:
    async with streams() as env:
        handle = env.client.handle("nobody")
        wrong: list[dict[str, Any]] = [
            {"start": -1},
            {"start": True},
            {"start": "1"},
            {"timeout": -1},
            {"starts": 1},
        ]
        for options in wrong:
            with pytest.raises((InvalidOptionError, TypeError)):
                handle.stream("s", **options)
        with pytest.raises(InvalidOptionError, match="start"):
            handle.stream("words", start=2**63)
        with pytest.raises(InvalidOptionError):
            handle.stream("")
        with pytest.raises(WorkflowNotFoundError):
            await anext(handle.stream("s"))


@pytest.mark.parametrize(
    ("limits", "kind"),
    [(StructuralLimits(stream_items=3), "stream_items"), (StructuralLimits(stream_bytes=30), "stream_bytes")],
)
async def test_a_chain_whose_streams_grow_too_large_fails(
    streams: MakeEnvironment, limits: StructuralLimits, kind: str
) -> None:
    async with streams(limits=limits) as env:
        await env.client.execute(writing_much, 3, 8, id="within")
        handle = await env.client.start(writing_much, 4, 8, id="beyond")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        cause = caught.value.__cause__
        assert isinstance(cause, StructuralLimitError)
        assert cause.kind == kind
        assert await values(handle.stream("s")) == []


async def test_streams_are_exported_and_imported_with_their_chain(streams: MakeEnvironment) -> None:
    async with streams() as env:
        await (await env.client.start(chained, 3, id="chained")).result()
        await (await env.client.start(Speaking.run, ["a", "b"], id="speaking")).result()
        before = [item async for item in env.client.handle("speaking").stream("words")]
        documents = [document async for document in env.client.export_histories(chains=True)]
    sections = [len(document.get("stream_items", ())) for document in documents]
    assert sorted(sections) == [0, 0, 0, 4, 6]
    async with TestEnvironment(workflows=[]) as env:
        assert (await env.client.import_histories(documents)).workflows == 2
        assert [item async for item in env.client.handle("speaking").stream("words")] == before
        assert await values(env.client.handle("chained").stream("chain")) == [3, 2, 1, 0]


async def test_an_import_whose_stream_lacks_an_item_is_refused(streams: MakeEnvironment) -> None:
    async with streams() as env:
        await (await env.client.start(Counting.run, 3, True, id="counting")).result()
        document = await env.client.export_history("counting")
    async with TestEnvironment(workflows=[]) as env:
        for spoil in (
            lambda spoilt: spoilt["stream_items"].pop(1),
            lambda spoilt: spoilt["streams"].pop(),
            lambda spoilt: spoilt["streams"][0].update(bytes=7),
        ):
            spoilt = copy.deepcopy(document)
            spoil(spoilt)
            with pytest.raises(InvalidHistoryError, match="numbers"):
                await env.client.import_histories([spoilt])


async def test_a_deleted_workflow_leaves_no_item(streams: MakeEnvironment) -> None:
    async with streams() as env:
        await (await env.client.start(Counting.run, 3, True, id="kept")).result()
        await (await env.client.start(writing_much, 1200, 1, id="deleted")).result()
        await env.client.delete("deleted")
        left = await env.client.runtime.read(
            lambda connection: fetch(connection, "SELECT COUNT(*) FROM stream_items", ())
        )
        assert left == [(3,)]
        heads = await env.client.runtime.read(
            lambda connection: fetch(connection, "SELECT name FROM streams", ())
        )
        assert heads == [("numbers",)]
