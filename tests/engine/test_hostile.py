"""Code and people that mean harm, or know no better: each gets a typed answer, and no run is stuck by it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ActivityError, ApplicationError, RetryPolicy, StartOptions, activity, workflow
from outlast_store.journal.committer import Committer, Outcome
from outlast_workflow.errors import InvalidOptionError, StoreUnreachableError, WorkflowFailedError

pytestmark = pytest.mark.anyio


def bad(kind: str) -> str:
    if kind == "nul":
        raise ApplicationError("output: \x00", "detail \x00", type="With\x00Nul")
    if kind == "exit":
        sys.exit(3)
    if kind == "generator exit":
        raise GeneratorExit
    raise ApplicationError("much later", next_retry_delay=1e300)


KINDS = ("nul", "exit", "generator exit", "delay")


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(max_attempts=1))
async def bad_activity(kind: str) -> str:
    return bad(kind)


@workflow.defn
async def calls_bad_activity(kind: str) -> str:
    return await bad_activity(kind)


@workflow.defn
async def bad_workflow(kind: str) -> str:
    return bad(kind)


@workflow.defn
async def waits() -> None:
    await workflow.sleep(3600)


@workflow.defn
async def calls_by_name(name: str) -> str:
    result: str = await workflow.execute_activity(name, schedule_to_close_timeout=10)
    return result


@activity.defn(start_to_close_timeout=600)
async def answers() -> str:
    return "an answer"


@activity.defn(start_to_close_timeout=600)
async def refuses() -> str:
    raise ApplicationError("no", non_retryable=True)


@workflow.defn
async def asks() -> list[str]:
    try:
        await refuses()
    except ActivityError as error:
        return [await answers(), str(error.__cause__)]
    return []


HOSTILE: dict[str, Any] = {
    "workflows": [calls_bad_activity, bad_workflow, waits, calls_by_name, asks],
    "activities": [bad_activity, answers, refuses],
}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_an_activity_raises_ends_it(engine: MakeEnvironment, kind: str) -> None:
    async with engine(**HOSTILE) as env:
        handle = await env.client.start(calls_bad_activity, kind, id="w")
        before = env.now()
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, ActivityError)
        assert (env.now() - before).total_seconds() < 10
        assert env.worker.local.dispatcher.runner.free == env.worker.settings.max_concurrent_activities


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_what_a_workflow_raises_fails_its_run(engine: MakeEnvironment, kind: str) -> None:
    async with engine(**HOSTILE) as env:
        handle = await env.client.start(bad_workflow, kind, id="w")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, ApplicationError)


@pytest.mark.parametrize("reason", ["with \x00", "with \ud800", "x" * 10_001, 5])
async def test_a_reason_that_no_database_can_hold(engine: MakeEnvironment, reason: Any) -> None:
    async with engine(**HOSTILE) as env:
        handle = await env.client.start(waits, id="w")
        with pytest.raises(InvalidOptionError, match="reason must"):
            await handle.cancel(reason)
        with pytest.raises(InvalidOptionError, match="reason must"):
            await handle.terminate(reason)
        assert (await handle.describe()).run.closed_at is None
        await handle.terminate("50 % done? %s")


@pytest.mark.parametrize("name", ["", "with \x00", "x" * 201])
async def test_an_activity_by_a_name_that_cannot_be(engine: MakeEnvironment, name: str) -> None:
    async with engine(**HOSTILE) as env:
        handle = await env.client.start(
            calls_by_name, name, id="w", options=StartOptions(execution_timeout=60)
        )
        await env.sleep(5)
        run = (await handle.describe()).run
        assert run.task_failures > 0, "a programming error fails the task, not the run"
        await handle.terminate()


async def test_what_ended_outlives_a_database_that_is_away(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal gives up at some time; a result and a failed attempt are kept until a commit has them."""
    run, away = Committer.run, 0

    def run_or_not(committer: Committer, changes: Any) -> Any:
        nonlocal away
        names = {type(change).__name__ for change in changes}
        if away and names & {"CommitWorkflowTask", "CompleteAttempt", "EndAttempt"}:
            away -= 1
            return [Outcome(None, StoreUnreachableError("away")) for _ in changes], []
        return run(committer, changes)

    monkeypatch.setattr(Committer, "run", run_or_not)
    async with engine(**HOSTILE) as env:
        handle = await env.client.start(asks, id="w")
        away = 5
        before = env.now()
        assert await handle.result() == ["an answer", "no"]
        assert away == 0
        assert (env.now() - before).total_seconds() < 60, "not by a timeout"
