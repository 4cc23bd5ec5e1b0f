"""What stands around a transactional activity: interceptors, a queue's slot, heartbeats."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays
from tests.transactions.conftest import Working

from outlast import Client, Worker, activity, workflow
from outlast.interceptors import Interceptor
from outlast_activities import transactions
from outlast_activities.interceptors import RunActivity


class FailsOnce(Interceptor):
    """Raises when the code of the first attempt has returned."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def run_activity(
        self, call: RunActivity, next: Callable[[RunActivity], Coroutine[Any, Any, Any]]
    ) -> Any:
        result = await next(call)
        self.seen.append(result)
        if len(self.seen) == 1:
            raise ValueError("no")
        return result


async def test_an_interceptor_that_fails_rolls_the_code_back(url: str, bank: Bank, transfers: str) -> None:
    around = FailsOnce()
    activities: list[Any] = [programs.transfer]
    if transfers == "transfer_async":
        activities = [programs.transfer_async]
    async with (
        await Client.connect(url, interceptors=[around]) as client,
        Worker(client, workflows=[pays], activities=activities),
    ):
        assert await client.execute(pays, transfers, 5, id="p") == 5
    assert around.seen == [5, 5]
    assert bank.balances == {"ada": 95, "bob": 5}
    assert bank.entries == bank.events("ActivityCompleted") == 1


@workflow.defn
async def pays_at_once(kind: str, times: int) -> None:
    calls = [
        workflow.execute_activity(kind, "ada", "bob", 1, start_to_close_timeout=30, result_type=int)
        for _ in range(times)
    ]
    await asyncio.gather(*calls)


@workflow.defn
async def pays_in_line(kind: str, times: int) -> None:
    calls = [
        workflow.execute_activity(
            kind, "ada", "bob", 1, start_to_close_timeout=30, queue="q", result_type=int
        )
        for _ in range(times)
    ]
    await asyncio.gather(*calls)


async def test_each_gives_its_slot_back(working: Working, bank: Bank, transfers: str) -> None:
    async with working(workflows=[pays_in_line]) as client:
        await client.queues.define("q", concurrency=1)
        await client.execute(pays_in_line, transfers, 4, id="p")
        queue = await client.queues.describe("q")
    assert (queue.running, queue.waiting) == (0, 0)
    assert bank.balances == {"ada": 96, "bob": 4}
    assert len(programs.runs) == 4


async def test_the_last_heartbeat_reaches_the_next_attempt(
    working: Working, bank: Bank, transfers: str
) -> None:
    found: list[Any] = []

    def beat(_: Connection) -> None:
        found.append(activity.info().heartbeat_details)
        activity.heartbeat(7)
        if len(found) == 1:
            raise ValueError("no")

    programs.meddle[:] = [beat, beat]
    async with working() as client:
        assert await client.execute(pays, transfers, 5, id="p") == 5
    assert [list(details) for details in found] == [[], [7]]
    assert bank.balances == {"ada": 95, "bob": 5}


async def test_the_attempts_of_a_worker_share_their_connections(
    working: Working, bank: Bank, transfers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[threading.Thread] = []

    class Noted(transactions.Transactions):
        def __init__(self, *parts: Any, **options: Any) -> None:
            makers.append(threading.current_thread())
            super().__init__(*parts, **options)

    monkeypatch.setattr(transactions, "Transactions", Noted)
    async with working(workflows=[pays_at_once]) as client:
        await client.execute(pays_at_once, transfers, 20, id="p")
    assert bank.balances == {"ada": 80, "bob": 20}
    # On the loop, where nobody makes another one at the same time.
    assert makers == [threading.current_thread()]
