"""The workflow cache keeps within its capacity and loses no result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.activities.running import running_row
from tests.worker.cached import cached

from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast_activities.task import ActivityTask
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.payloads import Payload

TASK = ActivityTask(running_row(ActivityOptions(start_to_close_timeout=1)), Payload.of(None), "w", "W", 1)
RESULT = (TASK, Payload.of("done"))


class Around:
    """What a cache reports to: the journal's cache of rows, and the late results."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.late: list[Any] = []
        rows = SimpleNamespace(forget=lambda runs, activities: self.forgotten.extend(runs))
        runtime: Any = SimpleNamespace(journal=SimpleNamespace(cache=rows))
        late_results: Any = SimpleNamespace(commit=self.late.extend)
        self.cache = RunCache(runtime, 2, late_results)

    def add(self, number: int, **columns: Any) -> CachedRun:
        run = cached(number, **columns)
        self.cache.runs[run.run_id] = run
        return run


@pytest.fixture
def around() -> Around:
    return Around()


def test_the_least_recently_used_idle_run_goes_first(around: Around) -> None:
    first, second, third = (around.add(number) for number in (1, 2, 3))
    around.cache.runs.move_to_end(first.run_id)
    around.cache.trim()
    assert list(around.cache.runs.values()) == [third, first]
    assert around.forgotten == [second.run_id]


def test_a_run_with_work_stays_however_full_the_cache_is(around: Around) -> None:
    for number in (1, 2, 3):
        around.add(number).queued = True
    around.cache.trim()
    assert len(around.cache.runs) == 3
    assert around.forgotten == []


def test_the_results_of_a_discarded_run_are_committed_alone(around: Around) -> None:
    run = around.add(1)
    run.add_result(*RESULT)
    around.cache.discard(run, [RESULT])
    assert around.late == [RESULT, RESULT]
    assert around.cache.runs == {}
    around.cache.discard(run)
    assert len(around.late) == 2, "each once"


def test_a_closed_run_has_no_use_for_results(around: Around) -> None:
    run = around.add(1, closed_at=1)
    run.add_result(*RESULT)
    around.cache.discard(run)
    assert around.late == []


def test_discarding_an_old_copy_leaves_the_new_one(around: Around) -> None:
    old = around.add(1)
    new = around.add(1)
    around.cache.discard(old)
    assert list(around.cache.runs.values()) == [new]


def test_clearing_leaves_what_is_being_committed(around: Around) -> None:
    busy, idle = around.add(1), around.add(2)
    change: Any = object()
    busy.change = change
    around.cache.clear()
    assert list(around.cache.runs.values()) == [busy]
    assert around.forgotten == [idle.run_id]
