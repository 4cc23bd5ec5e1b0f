"""The workflows that the histories beside this file are of. Never edited: see README.md."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from outlast import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    ChildWorkflowError,
    RetryPolicy,
    StartOptions,
    activity,
    workflow,
)
from outlast.errors import MissingCodeError, UpdateFailedError, UpdateRejectedError
from outlast.testing import TestEnvironment
from outlast.workflow import blocking

TWICE = RetryPolicy(initial_interval=1, max_attempts=2)
ONCE = RetryPolicy(max_attempts=1)
unlucky: list[str] = []
"""While there is something in it, ``Unlucky`` can't be activated."""

# --- activities -----------------------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=60)
async def add(a: int, b: int) -> int:
    return a + b


@activity.defn(start_to_close_timeout=60, retry_policy=TWICE)
async def at_second_try(text: str) -> str:
    if activity.info().attempt < 2:
        raise ConnectionError("not yet")
    return text


@activity.defn(start_to_close_timeout=60, retry_policy=TWICE)
async def never(why: str) -> None:
    raise ApplicationError(why, {"code": 7}, type="Never")


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=10, retry_policy=TWICE)
async def resumed(steps: int) -> int:
    begun_at = activity.info().heartbeat_details
    for step in range(begun_at[0] if begun_at else 0, steps):
        activity.heartbeat(step + 1)
        if not begun_at and step + 1 == steps // 2:
            raise ConnectionError("half-way")
    return steps


@activity.defn(start_to_close_timeout=100_000)
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


# --- activities and timers ------------------------------------------------------------------------------------------


@workflow.defn
class Steps:
    """Activities that end well, at the second try, from a heartbeat on, badly, and too late."""

    @workflow.run
    async def run(self, numbers: list[int]) -> list[Any]:
        found: list[Any] = []
        total = 0
        for number in numbers:
            total = await add(total, number)
        found.append(total)
        found += [await at_second_try("twice"), await resumed(4)]
        try:
            await never("no")
        except ActivityError as error:
            found.append(type(error.__cause__).__name__)
        too_slow = [
            slow.with_options(start_to_close_timeout=1, retry_policy=ONCE),
            slow.with_options(start_to_close_timeout=3, schedule_to_close_timeout=3, retry_policy=ONCE),
            slow.with_options(heartbeat_timeout=1, retry_policy=ONCE),
        ]
        for call in too_slow:
            try:
                await call(50.0)
            except ActivityTimeoutError as error:
                found.append(str(error.timeout_kind))
        try:
            await workflow.execute_activity(
                "elsewhere", task_queue="nobody", schedule_to_start_timeout=2, start_to_close_timeout=1
            )
        except ActivityTimeoutError as error:
            found.append(str(error.timeout_kind))
        return found


@workflow.defn
async def asyncio_tools() -> list[Any]:
    """What asyncio has: all of it durable."""
    found: list[Any] = list(await asyncio.gather(add(1, 1), asyncio.sleep(2, "slept"), at_second_try("x")))
    slow_one, quick_one = asyncio.ensure_future(asyncio.sleep(50)), asyncio.ensure_future(add(1, 1))
    done, _ = await asyncio.wait({slow_one, quick_one}, return_when=asyncio.FIRST_COMPLETED)
    slow_one.cancel()
    found.append(len(done))
    try:
        await asyncio.wait_for(slow(1000), timeout=3)
    except TimeoutError:
        found.append("timed out")
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(add(1, 2)), group.create_task(_nap_and_add())]
    found += [one.result() for one in both]
    for soonest in asyncio.as_completed([asyncio.sleep(delay, delay) for delay in (3.0, 1.0, 2.0)]):
        found.append(await soonest)
    queue: asyncio.Queue[int] = asyncio.Queue()
    lock = asyncio.Lock()

    async def produce(number: int) -> None:
        async with lock:
            await queue.put(await add(number, 100))

    await asyncio.gather(*[produce(number) for number in range(3)])
    found += [queue.get_nowait() for _ in range(3)]
    names = {workflow.uuid4() for _ in range(3)}
    found += [len(names), workflow.random().randrange(1000), workflow.now().isoformat()]
    return found


