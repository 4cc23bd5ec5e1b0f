"""The restorer: which runs come back to memory, and what becomes of results whose run does not."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.run_rows import NOW, run_row
from tests.worker.cached import cached
from tests.worker.fakes import Notes

from outlast.worker.runs.loader import LoadingRun
from outlast.worker.runs.restorer import RunRestorer
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import JournalClosedError


class Restored:
    """A restorer whose worker serves the type ``Order``."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.late: list[Any] = []
        self.woken: list[Any] = []
        self.failed: list[BaseException] = []
        self.restored: list[str] = []
        self.later: list[tuple[int, Any]] = []
        self.evicted = 0
        self.served = SimpleNamespace(
            settings=SimpleNamespace(worker_id="me"),
            find=lambda type: object() if type == "Order" else None,
            stopping=False,
            serves=lambda kind, queue: kind == "Order",
            machine=lambda run: SimpleNamespace(evict=self._evict, run_id=run.run_id),
        )
        self.cache = SimpleNamespace(runs=OrderedDict(), trim=lambda: None)
        parts: dict[str, Any] = {
            "runtime": self.notes,
            "served": self.served,
            "cache": self.cache,
            "ready_queue": SimpleNamespace(
                enqueue=lambda action: action(), call_at=lambda at, action: self.later.append((at, action))
            ),
            "tasks": SimpleNamespace(
                wake=self.woken.append, failed=lambda run, error, seq: self.failed.append(error)
            ),
            "late_results": SimpleNamespace(commit=self.late.extend),
            "restored": self.restored.append,
        }
        self.restorer = RunRestorer(**parts)
        self.wanted: list[tuple[str, Any]] = []
        loader: Any = self.restorer.loader
        loader.load = lambda run_id, results=(): self.wanted.append((run_id, results))

    def _evict(self) -> None:
        self.evicted += 1

    def loaded(self, run: RunRow | None, *results: Any, stale: bool = False) -> None:
        """The loader has read a run, with results that wait for it."""
        run_id = run.run_id if run is not None else "gone"
        loading = LoadingRun(run_id, list(results))
        loading.found = (run, [(1, "Nonsense", "{}")]) if run is not None else None
        loading.stale = stale
        self.restorer.loader.under_way[run_id] = loading
        self.restorer._loaded(loading)


def ours(**columns: Any) -> RunRow:
    return run_row(1, created_at=NOW, **{"owner_id": "me", "fence": 1, "workflow_type": "Order", **columns})


RESULT = (SimpleNamespace(key=("run", 1, 1), row=SimpleNamespace(uncharged=0)), object())


def test_a_run_is_read_unless_it_is_cached_or_the_worker_stops() -> None:
    made = Restored()
    made.restorer.load("r-1")
    made.cache.runs["r-2"] = object()
    made.restorer.load("r-2")
    made.served.stopping = True
    made.restorer.load("r-3")
    assert made.wanted == [("r-1", ())]


def test_a_run_that_is_to_be_tried_later_is_read_then() -> None:
    made = Restored()
    made.restorer.load("r-1", at=NOW + 5)
    assert made.wanted == []
    ((at, action),) = made.later
    assert at == NOW + 5
    action()
    assert made.wanted == [("r-1", ())]


def test_a_new_run_is_cached_if_it_is_served_and_else_released() -> None:
    made = Restored()
    run = ours()
    adopted = made.restorer.adopt(run)
    assert adopted is made.cache.runs[run.run_id]
    assert made.restorer.adopt(ours(workflow_type="Other")) is None
    assert made.notes.changes == ["ReleaseRuns"]
    made.notes.closed = JournalClosedError()
    assert made.restorer.adopt(ours(workflow_type="Other")) is None, "a closed client is no error"


@pytest.mark.parametrize(
    "run",
    [None, ours(owner_id="other"), ours(owner_id=None), ours(closed_at=NOW, status="failed")],
    ids=["gone", "another's", "nobody's", "closed"],
)
def test_results_of_a_run_that_is_not_ours_are_committed_alone(run: RunRow | None) -> None:
    made = Restored()
    made.loaded(run, RESULT)
    assert made.late == [RESULT]
    assert not made.cache.runs
    assert made.restored == [run.run_id if run is not None else "gone"]


def test_a_run_whose_code_is_missing_is_released() -> None:
    made = Restored()
    made.loaded(ours(workflow_type="Other"), RESULT)
    assert made.notes.changes == ["ReleaseRuns"]
    assert made.late == [RESULT]


def test_what_was_written_to_since_is_read_again_and_its_results_wait() -> None:
    made = Restored()
    run = ours()
    made.loaded(run, RESULT, stale=True)
    assert made.wanted == [(run.run_id, [RESULT])]
    assert (made.late, made.restored) == ([], [])


def test_results_join_a_run_that_was_cached_meanwhile() -> None:
    made = Restored()
    run = cached()
    made.cache.runs[run.run_id] = run
    made.loaded(run.run, RESULT)
    assert [one.activity_id for one in run.own] == [1]
    assert made.woken == [run]
    assert made.late == []


def test_a_history_that_cannot_be_replayed_fails_the_task_and_leaves_nothing() -> None:
    made = Restored()
    made.loaded(ours(), RESULT)
    assert [type(error).__name__ for error in made.failed] == ["DamagedHistoryError"]
    assert made.evicted == 1
    assert made.late == [RESULT]
    assert not made.cache.runs
