"""A worker's lease: registered, renewed, lost and registered again."""

from __future__ import annotations

from typing import Any

from outlast import workflow
from outlast.testing import TestEnvironment
from outlast_store.reads.workers import list_workers


@workflow.defn
async def nothing() -> None:
    return None


async def ids(env: TestEnvironment) -> list[str]:
    found: list[Any] = await env.client.runtime.read(list_workers)
    return [worker.worker_id for worker in found]


async def test_it_is_held_from_the_start_and_given_up_at_the_stop() -> None:
    async with TestEnvironment() as env:
        async with env.new_worker(workflows=[nothing]) as worker:
            assert await ids(env) == [worker.worker_id]
            assert worker.worker_id in env.client.runtime.journal.cache.owners
        assert await ids(env) == []
        assert worker.worker_id not in env.client.runtime.journal.cache.owners


async def test_it_is_renewed_before_it_expires() -> None:
    async with TestEnvironment() as env, env.new_worker(workflows=[nothing], lease_duration=9):
        (before,) = await env.client.runtime.read(list_workers)
        await env.sleep(8)
        (after,) = await env.client.runtime.read(list_workers)
        assert after.lease_expires_at > before.lease_expires_at
        assert before.lease_duration == after.lease_duration == 9_000_000


async def test_a_worker_that_lost_it_works_on_under_another_id() -> None:
    async with TestEnvironment() as env, env.new_worker(workflows=[nothing]) as worker:
        first = worker.worker_id
        worker.local.lease.declared_dead()
        lost = [worker.local.lease.lost]
        worker.local.lease.declared_dead()
        await env.settle()
        lost.append(worker.local.lease.lost)
        assert lost == [True, False]
        assert worker.worker_id != first
        assert worker.worker_id in await ids(env)
        await env.client.execute(nothing)


async def test_a_worker_that_stops_does_not_register_again() -> None:
    async with TestEnvironment() as env, env.new_worker(workflows=[nothing]) as worker:
        worker.local.lease.stop()
        worker.local.lease.declared_dead()
        assert not worker.local.lease.lost