async def _nap_and_add() -> int:
    await asyncio.sleep(1)
    return await add(10, 10)


# --- signals, updates, facts ----------------------------------------------------------------------------------------


@workflow.defn
class Conversation:
    """Is spoken to, and says something to others."""

    @workflow.init
    def __init__(self, friend: str) -> None:
        self.friend = friend
        self.heard: list[str] = []
        self.over = False

    @workflow.run
    async def run(self, friend: str) -> list[str]:
        try:
            await workflow.wait_condition(lambda: len(self.heard) > 100, timeout=5)
        except TimeoutError:
            self.heard.append("waited")
        await workflow.wait_condition(lambda: self.over)
        await workflow.wait_condition(workflow.all_handlers_finished)
        for other in (self.friend, "nobody"):
            try:
                await workflow.external(other).signal("say", "good-bye")
                self.heard.append(f"told {other}")
            except Exception as error:
                self.heard.append(type(error).__name__)
        return self.heard

    @workflow.signal
    async def say(self, text: str) -> None:
        self.heard.append(text)
        await add(1, 1)

    @workflow.signal
    def stop(self) -> None:
        self.over = True

    @workflow.query
    def so_far(self) -> list[str]:
        return self.heard

    @workflow.update
    async def ask(self, text: str) -> int:
        self.heard.append(f"asked {text}")
        return await add(len(self.heard), 0)

    @ask.validator
    def _ask_something(self, text: str) -> None:
        if not text:
            raise ValueError("ask something")

    @workflow.update
    async def fail(self) -> None:
        raise ApplicationError("as asked", type="AsAsked")


@workflow.defn
class Listener:
    @workflow.init
    def __init__(self) -> None:
        self.words: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: self.words)
        return self.words

    @workflow.signal(dynamic=True)
    def anything(self, name: str, args: list[Any]) -> None:
        self.words.append(f"{name} {args}")


@workflow.defn
async def facts() -> list[Any]:
    """Patches, side effects, memo, search attributes."""
    found: list[Any] = []
    if workflow.patched("new-way"):
        found.append(await add(1, 2))
    workflow.deprecate_patch("old-way")
    found.append(workflow.side_effect(lambda: 42))
    workflow.upsert_memo({"step": 1, "gone": None})
    when = datetime(2026, 1, 31, tzinfo=UTC)
    workflow.upsert_search_attributes({"customer": "ada", "amount": 7, "rate": 0.5, "paid": True})
    workflow.upsert_search_attributes({"tags": ["a", "b"], "at": when})
    await asyncio.sleep(1)
    workflow.upsert_search_attributes({"amount": None})
    found.append(workflow.info().workflow_id)
    return found


# --- families -------------------------------------------------------------------------------------------------------


@workflow.defn
async def child(kind: str) -> str:
    if kind == "fails":
        raise ApplicationError("no way", type="NoWay")
    if kind == "sleeps":
        await asyncio.sleep(1000)
    return kind


@workflow.defn
async def cleaning_child() -> None:
    try:
        await asyncio.sleep(100_000)
    except asyncio.CancelledError:
        await add(0, 0)
        raise


@workflow.defn
class Parent:
    """Children that end in each way that there is."""

    @workflow.run
    async def run(self) -> list[str]:
        me = workflow.info().workflow_id
        found = [await workflow.execute_child(child, "well", id=f"{me}-well")]
        calls = [
            lambda: workflow.execute_child(child, "fails", id=f"{me}-fails"),
            lambda: workflow.execute_child(child, "sleeps", id=f"{me}-late", run_timeout=2),
            lambda: workflow.execute_child(child, "sleeps", id=f"{me}-terminated"),
            lambda: workflow.execute_child(child, "well", id="taken"),
        ]
        for call in calls:
            try:
                found.append(await call())
            except ChildWorkflowError as error:
                found.append(type(error.__cause__).__name__)
        handle = workflow.start_child(cleaning_child, id=f"{me}-cancelled", cancellation_type="wait")
        await handle.started()
        handle.cancel()
        try:
            await handle
        except asyncio.CancelledError:
            found.append("cancelled")
        for policy in ("terminate", "request_cancel", "abandon"):
            _ = workflow.start_child(cleaning_child, id=f"{me}-{policy}", parent_close_policy=policy)
        await asyncio.sleep(1)
        return found


