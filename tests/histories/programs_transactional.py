"""Workflows that call transactional activities: by their declarations, by name, with other options, and again."""

from __future__ import annotations

from typing import Any

from outlast import RetryPolicy, activity, workflow
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=5, transactional=True)
def book(entry: str) -> str:
    return f"{entry} is booked"


@activity.defn(
    start_to_close_timeout=5, transactional="serializable", retry_policy=RetryPolicy(max_attempts=3)
)
def balance(entry: str) -> str:
    if activity.info().attempt == 1:
        raise ConnectionError("not now")
    return f"{entry} is balanced"


@activity.defn(start_to_close_timeout=5)
def tell(entry: str) -> str:
    return f"{entry} is told"


@workflow.defn
async def booked(entry: str) -> list[str]:
    done = [await book(entry), await tell(entry)]
    done.append(await book.with_options(summary="once more")(entry))
    done.append(await workflow.execute_activity(balance, entry, start_to_close_timeout=4))
    # Its name does not say how it is declared.
    done.append(await workflow.execute_activity("book", entry, start_to_close_timeout=5))
    return done


WORKFLOWS = [booked]
ACTIVITIES: list[Any] = [book, balance, tell]


async def live(env: TestEnvironment) -> None:
    """One that completes, and the same again after a reset and as a fork."""
    handle = await env.client.start(booked, "o-1", id="booked")
    done = await handle.result()
    assert done == [
        "o-1 is booked",
        "o-1 is told",
        "o-1 is booked",
        "o-1 is balanced",
        "o-1 is booked",
    ]
    fork = await handle.fork(before=3, id="booked again")
    assert await fork.result() == done
    again = await handle.reset("first-workflow-task")
    assert await again.result() == done
