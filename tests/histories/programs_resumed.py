"""Workflows that were stopped and resumed, with children under way and children that had ended. Never edited."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import activity, workflow
from outlast.errors import WorkflowCancelledError, WorkflowTerminatedError
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=60)
async def note(what: str) -> str:
    """Returns what it is given."""
    return what


@workflow.defn
class Guest:
    """Stays until it is told to go."""

    def __init__(self) -> None:
        self.word: str | None = None

    @workflow.signal
    def go(self, word: str) -> None:
        """Tells it to go."""
        self.word = word

    @workflow.run
    async def run(self, stays: int) -> str:
        """Returns the word, in a later run if it is to stay longer."""
        await workflow.wait_condition(lambda: self.word is not None)
        if stays:
            workflow.continue_as_new(stays - 1)
        return str(self.word)


@workflow.defn
async def host(policy: str) -> list[str]:
    """Awaits two guests, and draws a number before and after."""
    drawn = [workflow.random().randrange(1000)]
    first = workflow.start_child(
        Guest.run, 0, id=f"{workflow.info().workflow_id}/first", parent_close_policy=policy
    )
    second = workflow.start_child(
        Guest.run, 1, id=f"{workflow.info().workflow_id}/second", parent_close_policy=policy
    )
    await asyncio.gather(first.started(), second.started())
    await workflow.sleep(10)
    words = [await first, await note("between"), await second]
    drawn.append(workflow.random().randrange(1000))
    return [*words, str(len(drawn))]


WORKFLOWS = [host, Guest]
ACTIVITIES: list[Any] = [note]


async def live(env: TestEnvironment) -> None:
    """One host is cancelled, one terminated while its guests stay, one reset while it is open."""
    client = env.client
    cancelled = await client.start(host, "abandon", id="cancelled")
    terminated = await client.start(host, "request_cancel", id="terminated")
    is_open = await client.start(host, "terminate", id="open")
    await env.sleep(5)
    await cancelled.cancel("by mistake")
    try:
        await cancelled.result()
    except WorkflowCancelledError:
        await client.resume("cancelled", reason="it was a mistake")
    await is_open.reset("last-workflow-task")
    await client.signal("terminated/first", "go", "early")
    await env.sleep(1)
    await terminated.terminate()
    try:
        await terminated.result()
    except WorkflowTerminatedError:
        await env.sleep(5)
        await client.resume("terminated/second")
        await client.resume("terminated")
    for word in ("one", "two"):
        await env.sleep(5)
        for name in ("cancelled", "terminated", "open"):
            for guest in ("first", "second"):
                if (await client.describe(f"{name}/{guest}")).run.closed_at is None:
                    await client.signal(f"{name}/{guest}", "go", word)
    for handle in (cancelled, terminated, is_open):
        found = await handle.result()
        assert found[1:] == ["between", "two", "2"], found
