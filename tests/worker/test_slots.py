"""How many activities a worker runs at a time, where nobody says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outlast import Client, Worker, activity, workflow


@activity.defn
async def coroutine() -> None:
    """Needs nothing."""


@activity.defn
def thread() -> None:
    """Needs a thread."""


@activity.defn(executor="process")
def process() -> None:
    """Needs a process."""


@activity.defn(transactional=True)
async def transaction() -> None:
    """Needs a connection to the database."""


@workflow.defn
async def idle() -> None:
    """Calls nothing."""


@pytest.mark.parametrize(
    ("activities", "given", "slots"),
    [
        ([coroutine], None, 1000),
        ([coroutine, thread], None, 100),
        ([process], None, 100),
        ([coroutine, transaction], None, 100),
        ([], None, 100),
        ([coroutine], 7, 7),
        ([coroutine], 0, 0),
        ([thread], 500, 500),
    ],
)
async def test_coroutines_have_a_thousand_slots_and_what_needs_more_than_itself_a_hundred(
    activities: list[Callable[..., Any]], given: int | None, slots: int, postgresql_url: str
) -> None:
    async with Client.connect(postgresql_url) as client:
        worker = Worker(client, workflows=[idle], activities=activities, max_concurrent_activities=given)
        assert worker.settings.max_concurrent_activities == slots
