"""Workflows and activities that the tests of the engine run."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import uuid
from collections import Counter
from typing import Any

import pydantic

from outlast import activity, workflow
from outlast_workflow.errors import ActivityError, ActivityTimeoutError, ApplicationError
from outlast_workflow.options.options import RetryPolicy

calls: Counter[str] = Counter()
"""How often each activity of this process was really run, by whatever name it counts under."""

SOON = RetryPolicy(initial_interval=1, backoff_coefficient=2, max_attempts=5)
ONCE = RetryPolicy(max_attempts=1)

# --- activities -----------------------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=60)
async def add(a: int, b: int) -> int:
    calls["add"] += 1
    return a + b


@activity.defn(start_to_close_timeout=60)
def multiply(a: int, b: int) -> int:
    calls["multiply"] += 1
    return a * b


@activity.defn(start_to_close_timeout=60)
async def echo(value: Any) -> Any:
    calls["echo"] += 1
    return value


@activity.defn(start_to_close_timeout=60, retry_policy=SOON)
async def flaky(key: str, failures: int) -> int:
    """Fails so many times under a key, then says in which attempt it succeeded."""
    calls[key] += 1
    if calls[key] <= failures:
        raise ConnectionError(f"failure {calls[key]}")
    return activity.info().attempt


@activity.defn(start_to_close_timeout=60, retry_policy=SOON)
async def refuse(kind: str) -> None:
    calls["refuse"] += 1
    if kind == "non_retryable":
        raise ApplicationError("no use", {"code": 7}, type="Hopeless", non_retryable=True)
    if kind == "delay":
        raise ApplicationError("later", type="Busy", next_retry_delay=30)
    raise ValueError("plain")


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=10, retry_policy=SOON)
async def resume(steps: int) -> list[Any]:
    """Beats at each step and fails once half-way; says from where it went on."""
    began_at = activity.info().heartbeat_details
    first = began_at[0] if began_at else 0
    for step in range(first, steps):
        activity.heartbeat(step + 1, "so far")
        if step + 1 == steps // 2 and not began_at:
            raise ConnectionError("half-way")
    return [list(began_at), activity.info().attempt]


@activity.defn(start_to_close_timeout=600, heartbeat_timeout=30, retry_policy=ONCE)
async def fall_silent(silence: float) -> str:
    """Its second heartbeat is written 23 s after it."""
    activity.heartbeat()
    await asyncio.sleep(1)
    activity.heartbeat("the last")
    await asyncio.sleep(silence)
    return "done"


@activity.defn(start_to_close_timeout=100_000)
async def wait_long(seconds: float) -> str:
    calls["wait_long"] += 1
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        calls["wait_long cancelled"] += 1
        raise
    return "waited"


@activity.defn(start_to_close_timeout=100_000)
async def cannot_undo(seconds: float) -> None:
    """Takes its time to clean up when it is cancelled, and does not manage."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(5)
        calls["cannot_undo"] += 1
        raise ConnectionError("the booking is still there") from None


@activity.defn(start_to_close_timeout=60)
async def note(text: str) -> None:
    calls[text] += 1


@activity.defn(start_to_close_timeout=60, retry_policy=ONCE)
async def unserialisable() -> object:
    return object()


@activity.defn(start_to_close_timeout=60, retry_policy=ONCE)
async def large(size: int) -> str:
    return "x" * size


# --- workflows ------------------------------------------------------------------------------------------------------


@workflow.defn
class Sum:
    """A class workflow: one activity after another."""

    def __init__(self) -> None:
        self.total = 0

    @workflow.run
    async def run(self, numbers: list[int]) -> int:
        for number in numbers:
            self.total = await add(self.total, number)
        return self.total


@workflow.defn
async def double(number: int) -> int:
    """A function workflow with a plain activity."""
    return await multiply(number, 2)


@workflow.defn
async def nothing() -> None:
    return None


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Part:
    name: str
    price: decimal.Decimal


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    id: uuid.UUID
    at: datetime.datetime
    colour: Colour
    parts: list[Part]
    blob: bytes


@activity.defn(start_to_close_timeout=60)
async def check_order(order: Order) -> Order:
    assert isinstance(order, Order)
    assert isinstance(order.parts[0], Part)
    return order


@workflow.defn
async def typed(order: Order) -> Order:
    assert isinstance(order, Order)
    return await check_order(order)


@workflow.defn
class Sleeper:
    @workflow.run
    async def run(self, seconds: float) -> list[str]:
        before = workflow.now()
        await asyncio.sleep(seconds)
        return [before.isoformat(), workflow.now().isoformat()]


@workflow.defn
async def retrying(key: str, failures: int) -> int:
    return await flaky(key, failures)


@workflow.defn
async def refused(kind: str) -> list[Any]:
    try:
        await refuse(kind)
    except ActivityError as error:
        cause = error.__cause__
        assert isinstance(cause, ApplicationError), cause
        return [str(error.retry_state), cause.type, list(cause.details), str(cause)]
    return []


@workflow.defn
async def resuming(steps: int) -> list[Any]:
    return await resume(steps)


@workflow.defn
async def falling_silent(silence: float) -> list[Any]:
    try:
        return [await fall_silent(silence)]
    except ActivityTimeoutError as error:
        return [error.timeout_kind, *error.heartbeat_details]


@workflow.defn
async def waiting(seconds: float) -> str:
    return await wait_long(seconds)


@workflow.defn
async def failing(message: str) -> None:
    raise ApplicationError(message, 1, 2, type="Bad")


@workflow.defn
async def crashing(message: str) -> None:
    await add(1, 1)
    raise ZeroDivisionError(message)


