"""A run that another worker has had meanwhile: what its first owner kept of it in memory counts no more."""

from __future__ import annotations

import random

from tests.engine.programs import add
from tests.engine.talkers import Collector

from outlast import Client, Worker
from outlast.testing import TestEnvironment
from outlast_runs.claims import ReleaseRuns
from outlast_workflow.environment import Environment


async def test_a_run_that_comes_back_to_an_owner_that_kept_it_is_replayed(sqlite_url: str) -> None:
    async with TestEnvironment(workflows=[Collector], activities=[add], url=sqlite_url) as env:
        handle = await env.client.start(Collector.run, id="c")
        await handle.signal("take", 1)
        await env.sleep(5)
        assert handle.run_id in env.worker.local.owner.cache.runs
        elsewhere = Environment(env.clock, rng=random.Random(1), threads=False)
        async with Client.connect(sqlite_url, environment=elsewhere) as other:
            # As if it had been taken from an owner that was paused and knows nothing of it.
            await other.runtime.journal.apply(ReleaseRuns(env.worker.worker_id, [handle.run_id or ""]))
            async with Worker(other, workflows=[Collector], activities=[add], lease_duration=3600):
                await other.signal("c", "take", 2)
                await env.sleep(5)
            await other.signal("c", "take", 3)
            await env.sleep(5)
            await other.signal("c", "stop")
        assert await handle.result() == [1, 2, 3]
        history = [event.type async for event in handle.history()]
        assert history.count("ActivityScheduled") == 3, "nothing is done twice"
        assert "WorkflowTaskFailed" not in history
