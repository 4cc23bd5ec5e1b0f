"""In virtual time, where plain functions run in place: what users test with."""

from __future__ import annotations

import pytest
from tests.engine.conftest import anyio_backend as anyio_backend
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays

from outlast import activity, workflow
from outlast.errors import (
    ActivityError,
    DeferRefusedError,
    NotTransactionalError,
    TransactionRefusedError,
    WorkflowFailedError,
)
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=5)
def plain() -> None:
    activity.connection()


@activity.defn(start_to_close_timeout=5, transactional=True)
def asks_for_the_other() -> None:
    _ = activity.async_connection()


@activity.defn(start_to_close_timeout=5, transactional=True)
def defers() -> None:
    activity.defer()


@activity.defn(start_to_close_timeout=5, transactional=True)
def publishes() -> None:
    activity.stream("said").write("no")


@activity.defn(start_to_close_timeout=5, transactional=True)
def works() -> int:
    return 1


@workflow.defn
async def calls(name: str) -> None:
    await workflow.execute_activity(name, start_to_close_timeout=5)


@workflow.defn
async def calls_locally() -> None:
    await workflow.execute_local_activity("works", start_to_close_timeout=5)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("plain", NotTransactionalError),
        ("asks_for_the_other", NotTransactionalError),
        ("defers", DeferRefusedError),
        ("publishes", TransactionRefusedError),
    ],
)
async def test_a_wrong_call_is_a_typed_error_at_once(
    sqlite_url: str, name: str, error: type[Exception]
) -> None:
    environment = TestEnvironment(
        workflows=[calls], activities=[plain, asks_for_the_other, defers, publishes], url=sqlite_url
    )
    with pytest.raises(WorkflowFailedError) as failed:
        async with environment as env:
            await env.client.execute(calls, name, id="c")
    cause = failed.value.__cause__
    assert isinstance(cause, ActivityError)
    assert isinstance(cause.__cause__, error)


async def test_a_local_call_is_refused_on_the_worker(sqlite_url: str) -> None:
    with pytest.raises(WorkflowFailedError, match="local"):
        async with TestEnvironment(workflows=[calls_locally], activities=[works], url=sqlite_url) as env:
            await env.client.execute(calls_locally, id="c")


async def test_a_transfer_in_virtual_time(shared_url: str) -> None:
    bank = Bank(shared_url)
    bank.open(ada=100, bob=0)
    programs.runs.clear()

    def fail(_: object) -> None:
        raise ValueError("no")

    programs.meddle[:] = [fail]
    async with TestEnvironment(workflows=[pays], activities=[programs.transfer], url=shared_url) as env:
        assert await env.client.execute(pays, "transfer", 5, id="p") == 5
    assert bank.balances == {"ada": 95, "bob": 5}
    assert bank.entries == bank.events("ActivityCompleted") == 1
    assert len(programs.runs) == 2
    bank.close()
