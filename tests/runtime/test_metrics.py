"""The engine's metrics as a reader of the OpenTelemetry SDK sees them, and as the page lists them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.engine.conftest import MakeEnvironment

from outlast import (
    AlertPolicy,
    ApplicationError,
    RetryPolicy,
    StartOptions,
    UpdateRejectedError,
    WorkflowFailedError,
    WorkflowTimeoutError,
    activity,
    workflow,
)
from outlast.alerts import Alert
from outlast.runtime.metrics import METRICS, engine_metrics
from outlast.testing import TestEnvironment
from outlast.watchdog import TaskWatchdog
from outlast_workflow.primitives.enums import AttemptOutcome

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
SECTION = re.compile(r"^## The engine$(.+?)^## ", re.M | re.S)
ROW = re.compile(r"^\| `(outlast\.\S+)` \| ([a-z ]+) \| `(.+?)` \|(.*?)\| (.+) \|$", re.M)

THRICE = RetryPolicy(max_attempts=3, initial_interval=10, backoff_coefficient=1, jitter=0)


@activity.defn(start_to_close_timeout=60, retry_policy=THRICE)
async def third_time_lucky() -> int:
    attempt = activity.info().attempt
    if attempt < 3:
        raise ConnectionError(attempt)
    return attempt


@activity.defn(start_to_close_timeout=60, retry_policy=THRICE)
async def hopeless() -> None:
    raise ConnectionError


@activity.defn(start_to_close_timeout=5, retry_policy=RetryPolicy(max_attempts=1))
async def hangs() -> None:
    await asyncio.sleep(1000)


@activity.defn(start_to_close_timeout=60)
async def quick() -> None: ...


@workflow.defn
async def calls(name: str) -> None:
    await workflow.execute_activity({"hopeless": hopeless, "hangs": hangs}.get(name, third_time_lucky))


@workflow.defn
async def locally() -> None:
    await workflow.execute_local_activity(quick)


@workflow.defn
async def counts_down(left: int) -> None:
    if left:
        workflow.continue_as_new(left - 1)


@workflow.defn
class Open:
    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(1000)

    @workflow.signal
    def poke(self) -> None: ...

    @workflow.update
    def change(self, to: int) -> int:
        return to

    @change.validator
    def not_negative(self, to: int) -> None:
        if to < 0:
            raise ValueError("negative")


PROGRAMS: dict[str, Any] = {
    "workflows": [calls, locally, counts_down, Open],
    "activities": [third_time_lucky, hopeless, hangs, quick],
}


class Readings:
    """A meter provider for one test, and what was recorded with it."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)

    def points(self, name: str, *by: str) -> dict[Any, Any]:
        """Return a metric's points by some of their attributes."""
        data = self.reader.get_metrics_data()
        found: dict[Any, Any] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "outlast"
                for metric in scope.metrics:
                    if metric.name == f"outlast.{name}":
                        for point in metric.data.data_points:
                            attributes: Mapping[str, Any] = point.attributes or {}
                            key = tuple(attributes[one] for one in by)
                            assert key not in found
                            found[key] = point
        return found

    def values(self, name: str, *by: str) -> dict[Any, int]:
        """Return what a counter has counted."""
        return {key: point.value for key, point in self.points(name, *by).items()}


@pytest.fixture
def readings() -> Iterator[Readings]:
    found = Readings()
    yield found
    found.provider.shutdown()


