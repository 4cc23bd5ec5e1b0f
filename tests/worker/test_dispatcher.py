"""The activity dispatcher reserves slots only for what can start here, and knows its room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import ActivityTimeoutError, RetryPolicy, activity, workflow
from outlast.testing import TestEnvironment
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast_workflow.history.events import ActivityScheduled
from outlast_workflow.primitives.payloads import Payload

EMPTY = Payload.of(None)


@activity.defn(start_to_close_timeout=3600)
async def toil(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@workflow.defn
async def toils(seconds: float) -> float:
    return await toil(seconds)


def scheduled(activity_type: str = "toil", queue: str = "default", **more: Any) -> ActivityScheduled:
    return ActivityScheduled(1, activity_type, queue, EMPTY, EMPTY, 5, **more)


def environment(**options: Any) -> TestEnvironment:
    given: dict[str, Any] = {"workflows": [toils], "activities": [toil], "max_concurrent_activities": 2}
    return TestEnvironment(**{**given, **options})


def dispatcher_of(env: TestEnvironment) -> ActivityDispatcher:
    return env.worker.local.dispatcher


async def test_a_slot_is_reserved_for_what_can_start_here() -> None:
    async with environment() as env:
        dispatcher = dispatcher_of(env)
        (queue,) = dispatcher.queues
        assert not dispatcher.reserve_slot(scheduled("unknown", queue))
        assert not dispatcher.reserve_slot(scheduled(queue="elsewhere"))
        assert dispatcher.reserve_slot(scheduled(queue=queue))
        assert dispatcher.reserve_slot(scheduled(queue=queue))
        assert not dispatcher.reserve_slot(scheduled(queue=queue)), "both slots are reserved"
        assert dispatcher.reserve_slot(scheduled(queue="elsewhere", local=True)), (
            "locals have some of their own"
        )
        dispatcher.release_slots(3)
        assert dispatcher.room == 2


async def test_what_waits_already_goes_before_what_is_scheduled_now() -> None:
    async with environment() as env:
        dispatcher = dispatcher_of(env)
        (queue,) = dispatcher.queues
        dispatcher.queued.waiting = True
        assert dispatcher.room == 0
        assert not dispatcher.reserve_slot(scheduled(queue=queue))


async def test_a_dispatcher_that_stops_reserves_nothing() -> None:
    async with environment() as env:
        dispatcher = dispatcher_of(env)
        (queue,) = dispatcher.queues
        dispatcher.stop()
        assert not dispatcher.reserve_slot(scheduled(queue=queue))
        assert not dispatcher.reserve_slot(scheduled(queue=queue, local=True))


@pytest.mark.parametrize("options", [{"activities": []}, {"max_concurrent_activities": 0}])
async def test_a_worker_that_runs_no_activities_has_no_measure_of_room(options: dict[str, Any]) -> None:
    async with environment(**options) as env:
        assert dispatcher_of(env).room is None


async def test_the_slot_is_free_again_when_the_handler_has_ended() -> None:
    async with environment() as env:
        handle = await env.client.start(toils, 5.0)
        await env.sleep(1)
        assert dispatcher_of(env).room == 1
        await handle.result()
        assert dispatcher_of(env).room == 2


@activity.defn(start_to_close_timeout=3600, heartbeat_timeout=10, retry_policy=RetryPolicy(max_attempts=1))
async def beats_late() -> None:
    await asyncio.sleep(11)
    activity.heartbeat()
    await asyncio.sleep(3600)


@workflow.defn
async def hears_late() -> str | None:
    try:
        await beats_late()
    except ActivityTimeoutError as error:
        return error.timeout_kind
    return "in time"


async def test_a_heartbeat_that_comes_too_late_ends_its_attempt_though_no_watchdog_looks() -> None:
    async with TestEnvironment() as env:
        worker = env.new_worker(workflows=[hears_late], activities=[beats_late], watchdog=False)
        async with worker:
            began = env.now()
            assert await env.client.execute(hears_late) == "heartbeat"
            assert (env.now() - began).total_seconds() < 12