# --- chains and ends ------------------------------------------------------------------------------------------------


@workflow.defn
class Countdown:
    @workflow.run
    async def run(self, left: int) -> int:
        await add(left, 0)
        if left:
            workflow.continue_as_new(left - 1)
        return left


@workflow.defn
async def third_time() -> int:
    attempt = workflow.info().attempt
    if attempt < 3:
        raise ApplicationError(f"run {attempt}", type="Again")
    return attempt


@workflow.defn
class Careful:
    """Cleans up when it is cancelled, shielded."""

    @workflow.run
    async def run(self) -> str:
        try:
            await slow(50_000)
        except asyncio.CancelledError:
            await workflow.shield(_clean_up())
            raise
        return "done"


async def _clean_up() -> None:
    await asyncio.sleep(1)
    await add(1, 1)


@workflow.defn
async def sleeper(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@workflow.defn
class Unlucky:
    """Its first workflow task fails, and the next one does not."""

    @workflow.run
    async def run(self) -> int:
        if unlucky:
            raise MissingCodeError(unlucky[0])
        return await add(1, 1)


@workflow.defn
def plain(number: int) -> list[Any]:
    """A synchronous workflow."""
    total = add.call(number, 1)
    blocking.sleep(5)
    handles = [blocking.start_activity(add, total, other) for other in range(3)]
    return [total, *[handle.result() for handle in handles]]


WORKFLOWS: list[Any] = [
    Steps,
    asyncio_tools,
    Conversation,
    Listener,
    facts,
    child,
    cleaning_child,
    Parent,
    Countdown,
    third_time,
    Careful,
    sleeper,
    Unlucky,
    plain,
]
ACTIVITIES = [value for value in list(globals().values()) if isinstance(value, activity.ActivityDefinition)]


# --- their lives ----------------------------------------------------------------------------------------------------


async def live(env: TestEnvironment) -> None:
    """Start all of them, and do to them what makes the histories."""
    client = env.client
    unlucky.append("out of luck")
    await client.start(sleeper, 500.0, id="taken")
    await client.start(Steps.run, [1, 2, 3], id="steps")
    await client.start(asyncio_tools, id="asyncio", options=StartOptions(memo={"who": "ada"}))
    await client.start(facts, id="facts", options=StartOptions(search_attributes={"customer": "bob"}))
    await client.start(Listener.run, id="listener")
    await client.start(Parent.run, id="parent")
    await client.start(
        Countdown.run, 2, id="chain", options=StartOptions(execution_timeout=1000, run_timeout=100)
    )
    await client.start(third_time, id="again", options=StartOptions(retry_policy=RetryPolicy(max_attempts=5)))
    await client.start(sleeper, 5000.0, id="late", options=StartOptions(execution_timeout=20))
    await client.start(sleeper, 10.0, id="delayed", options=StartOptions(start_delay=30))
    await client.start(Unlucky.run, id="unlucky")
    await client.start(plain, 4, id="plain")
    careful = await client.start(Careful.run, id="careful")
    stopped = await client.start(sleeper, 5000.0, id="stopped")
    talk = await client.start(Conversation.run, "listener", id="talk")
    await talk.signal("say", "hello", request_id="k-1")
    await talk.signal("say", "hello", request_id="k-1")
    assert await talk.execute_update(Conversation.ask, "what", id="u-1") == 2
    for wrong in (Conversation.ask(""), Conversation.fail()):
        with suppress(UpdateRejectedError, UpdateFailedError):
            await talk.execute_update(wrong)
    await env.sleep(10)
    unlucky.clear()
    await client.handle("parent-terminated").terminate("enough")
    await careful.cancel("stop")
    await stopped.terminate("enough")
    await talk.signal(Conversation.stop)
    await env.sleep(1000)
    await client.handle("parent-abandon").cancel()
    await env.sleep(10)