@workflow.defn
class Countdown:
    """Continues as new until nothing is left."""

    @workflow.run
    async def run(self, left: int, seen: list[int]) -> list[int]:
        seen = [*seen, await add(left, 0)]
        if left > 0:
            workflow.continue_as_new(left - 1, seen)
        return seen


@workflow.defn
async def waiting_countdown(left: int) -> int:
    """As Countdown, with 100 seconds in each run."""
    await asyncio.sleep(100)
    if left > 0:
        workflow.continue_as_new(left - 1)
    return left


@workflow.defn
async def third_time() -> int:
    """Succeeds in its third run."""
    attempt = workflow.info().attempt
    await add(attempt, 0)
    if attempt < 3:
        raise ApplicationError(f"run {attempt}", type="Again")
    return attempt


@workflow.defn
class Careful:
    """Cleans up when it is cancelled."""

    @workflow.run
    async def run(self, seconds: float) -> str:
        try:
            await wait_long(seconds)
        except asyncio.CancelledError:
            await note("cleaned up")
            raise
        finally:
            await note("finally")
        return "done"


@workflow.defn
async def stubborn() -> str:
    """Does not give way to a cancel request."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(5)
    return "stayed"


@workflow.defn
async def many(count: int) -> int:
    """One gather over many activities."""
    return sum(await asyncio.gather(*[add(number, 1) for number in range(count)]))


@workflow.defn
async def long_story(steps: int) -> int:
    """A long history, one activity after another."""
    total = 0
    for _ in range(steps):
        total = await add(total, 1)
    return total


@workflow.defn
async def too_large(size: int) -> str:
    return "x" * size


@workflow.defn
async def not_json() -> object:
    return object()


@workflow.defn
async def strict(count: int, when: datetime.datetime) -> int:
    return count


@workflow.defn
async def handles_bad_results(size: int) -> list[str]:
    found: list[str] = []
    for call in (unserialisable(), large(size)):
        try:
            await call
        except ActivityError as error:
            found.append(type(error.__cause__).__name__)
    return found


# --- asyncio --------------------------------------------------------------------------------------------------------


@workflow.defn
async def with_gather() -> list[Any]:
    return list(await asyncio.gather(add(1, 1), multiply(3, 3), asyncio.sleep(2, "slept"), echo("x")))


@workflow.defn
async def with_gather_of_failures() -> list[str]:
    outcomes = await asyncio.gather(refuse("non_retryable"), add(1, 2), return_exceptions=True)
    return [type(outcome).__name__ for outcome in outcomes]


@workflow.defn
async def with_wait() -> list[Any]:
    slow = asyncio.ensure_future(asyncio.sleep(50))
    quick = asyncio.ensure_future(add(1, 1))
    done, pending = await asyncio.wait({slow, quick}, return_when=asyncio.FIRST_COMPLETED)
    slow.cancel()
    return [len(done), len(pending), quick.result()]


@workflow.defn
async def with_wait_for() -> str:
    try:
        await asyncio.wait_for(wait_long(1000), timeout=3)
    except TimeoutError:
        return "timed out"
    return "came"


@workflow.defn
async def with_timeout() -> list[str]:
    said: list[str] = []
    try:
        async with asyncio.timeout(3):
            await asyncio.sleep(100)
    except TimeoutError:
        said.append("timed out")
    async with asyncio.timeout(100):
        await add(1, 1)
        said.append("in time")
    return said


@workflow.defn
async def with_task_group() -> list[int]:
    async with asyncio.TaskGroup() as group:
        first = group.create_task(add(1, 2))
        second = group.create_task(multiply(2, 3))
        third = group.create_task(third_of_group())
    return [first.result(), second.result(), third.result()]


async def third_of_group() -> int:
    await asyncio.sleep(1)
    return await add(10, 10)


@workflow.defn
async def with_failing_group() -> list[str]:
    found: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_long(1000))
            group.create_task(refuse("non_retryable"))
    except* ActivityError as group_error:
        found = [type(error).__name__ for error in group_error.exceptions]
    return found


@workflow.defn
async def with_as_completed() -> list[float]:
    found: list[float] = []
    for soonest in asyncio.as_completed([asyncio.sleep(delay, delay) for delay in (3.0, 1.0, 2.0)]):
        found.append(await soonest)
    return found


@workflow.defn
async def with_queue_and_lock() -> list[int]:
    queue: asyncio.Queue[int] = asyncio.Queue()
    lock = asyncio.Lock()

    async def produce(number: int) -> None:
        async with lock:
            await queue.put(await add(number, 100))

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(produce(number))
    return [queue.get_nowait() for _ in range(3)]


@workflow.defn
async def deterministic_values() -> list[Any]:
    first = [str(workflow.uuid4()), workflow.random().random(), workflow.now().isoformat()]
    await asyncio.sleep(1)
    info = workflow.info()
    return [*first, str(workflow.uuid4()), workflow.random().random(), info.workflow_id, info.run_id]


@workflow.defn
async def explicit_calls() -> list[Any]:
    """By name, with options, and by a handle."""
    handle = workflow.start_activity(add, 1, 2, start_to_close_timeout=5, priority=0)
    by_name = await workflow.execute_activity("multiply", 3, 4, start_to_close_timeout=5, result_type=int)
    with_options = await add.with_options(start_to_close_timeout=7)(5, 6)
    return [await handle, by_name, with_options]


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "__outlast_workflow__")]
ACTIVITIES = [value for value in list(globals().values()) if isinstance(value, activity.ActivityDefinition)]
