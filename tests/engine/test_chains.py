"""Chains: continue-as-new, retries of whole workflows, and deadlines that survive both."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import Countdown

from outlast.client.client import Client
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import (
    ApplicationError,
    InvalidOptionError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTimeoutError,
)
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.primitives.times import iso, to_datetime

TWO_HOURS = StartOptions().with_execution_timeout(7200).with_run_timeout(600)


async def chain_of(client: Client, first_run_id: str) -> list[RunRow]:
    found: list[RunRow] = []
    run_id: str | None = first_run_id
    while run_id is not None:
        row = await client.runtime.read(find_run, run_id)
        assert row is not None
        found.append(row)
        run_id = row.next_run_id
    return found


async def started_payloads(client: Client, chain: list[RunRow]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for row in chain:
        async for event in client.handle(row.workflow_id, run_id=row.run_id).history():
            found.append(event.payload)
            break
    return found


async def test_the_result_follows_the_chain(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(Countdown.run, 3, [], id="w")
        assert handle.run_id is not None
        assert await handle.result() == [3, 2, 1, 0]
        chain = await chain_of(env.client, handle.run_id)
        assert [row.status for row in chain] == ["continued_as_new"] * 3 + ["completed"]
        assert [row.run_number for row in chain] == [1, 2, 3, 4]
        first = [event.type async for event in env.client.handle("w", run_id=handle.run_id).history()]
        assert first[-1] == "WorkflowContinuedAsNew"


async def test_the_execution_deadline_is_carried_and_each_run_gets_a_fresh_one(
    engine: MakeEnvironment,
) -> None:
    async with engine() as env:
        began = env.now()
        handle = await env.client.start(Countdown.run, 2, [], id="w", options=TWO_HOURS)
        await handle.result()
        assert handle.run_id is not None
        chain = await chain_of(env.client, handle.run_id)
        assert len(chain) == 3
        payloads = await started_payloads(env.client, chain)
        for row, payload in zip(chain, payloads, strict=True):
            assert row.execution_deadline_at is not None
            assert row.run_deadline_at is not None
            assert to_datetime(row.execution_deadline_at) == began + timedelta(seconds=7200)
            assert row.run_deadline_at == row.created_at + 600_000_000
            assert payload["execution_timeout_seconds"] == 7200
            assert payload["run_timeout_seconds"] == 600
            assert payload["execution_deadline_at"] == iso(row.execution_deadline_at)
            assert payload["run_deadline_at"] == iso(row.run_deadline_at)
            assert str(payload["run_deadline_at"]).endswith("+00:00")


async def test_describe_shows_both_deadlines_of_the_newest_run(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        handle = await env.client.start(programs.waiting_countdown, 2, id="w", options=TWO_HOURS)
        await env.sleep(150)  # in the second run, which began after 100 s
        described = await handle.describe()
        assert described.execution_timeout_seconds == 7200
        assert described.run.run_timeout_seconds == 600
        assert described.run.run_number == 2
        assert described.run.execution_deadline_at == began + timedelta(seconds=7200)
        assert described.run.run_deadline_at == began + timedelta(seconds=700)
        assert (await env.client.describe("w")).run.run_id == described.run.run_id
        assert await handle.result() == 0


async def test_a_failed_run_is_followed_by_another(engine: MakeEnvironment) -> None:
    options = StartOptions(
        retry_policy=RetryPolicy(initial_interval=10, backoff_coefficient=3),
        execution_timeout=3600,
        run_timeout=100,
    )
    async with engine() as env:
        began = env.now()
        handle = await env.client.start(programs.third_time, id="w", options=options)
        assert handle.run_id is not None
        assert await handle.result() == 3
        assert timedelta(seconds=40) <= env.now() - began < timedelta(seconds=42)
        chain = await chain_of(env.client, handle.run_id)
        assert [(row.status, row.attempt) for row in chain] == [
            ("failed", 1),
            ("failed", 2),
            ("completed", 3),
        ]
        assert len({row.execution_deadline_at for row in chain}) == 1
        second = chain[1]
        assert second.run_deadline_at == second.created_at + 10_000_000 + 100_000_000
        payloads = await started_payloads(env.client, chain)
        assert [payload.get("last_failure") is not None for payload in payloads] == [False, True, True]


async def test_runs_are_not_retried_for_ever(engine: MakeEnvironment) -> None:
    async with engine() as env:
        options = StartOptions(retry_policy=RetryPolicy(max_attempts=2))
        handle = await env.client.start(programs.failing, "always", id="w", options=options)
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, ApplicationError)
        assert handle.run_id is not None
        assert len(await chain_of(env.client, handle.run_id)) == 2


async def test_a_policy_names_errors_that_end_the_chain(engine: MakeEnvironment) -> None:
    async with engine() as env:
        options = StartOptions(retry_policy=RetryPolicy(non_retryable_error_types=("Bad",)))
        handle = await env.client.start(programs.failing, "bad", id="w", options=options)
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        assert handle.run_id is not None
        assert len(await chain_of(env.client, handle.run_id)) == 1


async def test_no_retry_begins_at_or_after_the_execution_deadline(engine: MakeEnvironment) -> None:
    async with engine() as env:
        options = StartOptions(retry_policy=RetryPolicy(initial_interval=60), execution_timeout=60)
        handle = await env.client.start(programs.failing, "late", id="w", options=options)
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        assert handle.run_id is not None
        assert len(await chain_of(env.client, handle.run_id)) == 1


async def test_a_cancel_ends_the_backoff_of_a_run_and_allows_no_retry(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        options = StartOptions(retry_policy=RetryPolicy(initial_interval=3600, max_interval=3600))
        handle = await env.client.start(programs.failing, "again", id="w", options=options)
        await env.sleep(10)
        await handle.cancel("enough")
        with pytest.raises((WorkflowFailedError, WorkflowCancelledError)):
            await handle.result()
        assert env.now() - began < timedelta(seconds=60)
        assert handle.run_id is not None
        assert len(await chain_of(env.client, handle.run_id)) == 2


async def test_the_execution_deadline_ends_the_chain(engine: MakeEnvironment) -> None:
    async with engine() as env:
        began = env.now()
        options = StartOptions(execution_timeout=250)
        handle = await env.client.start(programs.waiting_countdown, 100, id="w", options=options)
        with pytest.raises(WorkflowTimeoutError) as caught:
            await handle.result()
        assert caught.value.timeout_kind == "execution_timeout"
        assert caught.value.deadline_at == began + timedelta(seconds=250)
        assert timedelta(seconds=250) <= env.now() - began < timedelta(seconds=252)
        assert handle.run_id is not None
        assert [row.status for row in await chain_of(env.client, handle.run_id)] == [
            "continued_as_new",
            "continued_as_new",
            "timed_out",
        ]


async def test_a_run_deadline_ends_one_run_and_a_retry_policy_starts_the_next(
    engine: MakeEnvironment,
) -> None:
    async with engine() as env:
        options = StartOptions(run_timeout=30, retry_policy=RetryPolicy(max_attempts=2, initial_interval=5))
        handle = await env.client.start(programs.waiting, 1000, id="w", options=options)
        with pytest.raises(WorkflowTimeoutError) as caught:
            await handle.result()
        assert caught.value.timeout_kind == "run_timeout"
        assert handle.run_id is not None
        chain = await chain_of(env.client, handle.run_id)
        assert [row.status for row in chain] == ["timed_out", "timed_out"]
        await env.settle()
        assert programs.calls["wait_long cancelled"] == 2


async def test_a_start_delay_waits_and_counts_into_the_execution_timeout_only(
    engine: MakeEnvironment,
) -> None:
    async with engine() as env:
        began = env.now()
        options = StartOptions(start_delay=50, execution_timeout=500, run_timeout=100)
        handle = await env.client.start(programs.nothing, id="w", options=options)
        assert handle.run_id is not None
        await env.sleep(49)
        row = (await chain_of(env.client, handle.run_id))[0]
        assert row.status == "pending"
        assert row.execution_deadline_at is not None
        assert row.run_deadline_at is not None
        assert to_datetime(row.execution_deadline_at) == began + timedelta(seconds=500)
        assert to_datetime(row.run_deadline_at) == began + timedelta(seconds=150)
        await handle.result()
        assert timedelta(seconds=50) <= env.now() - began < timedelta(seconds=52)


async def test_a_start_delay_over_the_execution_timeout_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="start delay"):
        StartOptions(start_delay=100, execution_timeout=100)


async def test_memo_and_priority_follow_the_chain(engine: MakeEnvironment) -> None:
    async with engine() as env:
        options = StartOptions().with_memo({"customer": "ada"}).with_priority(2)
        handle = await env.client.start(Countdown.run, 1, [], id="w", options=options)
        await handle.result()
        assert handle.run_id is not None
        for row in await chain_of(env.client, handle.run_id):
            assert row.priority == 2
            assert row.memo == '{"customer":"ada"}'
