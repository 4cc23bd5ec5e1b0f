"""Attempts that are written as running here but do not run: each is handed back, and none waits for a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.conformance.changes import Fault, FaultyConnection, lost_after
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import Client, Worker, workflow
from outlast.errors import StoreError, StoreUnreachableError
from outlast.testing import TestEnvironment
from outlast_activities.changes import CompleteAttempt, EndAttempt
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.journal import committer
from outlast_store.journal.batch import Committed
from outlast_store.reads.workers import list_workers


@workflow.defn
async def adds_elsewhere() -> int:
    return await programs.add.with_options(task_queue="other")(1, 2)


@workflow.defn
async def naps() -> None:
    await asyncio.sleep(1)


@workflow.defn
async def naps_and_waits_for_a_nap() -> None:
    await asyncio.sleep(1)
    child = workflow.start_child(naps, id="child")
    await child.started()
    await child


VALUE = psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
"""The error of a driver for a value that its database cannot hold."""
ATTEMPTS = "SELECT attempt, outcome FROM activity_attempts ORDER BY attempt"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Fault]]]:
    """What is to go wrong, in order."""
    monkeypatch.setattr(committer, "RawConnection", FaultyConnection)
    FaultyConnection.plan.clear()
    yield FaultyConnection.plan
    assert FaultyConnection.plan == []


async def test_a_claim_older_than_the_lease_is_handed_back(engine: MakeEnvironment) -> None:
    """The commit took so long that others may have rescued, or even ended, the attempt: it must not start."""
    async with engine() as env:
        slow = [True]
        env.worker.settings.lease_duration = 5

        def late(committed: Committed) -> None:
            if slow and any(row.status == "running" for row in committed.activities):
                slow.clear()
                env.clock.jump(env.worker.settings.lease_duration)

        env.client.runtime.journal.subscribe(late)
        handle = await env.client.start(programs.Sum.run, [1, 2], id="w")
        assert await handle.result() == 3
        assert fetch_all(env.client, ATTEMPTS) == [(1, "handed_back")]
        assert programs.calls["add"] == 2


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_an_unheard_commit_claimed_is_handed_back(
    on_disk: Database,
    database_url: str,
    faults: list[tuple[str, Fault]],
    monkeypatch: pytest.MonkeyPatch,
    anyio_backend: Any,
) -> None:
    """The start, the first workflow task and the claim of its activity are one commit whose outcome was unknown."""
    monkeypatch.setattr("outlast_store.journal.journal.SETTLE_DOUBT_AFTER_S", 0.01)
    async with Client.connect(database_url) as client:
        async with Worker(client, workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            with monkeypatch.context() as away:
                away.setattr(client.runtime.journal.committer, "_patience_s", 0.0)
                away.setattr(Database, "writer", _unreachable)
                faults.append(("COMMIT", lost_after))
                with pytest.raises(StoreError):
                    await client.start(programs.Sum.run, [1, 2], id="w")
            assert await client.handle("w").result() == 3
        assert fetch_all(client, ATTEMPTS) == [(1, "handed_back")]


def _unreachable(self: Database) -> Any:
    raise StoreUnreachableError("nobody answers")


@pytest.mark.usefixtures("written_once")
@pytest.mark.parametrize("error", [ZeroDivisionError("as planned"), VALUE], ids=["bug", "value"])
@pytest.mark.parametrize("change", [CompleteAttempt, EndAttempt])
async def test_an_end_that_can_not_be_written_ends_its_attempt_all_the_same(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, change: type[Any], error: Exception
) -> None:
    apply = change.apply
    broken = [True]

    def refuse(self: Any, batch: Any) -> Any:
        if broken:
            broken.clear()
            raise error
        return apply(self, batch)

    monkeypatch.setattr(change, "apply", refuse)
    async with engine(workflows=[adds_elsewhere, programs.retrying]) as env:
        async with env.new_worker(task_queue="other", activities=programs.ACTIVITIES):
            if change is EndAttempt:
                assert await env.client.execute(programs.retrying, "k", 1, id="w") == 2
            else:
                assert await env.client.execute(adds_elsewhere, id="w") == 3
        found = fetch_all(env.client, "SELECT outcome, failure FROM activity_attempts ORDER BY attempt")
        assert found[0][0] == "failed"
        assert "UnwritableEnd" in found[0][1]


@pytest.mark.usefixtures("written_once")
async def test_a_decision_that_can_not_be_written_fails_its_task(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time does not mend the value, so the failure is counted and shown, and the run waits for other code."""
    apply = CommitWorkflowTask.apply
    broken = [True]

    def refuse(self: Any, batch: Any) -> Any:
        if broken:
            raise VALUE
        return apply(self, batch)

    async with engine(workflows=[adds_elsewhere]) as env:
        handle = await env.client.start(adds_elsewhere, id="w")
        monkeypatch.setattr(CommitWorkflowTask, "apply", refuse)
        async with env.new_worker(task_queue="other", activities=programs.ACTIVITIES):
            await env.sleep(20)
            assert (await handle.describe()).run.task_failures > 0
            broken.clear()
            assert await handle.result() == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_stops_though_the_database_is_away(
    on_disk: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    anyio_backend: Any,
) -> None:
    """Others do what it cannot write by then, once its lease has expired."""
    monkeypatch.setattr("outlast.worker.loop_worker.STOP_PATIENCE_S", 0.05)
    async with Client.connect(database_url) as client:
        worker = Worker(client, workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES)
        await worker.start()
        with monkeypatch.context() as away:
            away.setattr(Database, "writer", _unreachable)
            client.runtime.journal.committer._drop_connection()
            await worker.stop()
        assert "runs could not be released: the database did not answer within 0.05 s" in caplog.text
        assert [row.worker_id for row in await client.runtime.read(list_workers)] == [worker.worker_id]


def fetch_all(client: Client, text: str) -> list[Any]:
    with client.runtime.database.reader() as connection:
        return fetch(connection, text)


async def test_a_workflow_task_that_was_given_up_and_arrives_late_is_not_done_again() -> None:
    """Its run is cached again by then, in its old state, and a busy loop keeps it so for a while."""
    async with TestEnvironment() as env, env.new_worker(workflows=[naps, naps_and_waits_for_a_nap]):
        runtime = env.client.runtime
        owner: Any = runtime.workers[0]
        submit, run_workflow_task = runtime.journal.submit, owner.tasks.run
        given_up: list[CommitWorkflowTask] = []
        late: list[Any] = []

        def submitted(change: Any, callback: Any) -> None:
            if type(change) is CommitWorkflowTask and not given_up:
                given_up.append(change)
                runtime.loop.call_soon(callback, None, StoreUnreachableError("nobody answers"))
            else:
                submit(change, callback)

        def activated(cached_run: Any) -> None:
            if given_up and not late:
                late.append(cached_run)
                submit(given_up[0], lambda value, error: None)
                runtime.loop.call_later(0.05, run_workflow_task, cached_run)
            else:
                run_workflow_task(cached_run)

        runtime.journal.submit = submitted  # type: ignore[method-assign]
        owner.tasks.run = activated
        handle = await env.client.start(naps_and_waits_for_a_nap, id="w")
        await handle.result()
        assert late
        types = [event.type async for event in handle.history()]
        assert types.count("ChildWorkflowScheduled") == types.count("ChildWorkflowStarted") == 1