async def test_runs_are_counted_once_by_type_and_how_they_ended(
    database_url: str, readings: Readings
) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        env.client.runtime.measure(readings.provider)
        await env.client.execute(counts_down, 2, id="c")
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(calls, "hopeless", id="f")
        with pytest.raises(WorkflowTimeoutError):
            await env.client.execute(Open.run, id="t", options=StartOptions(run_timeout=30))
        stopped = await env.client.start(Open.run, id="x")
        await stopped.terminate()
        cancelled = await env.client.start(Open.run, id="y")
        await cancelled.cancel()
        await env.settle()
        begun = await env.client.start(Open.run, id="z")
        await env.settle()
        again = await begun.reset(to="first-workflow-task")
        await again.terminate()
    assert readings.values("workflow.started", "workflow_type", "task_queue") == {
        ("counts_down", "default"): 3,
        ("calls", "default"): 1,
        ("Open", "default"): 5,
    }
    assert readings.values("workflow.ended", "workflow_type", "outcome") == {
        ("counts_down", "continued_as_new"): 2,
        ("counts_down", "completed"): 1,
        ("calls", "failed"): 1,
        ("Open", "timed_out"): 1,
        ("Open", "terminated"): 3,
        ("Open", "cancelled"): 1,
    }
    took = readings.points("workflow.duration", "workflow_type", "outcome")
    assert (took["Open", "timed_out"].count, took["Open", "timed_out"].sum) == (1, pytest.approx(30, abs=1))
    assert took["calls", "failed"].sum == pytest.approx(20, abs=1)


async def test_activities_are_counted_with_their_attempts(database_url: str, readings: Readings) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        env.client.runtime.measure(readings.provider)
        await env.client.execute(calls, "third_time_lucky", id="3")
        await env.client.execute(locally, id="l")
        for name in ("hopeless", "hangs"):
            with pytest.raises(WorkflowFailedError):
                await env.client.execute(calls, name, id=name)
        handle = await env.client.start(calls, "hangs", id="cut")
        await env.settle()
        await handle.terminate()
        await env.settle()
    assert readings.values("activity.ended", "activity_type", "outcome") == {
        ("third_time_lucky", "completed"): 1,
        ("quick", "completed"): 1,
        ("hopeless", "failed"): 1,
        ("hangs", "timed_out"): 1,
        ("hangs", "cancelled"): 1,
    }
    assert readings.values("activity.attempts", "activity_type", "outcome") == {
        ("third_time_lucky", "failed"): 2,
        ("third_time_lucky", "completed"): 1,
        ("quick", "completed"): 1,
        ("hopeless", "failed"): 3,
        ("hangs", "timed_out"): 1,
        ("hangs", "cancelled"): 1,
    }
    took = readings.points("activity.duration", "activity_type", "task_queue", "outcome")
    assert took["third_time_lucky", "default", "completed"].sum == pytest.approx(20, abs=1)
    assert took["hangs", "default", "timed_out"].sum == pytest.approx(5, abs=1)
    assert took["quick", "default", "completed"].count == 1, "under the queue's name as users know it"


async def test_requests_are_counted_and_rejected_updates_apart(database_url: str, readings: Readings) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        env.client.runtime.measure(readings.provider)
        handle = await env.client.start(Open.run, id="o")
        for _ in range(3):
            await handle.signal(Open.poke)
        assert await handle.execute_update(Open.change, 1) == 1
        with pytest.raises(UpdateRejectedError):
            await handle.execute_update(Open.change, -1)
        await handle.cancel()
        await env.settle()
    assert readings.values("requests", "kind", "outcome") == {
        ("signal", "accepted"): 3,
        ("update", "accepted"): 1,
        ("update", "rejected"): 1,
        ("cancel", "accepted"): 1,
    }


async def test_deliveries_of_alerts_are_counted_by_channel_and_how_they_ended(
    database_url: str, readings: Readings
) -> None:
    tries = 0

    async def flaky(alerts: list[Alert]) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError

    async def gone(alerts: list[Alert]) -> None:
        raise ApplicationError("gone", non_retryable=True)

    channels: dict[str, Any] = {"flaky": flaky, "gone": gone}
    async with TestEnvironment(url=database_url, alert_channels=channels, **PROGRAMS) as env:
        env.client.runtime.measure(readings.provider)
        policy = AlertPolicy(after=[10], channels=[*channels, "nobody"])
        await env.client.start(Open.run, id="o", options=StartOptions(alerts=policy))
        await env.sleep(100)
    assert readings.values("alerts.deliveries", "channel", "outcome") == {
        ("flaky", "delivered"): 1,
        ("gone", "failed"): 1,
    }
    assert readings.values("alerts.delivery_attempts", "channel", "outcome") == {
        ("flaky", "failed"): 2,
        ("flaky", "delivered"): 1,
        ("gone", "failed"): 1,
    }


