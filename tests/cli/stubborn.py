"""A handler that nobody can stop."""

from __future__ import annotations

import asyncio

from outlast import activity, workflow


@activity.defn(start_to_close_timeout=3600)
async def refuse_to_stop() -> None:
    activity.heartbeat("here")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@workflow.defn
async def waits_for_it() -> None:
    await refuse_to_stop()
