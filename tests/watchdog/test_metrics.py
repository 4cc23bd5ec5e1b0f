"""What the watchdog counts, as a reader of the OpenTelemetry SDK sees it; and that the page lists each metric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.watchdog.stage import SECOND, Stage

from outlast_store.reads.due import count_open
from outlast_watchdog.metrics import METRICS, watchdog_metrics
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.errors import StoreError
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import TimeoutKind

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(outlast\.\S+)` \| ([a-z ]+) \| `(.+?)` \|(.*?)\| (.+) \|$", re.M)


class Readings:
    """A provider of its own, and what it has heard."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)

    def collect(self) -> dict[str, dict[str, Any]]:
        """Each metric's points, by their one attribute."""
        data = self.reader.get_metrics_data()
        found: dict[str, dict[str, Any]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "outlast.watchdog"
                for metric in scope.metrics:
                    found[metric.name.removeprefix("outlast.watchdog.")] = {
                        str(next(iter((point.attributes or {}).values()), "")): point
                        for point in metric.data.data_points
                    }
        return found


@pytest.fixture
def readings() -> Iterator[Readings]:
    found = Readings()
    yield found
    found.provider.shutdown()


def watchdog_of(stage: Stage, readings: Readings) -> TaskWatchdog:
    stage.watchdog = TaskWatchdog(stage, meter_provider=readings.provider)
    return stage.watchdog


def values(points: dict[str, Any]) -> dict[str, int]:
    return {kind: point.value for kind, point in points.items()}


async def test_what_is_enforced_is_counted_by_kind_and_measured(stage: Stage, readings: Readings) -> None:
    watchdog = watchdog_of(stage, readings)
    await stage.start(StartOptions(run_timeout=10))
    run_id = await stage.start()
    once = ActivityOptions(schedule_to_start_timeout=10, retry_policy=RetryPolicy(max_attempts=1))
    await stage.schedule(run_id, once, number=3)
    await stage.set_timer(run_id, 10)
    stage.clock.advance(12)
    await watchdog.run_pass()
    found = readings.collect()
    assert values(found["enforced"]) == {"run_timeout": 1, "schedule_to_start": 3, "timer_fired": 1}
    lateness = found["lateness"]
    assert {kind: (point.count, point.sum) for kind, point in lateness.items()} == {
        "run_timeout": (1, 2.0),
        "schedule_to_start": (3, 6.0),
        "timer_fired": (1, 2.0),
    }
    assert 0.05 in lateness["run_timeout"].explicit_bounds
    assert set(found["pass.duration"]) == {"busy"}
    await watchdog.run_pass()
    assert {kind: point.count for kind, point in readings.collect()["pass.duration"].items()} == {
        "busy": 1,
        "idle": 1,
    }


async def test_open_deadlines_are_counted_when_somebody_collects(stage: Stage, readings: Readings) -> None:
    watchdog = watchdog_of(stage, readings)
    run_id = await stage.start(StartOptions(execution_timeout=100))
    await stage.start()
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=5), number=2)
    await stage.schedule(run_id, ActivityOptions(schedule_to_close_timeout=5), number=3)
    await stage.set_timer(run_id, 10, number=4)
    await watchdog.run_pass()
    assert "open_deadlines" not in readings.collect(), "nobody had asked before"
    await watchdog.run_pass()
    assert values(readings.collect()["open_deadlines"]) == {
        "runs": 1,
        "activities": 3,
        "timers": 4,
        "schedules": 0,
        "alerts": 0,
    }
    stage.clock.advance(5)
    await watchdog.run_pass()
    await watchdog.run_pass()
    assert values(readings.collect()["open_deadlines"]) == {
        "runs": 1,
        "activities": 0,
        "timers": 4,
        "schedules": 0,
        "alerts": 0,
    }


async def test_they_are_counted_once_for_a_collection(
    memory_stage: Stage, readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []

    def counting(connection: Any) -> dict[str, int]:
        counted.append(connection)
        return count_open(connection)

    monkeypatch.setattr("outlast_watchdog.watchdog.count_open", counting)
    watchdog = watchdog_of(memory_stage, readings)
    for _ in range(5):
        await watchdog.run_pass()
    assert not counted, "nobody collects"
    readings.collect()
    for _ in range(5):
        await watchdog.run_pass()
    assert len(counted) == 1


async def test_two_watchdogs_of_a_process_count_together_and_a_database_once(
    memory_stage: Stage, readings: Readings
) -> None:
    stage = memory_stage
    first = watchdog_of(stage, readings)
    second = TaskWatchdog(stage, meter_provider=readings.provider)
    await stage.start(StartOptions(run_timeout=10))
    run_id = await stage.start()
    await stage.set_timer(run_id, 60)
    stage.clock.advance(10)
    for watchdog in (first, second):
        await watchdog.run_pass()
    assert values(readings.collect()["enforced"]) == {"run_timeout": 1}
    for watchdog in (first, second):
        await watchdog.run_pass()
    assert values(readings.collect()["open_deadlines"])["timers"] == 1


async def test_what_a_dead_worker_held_is_counted(memory_stage: Stage, readings: Readings) -> None:
    stage = memory_stage
    watchdog = watchdog_of(stage, readings)
    await stage.register("gone")
    run_id = await stage.start(owner_id="gone")
    await stage.schedule(run_id, ActivityOptions(start_to_close_timeout=600), claimed_by="gone")
    await stage.prove_connection()
    stage.clock.advance(15)
    await watchdog.run_pass()
    assert values(readings.collect()["actions"]) == {
        "worker_lost": 1,
        "activity_rescued": 1,
        "run_released": 1,
    }


async def test_rows_set_aside_and_passes_that_were_skipped_or_failed(
    memory_stage: Stage, readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = memory_stage
    watchdog = watchdog_of(stage, readings)
    run_id = await stage.start()
    await stage.schedule(run_id, ActivityOptions(schedule_to_start_timeout=1))
    options = stage.activity(run_id, 1).options
    await stage.sql("UPDATE activity_executions SET options = '{'")
    stage.clock.advance(1)
    await watchdog.run_pass()
    stage.clock.us += 60 * SECOND
    assert (await watchdog.run_pass()).skipped
    with monkeypatch.context() as patched:

        async def unreachable(*_: object) -> None:
            raise StoreError("gone")

        patched.setattr(stage.runtime, "read", unreachable)
        with pytest.raises(StoreError):
            await watchdog.run_pass()
    await stage.sql("UPDATE activity_executions SET options = ?", options)
    found = readings.collect()
    assert values(found["set_aside"]) == {"": 1}
    assert set(found["pass.duration"]) == {"idle", "skipped", "failed"}


async def test_without_an_sdk_nothing_is_measured_and_nothing_is_asked(memory_stage: Stage) -> None:
    stage = memory_stage
    await stage.start(StartOptions(run_timeout=1))
    stage.clock.advance(1)
    assert (await TaskWatchdog(stage).run_pass()).done == 1
    assert watchdog_metrics() is watchdog_metrics()
    assert not watchdog_metrics().wants_open(stage.runtime)


def test_the_page_lists_each_metric_as_the_code_has_it() -> None:
    found = {
        (name, instrument, unit, tuple(re.findall(r"`(\w+)`", attributes)), what)
        for name, instrument, unit, attributes, what in ROW.findall(PAGE.read_text())
        if name.startswith("outlast.watchdog.")
    }
    assert found == {(one.name, one.instrument, one.unit, one.attributes, one.description) for one in METRICS}


def test_the_page_names_each_kind() -> None:
    text = PAGE.read_text()
    for kind in TimeoutKind:
        assert f"`{kind.value}`" in text
