"""Workflows that write to streams: over a chain, beside activities, with a close, and reset before and behind it."""

from __future__ import annotations

from typing import Any

from outlast import activity, workflow
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=60)
async def speak(words: list[str]) -> int:
    for word in words:
        activity.stream("words").write(word)
    return len(words)


@workflow.defn
async def spoken(words: list[str]) -> int:
    stream = workflow.stream("words")
    stream.write({"begin": len(words)})
    said = await speak(words)
    stream.write(None)
    await workflow.sleep(1)
    stream.write([said, "said"])
    stream.close()
    stream.close()
    await workflow.sleep(1)
    return said


@workflow.defn
async def counted(left: int) -> int:
    workflow.stream("left").write(left)
    if left:
        workflow.continue_as_new(left - 1)
    workflow.stream("left").close()
    workflow.stream("never written").close()
    return left


WORKFLOWS = [spoken, counted]
ACTIVITIES: list[Any] = [speak]


async def live(env: TestEnvironment) -> None:
    """A stream that a workflow and its activity write, one of a chain, and resets to both sides of a close."""
    handle = await env.client.start(spoken, ["one", "two"], id="spoken")
    assert await handle.result() == 2
    assert [item.value async for item in handle.stream("words")] == [
        {"begin": 2},
        "one",
        "two",
        None,
        [2, "said"],
    ]
    behind = await handle.reset("last-workflow-task")
    assert await behind.result() == 2
    before = await handle.reset("first-workflow-task")
    assert await before.result() == 2
    assert len([item async for item in before.stream("words")]) == 10
    counting = await env.client.start(counted, 3, id="counted")
    assert await counting.result() == 0
    assert [item.value async for item in counting.stream("left")] == [3, 2, 1, 0]
