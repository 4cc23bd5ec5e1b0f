"""A handler whose attempt has timed out is told; what it returns late is refused, and the workflow sees the timeout."""

import asyncio
import threading

import pytest

from outlast import ActivityTimeoutError, Client, RetryPolicy, Worker, activity, workflow
from outlast.testing import check_database

ONCE = RetryPolicy(max_attempts=1)
told: list[str] = []
ended = threading.Event()


@pytest.fixture
def anyio_backend() -> str:
    """Real time."""
    return "asyncio"


@activity.defn(start_to_close_timeout=0.3, retry_policy=ONCE)
async def hangs() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        told.append("cancelled")
        ended.set()
        raise
    return "never"


@activity.defn(start_to_close_timeout=0.3, retry_policy=ONCE)
def computes() -> str:
    while not activity.is_cancelled():
        ended.wait(0.01)
    told.append("asked")
    ended.set()
    return "too late"


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=0.3, retry_policy=ONCE)
def falls_silent() -> str:
    activity.heartbeat("half")
    silence = threading.Event()
    for _ in range(200):
        silence.wait(0.05)
        if activity.is_cancelled():
            break
    try:
        activity.heartbeat("again")
    except activity.Cancelled as stop:
        told.append(str(stop.reason))
    ended.set()
    return "too late"


HANDLERS = {handler.name: handler for handler in (hangs, computes, falls_silent)}


@workflow.defn
async def asks(name: str) -> list[object]:
    try:
        return [await HANDLERS[name]()]
    except ActivityTimeoutError as error:
        return [str(error.timeout_kind), list(error.heartbeat_details or ())]


@pytest.mark.parametrize(
    ("handler", "how", "kind", "details"),
    [
        (hangs, "cancelled", "start_to_close", []),
        (computes, "asked", "start_to_close", []),
        (falls_silent, "timed_out", "heartbeat", ["half"]),
    ],
)
async def test_a_handler_is_told_that_its_time_is_over(
    database_url: str, handler: activity.ActivityDefinition[[], str], how: str, kind: str, details: list[str]
) -> None:
    told.clear()
    ended.clear()
    async with Client.connect(database_url) as client:
        async with Worker(client, workflows=[asks], activities=[handler]):
            assert await client.execute(asks, handler.name, id="asks") == [kind, details]
            assert await asyncio.to_thread(ended.wait, 20)
        assert told == [how]
        history = [event.type async for event in client.handle("asks").history()]
        assert history.count("ActivityTimedOut") == 1
        assert "ActivityCompleted" not in history, "what came late was refused"
        with client.runtime.database.reader() as connection:
            assert check_database(connection) == []