async def test_a_streak_of_failed_tasks_is_counted_when_it_begins(
    in_memory: MakeEnvironment, readings: Readings
) -> None:
    @workflow.defn(name="breaks")
    async def one() -> None:
        await quick()
        await quick()

    @workflow.defn(name="breaks")
    async def other() -> None:
        await hangs()

    async with in_memory(workflows=[one], activities=[hangs]) as env:
        env.client.runtime.measure(readings.provider)
        handle = await env.client.start(one, id="b")
        await env.settle()
        await env.worker.stop()
        async with env.new_worker(workflows=[other], activities=[quick]):
            await env.sleep(100)
        await handle.terminate()
    assert readings.values("workflow.task_failures", "workflow_type") == {("breaks",): 1}


async def test_what_a_watchdog_alone_enforces_is_counted_where_it_runs(
    database_url: str, readings: Readings
) -> None:
    async with TestEnvironment(url=database_url) as env:
        env.client.runtime.measure(readings.provider)
        await env.client.start("nobody", id="n", options=StartOptions(run_timeout=30))
        await env.sleep(31)
        await TaskWatchdog(env.client).run_pass()
    assert readings.values("workflow.ended", "workflow_type", "outcome") == {("nobody", "timed_out"): 1}


async def test_measuring_twice_counts_once_and_providers_that_do_nothing_are_not_told(
    in_memory: MakeEnvironment, readings: Readings
) -> None:
    assert engine_metrics(readings.provider) is engine_metrics(readings.provider)
    assert engine_metrics(NoOpMeterProvider()) is None
    async with in_memory(**PROGRAMS) as env:
        journal = env.client.runtime.journal
        before = len(journal._listeners)
        env.client.runtime.measure()
        env.client.runtime.measure(NoOpMeterProvider())
        assert len(journal._listeners) == before, "no provider is set in this process"
        env.client.runtime.measure(readings.provider)
        env.client.runtime.measure(readings.provider)
        assert len(journal._listeners) == before + 1
        await env.client.execute(counts_down, 0)
    assert readings.values("workflow.ended", "outcome") == {("completed",): 1}


OF_ITS_OWN = """
import asyncio
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from outlast import Client, Worker, workflow

@workflow.defn
async def done() -> None: ...

async def main() -> None:
    reader = InMemoryMetricReader()
    set_provider = lambda: metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
    if {early}: set_provider()
    async with Client.connect("sqlite://") as client:
        if not {early}: set_provider()
        async with Worker(client, workflows=[done]):
            await client.execute(done)
    scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found = {{metric.name: metric for scope in scopes for metric in scope.metrics}}
    print(found["outlast.workflow.ended"].data.data_points[0].value)

asyncio.run(main())
"""


@pytest.mark.parametrize("early", [True, False], ids=["before connecting", "before the worker"])
def test_the_provider_of_the_process_is_found(early: bool) -> None:
    program = [sys.executable, "-c", OF_ITS_OWN.format(early=early)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_the_page_lists_each_metric_as_the_code_has_it() -> None:
    section = SECTION.search(PAGE.read_text())
    assert section is not None
    found = {
        (name, instrument, unit, tuple(re.findall(r"`(\w+)`", attributes)), what)
        for name, instrument, unit, attributes, what in ROW.findall(section[1])
    }
    assert found == {(one.name, one.instrument, one.unit, one.attributes, one.description) for one in METRICS}
    for outcome in AttemptOutcome:
        assert f"`{outcome.value}`" in section[1]
