from __future__ import annotations

import asyncio
import contextvars
import logging
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast_activities import context as activity
from outlast_activities.context import Cancelled
from outlast_activities.definitions import defn
from outlast_activities.stop_reason import StopReason
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors.context import NotInActivityError

START = 1_800_000_000_000_000


@pytest.mark.parametrize("call", [activity.info, activity.heartbeat, activity.is_cancelled])
def test_outside_an_activity_there_is_nothing_to_ask(call: Callable[[], Any]):
    assert not activity.in_activity()
    with pytest.raises(NotInActivityError, match="outside an activity"):
        call()


async def test_info_has_the_facts(bench: Any):
    found: list[activity.ActivityInfo] = []

    @defn(start_to_close_timeout=60, heartbeat_timeout=2.5)
    async def work() -> None:
        found.append(activity.info())
        assert activity.info() is found[0]

    await bench.run(
        work,
        attempt=5,
        uncharged=2,
        start_to_close_deadline_at=START + 61_000_000,
        heartbeat_deadline_at=START + 3_500_000,
        heartbeat_details='[3,"rows"]',
    )
    (info,) = found
    assert (info.workflow_id, info.run_id, info.workflow_type) == ("order-1", "run-1", "Order")
    assert (info.activity_id, info.activity_type, info.task_queue) == (1, "work", "default")
    assert info.attempt == 3, "rescues are not counted"
    assert info.scheduled_at == datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
    assert info.started_at == datetime(2027, 1, 15, 8, 0, 1, tzinfo=UTC)
    assert info.start_to_close_deadline_at == datetime(2027, 1, 15, 8, 1, 1, tzinfo=UTC)
    assert info.heartbeat_deadline_at == datetime(2027, 1, 15, 8, 0, 3, 500000, tzinfo=UTC)
    assert info.schedule_to_start_deadline_at is info.schedule_to_close_deadline_at is None
    assert info.heartbeat_timeout_seconds == 2.5
    assert info.heartbeat_details == (3, "rows")
    assert info.priority == 5
    with pytest.raises(AttributeError):
        info.attempt = 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


class Reverse:
    name = "reverse"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    decode = encode


async def test_details_go_through_the_codec(new_bench: Callable[..., Any]):
    bench = new_bench(converter=DataConverter(Reverse()))

    @defn
    async def work() -> Any:
        return activity.info().heartbeat_details

    assert await bench.run(work) == []
    written = bench.converter.encode_args(["secret"]).json.decode()
    assert "secret" not in written
    assert await bench.run(work, heartbeat_details=written) == ["secret"]
    task = bench.task(work)
    bench.heartbeats.record(task, ("secret",))
    assert bench.heartbeats.take_pending(*task.key) == written


async def test_tasks_and_copied_contexts_belong_to_the_activity(bench: Any):
    @defn
    async def work() -> list[int]:
        async def inside() -> int:
            return activity.info().activity_id

        context = contextvars.copy_context()
        return [
            await asyncio.create_task(inside()),
            await asyncio.to_thread(lambda: activity.info().activity_id),
            await asyncio.get_running_loop().run_in_executor(
                None, context.run, lambda: activity.info().activity_id
            ),
        ]

    assert await bench.run(work, activity_id=42) == [42, 42, 42]


async def test_a_heartbeat_from_a_thread_of_the_handlers_own(bench: Any):
    @defn
    def work() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(activity.heartbeat, 7))
        thread.start()
        thread.join()
        raise ValueError

    taken: list[str | None] = []
    told = bench.runner._on_end

    def take(task: Any, end: Any) -> None:
        taken.append(bench.heartbeats.take_pending(*task.key))
        told(task, end)

    bench.runner._on_end = take
    await bench.run(work)
    assert taken == ["[7]"]


async def test_a_heartbeat_without_a_json_form_is_the_handlers_error(bench: Any):
    @defn
    async def work() -> None:
        activity.heartbeat(threading.Lock())

    assert (await bench.run(work)).failure["type"] == "PayloadEncodeError"


def test_cancelled_is_no_exception_that_a_retry_loop_catches():
    assert not issubclass(Cancelled, Exception)
    assert issubclass(Cancelled, asyncio.CancelledError)
    copy = pickle.loads(pickle.dumps(Cancelled(StopReason.LOST)))
    assert (copy.reason, str(copy)) == ("lost", str(Cancelled(StopReason.LOST)))


async def test_log_records_carry_the_ids(bench: Any, caplog: pytest.LogCaptureFixture):
    @defn
    async def work() -> None:
        activity.logger.info("%s%% done", 50, extra={"colour": "green"})

    caplog.set_level(logging.INFO, "outlast.activity")
    await bench.run(work, attempt=2)
    activity.logger.info("outside")
    inside, outside = caplog.records
    assert inside.getMessage() == "50% done"
    assert {
        name: vars(inside)[name]
        for name in ("workflow_id", "run_id", "activity_id", "activity_type", "attempt")
    } == {
        "workflow_id": "order-1",
        "run_id": "run-1",
        "activity_id": 1,
        "activity_type": "work",
        "attempt": 2,
    }
    assert vars(inside)["colour"] == "green"
    assert "workflow_id" not in vars(outside)
