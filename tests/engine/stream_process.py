"""A worker process whose workflow publishes what it is told: ``python -m tests.engine.stream_process URL``."""

from __future__ import annotations

import asyncio
import os
import sys

from outlast import Client, Worker, activity, workflow


@activity.defn(start_to_close_timeout=60, executor="process")
def say_elsewhere(words: list[str]) -> int:
    for word in words:
        activity.stream("words").write([word, os.getpid()])
    return os.getpid()


@workflow.defn
class Echo:
    """Publishes each signal, until one is empty."""

    def __init__(self) -> None:
        self.over = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.over)

    @workflow.signal
    def say(self, word: str) -> None:
        if word:
            workflow.stream("words").write(word)
        self.over = not word


@workflow.defn
async def says_elsewhere(words: list[str]) -> int:
    return await say_elsewhere(words)


async def main(url: str) -> None:
    async with Client.connect(url) as client:
        await Worker(client, workflows=[Echo]).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
