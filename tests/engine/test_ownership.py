"""Who owns a run: a live owner that leaves it waiting loses it, and what that owner still sends is refused."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from tests.engine import programs

from outlast import Client, Worker
from outlast.runtime.runtime import Runtime
from outlast.testing import TestEnvironment
from outlast_runs.claims import STEAL_AFTER_US, ClaimRuns, RegisterWorker, StealRuns
from outlast_runs.owner_losses import backoff_us
from outlast_runs.start import StartRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import WorkflowTask
from outlast_store.database.sql_text import fetch
from outlast_store.database.urls import DatabaseUrl
from outlast_store.reads.workers import poll_work
from outlast_store.schema.rows import RunRow, WorkerRow
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError, RefusedError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload


class SteppedClock:
    def __init__(self) -> None:
        self.us = 1_767_225_600_000_000

    def now(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return self.us / 1e6


def neglected(runtime: Runtime, before: int) -> list[str]:
    return runtime.read_now(poll_work, "other", ["q"], ["W"], [], 0, before).neglected


async def started(runtime: Runtime, owner: str) -> RunRow:
    """A run that wants to be activated, owned by a registered worker."""
    environment = runtime.environment
    for worker_id in (owner, "other"):
        row = WorkerRow(worker_id, "host", 1, "[]", "{}", None, 0, 0)
        await runtime.journal.apply(RegisterWorker(row, 3600 * 1_000_000))
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id="w",
        workflow_type="W",
        task_queue="q",
        options=StartOptions(),
        memo=None,
        now=environment.clock.now(),
        owner_id=None,
    )
    event = started_event(run, input=Payload.of([]), seed=1)
    await runtime.journal.apply(StartRun(run, event, DuplicatePolicy.ALLOW_DUPLICATE))
    (claimed,) = await runtime.journal.apply(ClaimRuns(owner, ["q"], frozenset({"W"}), 10))
    return claimed


async def test_a_run_that_its_owner_leaves_waiting_is_stolen_and_the_owner_is_refused(
    database_url: str,
) -> None:
    clock = SteppedClock()
    runtime = await Runtime.open(DatabaseUrl.parse(database_url), Environment(clock, threads=False))
    try:
        run = await started(runtime, "owner")
        assert neglected(runtime, clock.us - STEAL_AFTER_US) == []
        assert await runtime.journal.apply(StealRuns("other", [run.run_id])) == []

        clock.us += STEAL_AFTER_US
        assert neglected(runtime, clock.us - STEAL_AFTER_US) == [run.run_id]
        (stolen,) = await runtime.journal.apply(StealRuns("other", [run.run_id]))
        assert (stolen.owner_id, stolen.fence, stolen.owner_losses) == ("other", run.fence + 1, 1)

        late = WorkflowTask("owner", run.fence, 1, 0, record=None, commands=[])
        with pytest.raises(RefusedError, match="owned by another"):
            await runtime.journal.apply(CommitWorkflowTask(run, late))

        clock.us += STEAL_AFTER_US - 1
        assert (
            await runtime.journal.apply(StealRuns("owner", [run.run_id])) == []
        )  # each loss doubles the wait
        clock.us += 1
        assert await runtime.journal.apply(StealRuns("owner", [run.run_id]))
    finally:
        await runtime.leave()


async def test_a_run_that_is_stolen_again_and_again_waits_longer_and_then_needs_a_person(
    database_url: str,
) -> None:
    """As one whose owners die: see ``tests/watchdog/test_lost_workers.py``."""
    clock = SteppedClock()
    runtime = await Runtime.open(DatabaseUrl.parse(database_url), Environment(clock, threads=False))
    try:
        run = await started(runtime, "owner")
        waits, attention = [], []
        for losses in range(5):
            theft = StealRuns("owner" if losses % 2 else "other", [run.run_id])
            clock.us = max(run.wake_at or 0, run.not_before) + (STEAL_AFTER_US << losses) - 1
            assert await runtime.journal.apply(theft) == []
            clock.us += 1
            (run,) = await runtime.journal.apply(theft)
            waits.append(max(0, run.not_before - clock.us) / 1_000_000)
            attention.append(run.attention)
        assert waits == [backoff_us(run.run_id, losses) / 1_000_000 for losses in range(1, 6)]
        assert attention == [None, None, *["owners_keep_dying"] * 3]
    finally:
        await runtime.leave()


@pytest.mark.parametrize(("losses", "after_s"), [(0, 10), (2, 42)])
async def test_a_worker_takes_over_what_another_leaves_waiting(
    shared_url: str, monkeypatch: pytest.MonkeyPatch, losses: int, after_s: int
) -> None:
    """That one's lease goes on, on a thread of its own; but its loop is blocked and activates nothing."""
    async with TestEnvironment(url=shared_url) as env:
        runtime = env.client.runtime
        handle = await env.client.start(programs.nothing, id="w")
        with runtime.database.writer() as writer:
            writer.exec_driver_sql(f"UPDATE workflow_runs SET owner_losses = {losses}")
        began = env.now()
        async with env.new_worker(workflows=[programs.nothing], lease_duration=30) as blocked:
            monkeypatch.setattr(blocked.local.owner.ready_queue, "enqueue", lambda action: None)
            await env.sleep(1)
            elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
            async with (
                Client.connect(shared_url, environment=elsewhere) as other,
                Worker(other, workflows=[programs.nothing], lease_duration=30),
            ):
                await env.sleep(after_s - 2)
                rows = await runtime.read(fetch, "SELECT run_id FROM workflow_runs WHERE started_at IS NULL")
                assert len(rows) == 1
                await handle.result(timeout=20)
                assert env.now() - began < timedelta(seconds=after_s + 4)
                assert blocked.worker_id in {worker.worker_id for worker in await env.client.workers()}


async def test_a_closed_client_says_so(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        handle = client.handle("w")
    with pytest.raises(JournalClosedError, match="connect again"):
        await handle.result()
    with pytest.raises(JournalClosedError, match="connect again"):
        await handle.cancel()
