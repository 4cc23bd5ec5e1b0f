"""Workflows to look at."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import ApplicationError, RetryPolicy, activity, workflow


@activity.defn(start_to_close_timeout=60)
async def greet(name: str) -> str:
    return f"hello {name}"


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=30)
async def crawl(secret: str) -> str:
    activity.heartbeat({"seen": secret})
    await asyncio.sleep(3600)
    return secret


@activity.defn(start_to_close_timeout=600, retry_policy=RetryPolicy(initial_interval=0.001))
async def ask() -> str:
    activity.heartbeat(activity.info().task_token)
    return activity.defer()


@workflow.defn
class Asking:
    @workflow.run
    async def run(self) -> str:
        return await ask()


@workflow.defn
class Greeting:
    @workflow.run
    async def run(self, name: str) -> str:
        return await greet(name)


@workflow.defn
class Waiting:
    """Waits for a word."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, name: str = "") -> str:
        await workflow.wait_condition(lambda: self.word != "")
        return self.word

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word

    @workflow.query
    def heard(self, more: str = "") -> str:
        return self.word + more

    @workflow.update
    def correct(self, word: str) -> str:
        before, self.word = self.word, word
        return before

    @workflow.update
    async def hold(self) -> None:
        await workflow.wait_condition(lambda: self.word == "enough")

    @correct.validator
    def check_word(self, word: str) -> None:
        if not word:
            raise ValueError("a word must not be empty")


@workflow.defn
class Crawling:
    @workflow.run
    async def run(self, secret: str) -> str:
        return await crawl(secret)


@activity.defn(start_to_close_timeout=600, heartbeat_timeout=30)
async def import_rows(total: int) -> int:
    activity.heartbeat(3, total)
    await asyncio.sleep(3600)
    return total


@workflow.defn
class Importing:
    @workflow.run
    async def run(self, total: int) -> int:
        return await import_rows(total)


@workflow.defn
class Failing:
    @workflow.run
    async def run(self, secret: Any) -> str:
        raise ApplicationError("no funds", {"card": secret}, type="Declined")


@workflow.defn
class Echoing:
    @workflow.run
    async def run(self, value: Any) -> Any:
        return value


@activity.defn(
    start_to_close_timeout=60,
    retry_policy=RetryPolicy(initial_interval=0.01, backoff_coefficient=1000, max_interval=3600),
)
async def charge(order: str) -> str:
    """Fails twice, and is tried again much later."""
    raise RuntimeError(f"attempt {activity.info().attempt} was declined")


@workflow.defn
class Paying:
    @workflow.run
    async def run(self, order: str) -> str:
        return await workflow.execute_activity(charge, order, summary="49.90 by card")


@workflow.defn
class FanningOut:
    """Has many activities of one type."""

    @workflow.run
    async def run(self, count: int) -> int:
        workflow.set_progress(1, 4, "greeting everybody")
        return len(await asyncio.gather(*(greet(f"n-{number}") for number in range(count))))


@workflow.defn
class Leaving:
    """Ends, and leaves a child behind."""

    @workflow.run
    async def run(self, child_id: str) -> None:
        await workflow.execute_child("Greeting", "child", id=child_id)


@activity.defn(start_to_close_timeout=60)
async def speak(words: list[str]) -> None:
    for word in words:
        activity.stream("words").write({"word": word})


@workflow.defn
class Speaking:
    """Publishes words, by an activity and on its own, until it is told to stop."""

    def __init__(self) -> None:
        self.stopped = False

    @workflow.run
    async def run(self, words: list[str]) -> str:
        await speak(words)
        await workflow.wait_condition(lambda: self.stopped)
        workflow.stream("words").write(None)
        workflow.stream("words").close()
        return "spoken"

    @workflow.signal
    def say(self, word: str) -> None:
        workflow.stream("words").write({"word": word})

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True


WORKFLOWS = [
    Asking,
    Greeting,
    Waiting,
    Crawling,
    Importing,
    Failing,
    Echoing,
    Paying,
    FanningOut,
    Leaving,
    Speaking,
]
ACTIVITIES = [ask, greet, crawl, import_rows, charge, speak]
