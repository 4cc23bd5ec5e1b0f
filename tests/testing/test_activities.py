"""Activities run by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import ApplicationError, activity
from outlast.errors import DeferRefusedError, PayloadDecodeError, PayloadEncodeError
from outlast.testing import ActivityEnvironment
from outlast_workflow.options.options import ActivityOptions


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=10)
async def copy_rows(rows: int) -> int:
    begun_at = activity.info().heartbeat_details
    for row in range(begun_at[0] if begun_at else 0, rows):
        activity.heartbeat(row + 1)
        await asyncio.sleep(0)
    return rows


@activity.defn(start_to_close_timeout=60)
def plain(number: int) -> int:
    activity.heartbeat("at work")
    return number + activity.info().attempt


@activity.defn(start_to_close_timeout=60)
async def hang() -> str:
    activity.heartbeat("begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return f"cancelled: {activity.is_cancelled()}"
    return "never"


@activity.defn(start_to_close_timeout=60)
async def unwritable() -> Any:
    return object()


async def test_heartbeats_are_kept_and_the_previous_ones_shown() -> None:
    env = ActivityEnvironment()
    assert await env.run(copy_rows, 3) == 3
    assert env.heartbeats == [(1,), (2,), (3,)]
    again = ActivityEnvironment(attempt=2, heartbeat_details=(2,))
    assert await again.run(copy_rows, 3) == 3
    assert again.heartbeats == [(3,)]


async def test_a_plain_activity_runs_in_place() -> None:
    env = ActivityEnvironment(attempt=3)
    assert await env.run(plain, 4) == 7
    assert env.heartbeats == [("at work",)]


async def test_info_shows_what_was_given() -> None:
    seen: list[activity.ActivityInfo] = []

    @activity.defn(start_to_close_timeout=60)
    async def look() -> None:
        seen.append(activity.info())

    await ActivityEnvironment(
        workflow_id="order-1", task_queue="q", priority=2, options=ActivityOptions(start_to_close_timeout=5)
    ).run(look)
    (info,) = seen
    assert (info.workflow_id, info.task_queue, info.priority, info.activity_type) == (
        "order-1",
        "q",
        2,
        "look",
    )
    assert info.start_to_close_deadline_at is not None
    assert (info.start_to_close_deadline_at - info.started_at).total_seconds() == 5


async def test_cancelling_reaches_the_activity() -> None:
    env = ActivityEnvironment()
    begun = asyncio.Event()
    env.on_heartbeat = lambda details: begun.set()
    running = asyncio.ensure_future(env.run(hang))
    await begun.wait()
    env.cancel()
    assert await running == "cancelled: True"


async def test_a_heartbeat_tells_that_it_is_cancelled() -> None:
    env = ActivityEnvironment()
    env.on_heartbeat = lambda details: env.cancel(activity.StopReason.TIMED_OUT)
    with pytest.raises(asyncio.CancelledError):
        await env.run(copy_rows, 3)
    assert env.heartbeats == [(1,)]
    with pytest.raises(activity.Cancelled) as caught:
        await env.run(plain, 1)
    assert caught.value.reason == "timed_out"


async def test_what_has_no_json_form_is_found() -> None:
    env = ActivityEnvironment()
    three: Any = "three"
    with pytest.raises(PayloadEncodeError):
        await env.run(unwritable)
    with pytest.raises(PayloadDecodeError):
        await env.run(copy_rows, three)
    assert not activity.in_activity()


@activity.defn(start_to_close_timeout=60)
async def ask(question: str) -> str:
    activity.heartbeat(activity.info().task_token)
    if question == "wrongly":
        activity.defer()
        return "nothing"
    return activity.defer() if question else "no question"


async def test_one_that_defers_says_so():
    env = ActivityEnvironment()
    returned: object = await env.run(ask, "may I?")
    assert isinstance(returned, activity.Deferred)
    assert env.deferred
    assert env.heartbeats[0][0].isascii()
    again = ActivityEnvironment()
    assert await again.run(ask, "") == "no question"
    assert not again.deferred
    with pytest.raises(ApplicationError, match=r"`return activity.defer\(\)`"):
        await env.run(ask, "wrongly")
    with pytest.raises(DeferRefusedError, match="nothing bounds unbounded"):
        await ActivityEnvironment(options=ActivityOptions()).run(unbounded)


@activity.defn
def unbounded() -> str:
    return activity.defer()


@activity.defn(start_to_close_timeout=60)
async def speak(words: list[str]) -> None:
    for word in words:
        activity.stream("words").write(word)
    activity.stream("counts").write({"words": len(words)})
    await activity.stream("words").drain()


@activity.defn(start_to_close_timeout=60)
def speak_badly() -> None:
    activity.stream("words").write(object())


async def test_what_an_activity_writes_to_streams_is_kept() -> None:
    env = ActivityEnvironment()
    await env.run(speak, ["one", "two"])
    assert env.streams == {"words": ["one", "two"], "counts": [{"words": 2}]}
    with pytest.raises(PayloadEncodeError):
        await env.run(speak_badly)
    assert env.streams["words"] == ["one", "two"]
