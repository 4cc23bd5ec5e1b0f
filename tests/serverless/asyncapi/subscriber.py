"""A worker of its own process, for tests that kill it: ``python -m tests.serverless.asyncapi.subscriber URL``."""

from __future__ import annotations

import asyncio
import sys

from outlast import Client, Worker
from outlast_serverless import Runtime
from outlast_serverless.calls.asyncapi import position


async def main(url: str, first_position_only: bool) -> None:
    if first_position_only:
        position._PAUSE_S = 3_600.0  # type: ignore[misc]
    async with (
        Client.connect(url) as client,
        Runtime(client) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1),
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], len(sys.argv) > 2))
