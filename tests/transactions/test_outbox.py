"""A workflow that is started in an activity's transaction starts if and only if the activity completes."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection
from tests.transactions import bank as programs
from tests.transactions.bank import Bank, pays, says_hello
from tests.transactions.conftest import Working

from outlast import Client, RetryPolicy, Worker, activity, workflow


@pytest.fixture(params=["sqlite-file", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """Plain functions."""
    chosen: str = request.param
    return chosen


async def test_a_start_is_part_of_the_transaction(working: Working, bank: Bank) -> None:
    def greet(connection: Connection) -> None:
        number = len(programs.runs)
        activity.client().start(says_hello, id=f"greeting-{number}", connection=connection)
        if number == 1:
            raise ValueError("no")

    programs.meddle[:] = [greet, greet]
    async with working() as client:
        assert await client.execute(pays, "transfer", 5, id="p") == 5
        assert await client.handle("greeting-2").result() == "hello"
        started = [run.workflow_id async for run in client.list(workflow_type="says_hello")]
    assert started == ["greeting-2"]
    assert bank.balances == {"ada": 95, "bob": 5}


attempts: list[int] = []


@activity.defn(start_to_close_timeout=10, transactional=True, retry_policy=RetryPolicy(initial_interval=0.01))
async def greets() -> None:
    attempts.append(1)
    number = len(attempts)
    connection = activity.async_connection()
    await activity.client().start(says_hello, id=f"greeting-{number}", connection=connection)
    if number == 1:
        raise ValueError("no")


@workflow.defn
async def has_greeted() -> None:
    await greets()


@pytest.mark.postgresql
async def test_and_of_an_asynchronous_one(postgresql_url: str) -> None:
    attempts.clear()
    async with (
        await Client.connect(postgresql_url) as client,
        Worker(client, workflows=[has_greeted, says_hello], activities=[greets]),
    ):
        await client.execute(has_greeted, id="g")
        assert await client.handle("greeting-2").result() == "hello"
        started = [run.workflow_id async for run in client.list(workflow_type="says_hello")]
    assert started == ["greeting-2"]
