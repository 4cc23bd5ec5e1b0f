"""Summaries on all that has them, and progress, which is in no event."""

from __future__ import annotations

import asyncio

from outlast import StartOptions, activity, workflow
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=100, summary="any page")
async def convert(page: int) -> int:
    await asyncio.sleep(1)
    return page


@workflow.defn
async def chapter(pages: int) -> int:
    for page in range(pages):
        workflow.set_progress(page, pages, f"page {page}")
        await convert(page)
    return pages


@workflow.defn
async def publish(title: str, again: bool) -> int:
    workflow.set_progress(0, message="waiting")
    await workflow.sleep(3600, summary="wait for the night rate")
    try:
        await workflow.wait_condition(lambda: False, 10, timeout_summary="a proof in time?")
    except TimeoutError:
        workflow.set_progress(1, 3)
    await workflow.execute_activity(convert, 1, summary=f"the cover of {title}")
    await workflow.execute_local_activity(convert, 2, summary="the back of it")
    pages: int = await workflow.execute_child(chapter, 2, summary="chapter one", id=f"{title} 1 {again}")
    if again:
        workflow.continue_as_new(title, False)
    return pages


@workflow.defn
def publish_plainly() -> None:
    workflow.blocking.set_progress(1)
    workflow.blocking.sleep(5, summary="a plain wait")


WORKFLOWS = [publish, publish_plainly, chapter]
ACTIVITIES = [convert]


async def live(env: TestEnvironment) -> None:
    """Run all of them."""
    await env.client.execute(publish, "Spring", True, options=StartOptions(summary="the spring issue"))
    await env.client.execute(publish_plainly)
