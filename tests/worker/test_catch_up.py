"""Catching up: what others wrote is read once, and what is no longer ours is dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.run_rows import NOW
from tests.worker.cached import cached
from tests.worker.fakes import Notes
from tests.worker.test_cached_run import RECORD

from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.catch_up import CatchUp
from outlast_store.schema.rows import RequestRow
from outlast_workflow.errors import DamagedHistoryError, StoreUnreachableError
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.primitives.payloads import Payload

SIGNAL = SignalReceived("a", Payload.of([]), None).to_json().decode()


def update(input: str) -> RequestRow:
    return RequestRow("first", "update", "u-1", "run", "put", input, "open", None, None, NOW, None)


class Worker:
    """A cached run, what the database says of it, and what is done about it."""

    def __init__(self, **row: Any) -> None:
        self.notes = Notes()
        self.run = cached(owner_id="me", fence=1, last_seq=1, wake_at=None)
        self.run.run.last_seq = 2
        self.run.gap = True
        self.run.queued = True
        stored = self.run.run.copy()
        vars(stored).update(row)
        self.notes.reads = {
            "find_run": stored,
            "read_history": [(2, "SignalReceived", SIGNAL)],
            "find_waiting_updates": [],
        }
        self.woken: list[CachedRun] = []
        self.loaded: list[str] = []
        self.discarded: list[CachedRun] = []
        self.recorded: list[BaseException] = []
        self.settled: list[CachedRun] = []
        self.submitted: list[Any] = []

    async def catch_up(self) -> None:
        parts: dict[str, Any] = {
            "runtime": self.notes,
            "settings": SimpleNamespace(worker_id="me"),
            "cache": SimpleNamespace(runs={self.run.run_id: self.run}, discard=self.discarded.append),
            "tasks": SimpleNamespace(
                wake=self.woken.append, submit=lambda run, change: self.submitted.append(change)
            ),
            "query_answers": SimpleNamespace(settle=self.settled.append),
            "failures": SimpleNamespace(
                record=lambda run, error: self.recorded.append(error), rejection=lambda run: "inbox was read"
            ),
            "load": self.loaded.append,
        }
        await CatchUp(**parts).run(self.run)


async def test_events_that_others_wrote_wake_the_run() -> None:
    worker = Worker()
    await worker.catch_up()
    assert worker.woken == [worker.run]
    assert (worker.run.seen_seq, worker.run.gap, worker.run.queued) == (2, False, False)
    assert "find_waiting_updates" not in worker.notes.asked, "nothing waits there"


async def test_updates_are_read_only_where_the_inbox_has_changed() -> None:
    worker = Worker(inbox=1)
    worker.notes.reads["find_waiting_updates"] = [update('["tea"]')]
    await worker.catch_up()
    assert [(one.update_id, one.input.value) for one in worker.run.updates] == [("u-1", ["tea"])]
    assert worker.run.seen_inbox == 1


async def test_a_read_that_fails_is_made_again_later() -> None:
    worker = Worker()
    worker.notes.reads["read_history"] = StoreUnreachableError("nobody answers")
    await worker.catch_up()
    assert (worker.woken, worker.discarded, worker.run.queued) == ([], [], False)
    worker.notes.later.pop()()
    assert worker.woken == [worker.run]


@pytest.mark.parametrize(
    "row", [{"owner_id": "other"}, {"owner_id": None}, {"fence": 2}, {"closed_at": NOW, "status": "failed"}]
)
async def test_a_run_that_is_no_longer_ours_is_dropped(row: dict[str, Any]) -> None:
    worker = Worker(**row)
    await worker.catch_up()
    assert (worker.discarded, worker.woken) == ([worker.run], [])


async def test_a_run_that_is_gone_is_dropped() -> None:
    worker = Worker()
    worker.notes.reads["find_run"] = None
    await worker.catch_up()
    assert worker.discarded == [worker.run]


async def test_a_run_that_another_owner_has_worked_on_comes_back_by_replay() -> None:
    worker = Worker()
    worker.notes.reads["read_history"] = [(2, RECORD.type, RECORD.to_json().decode())]
    await worker.catch_up()
    assert (worker.discarded, worker.loaded) == ([worker.run], [worker.run.run_id])


async def test_a_run_with_a_workflow_task_in_flight_is_left_alone() -> None:
    worker = Worker()
    change: Any = object()
    worker.run.change = change
    await worker.catch_up()
    assert (worker.discarded, worker.woken, worker.run.seen_seq) == ([], [], 1)


@pytest.mark.parametrize("nonsense", ["{", "", "[]", "7", "{}"])
async def test_an_event_that_cannot_be_read_is_recorded(nonsense: str) -> None:
    worker = Worker()
    worker.notes.reads["read_history"] = [(2, "SignalReceived", nonsense)]
    await worker.catch_up()
    (error,) = worker.recorded
    assert isinstance(error, DamagedHistoryError)
    assert (error.run_id, error.seq) == (worker.run.run_id, 2)
    assert worker.discarded == [worker.run]


@pytest.mark.parametrize("nonsense", ["{", "", '{"$headers": {}}'])
async def test_an_update_that_cannot_be_read_is_recorded(nonsense: str) -> None:
    worker = Worker(inbox=1)
    worker.notes.reads["find_waiting_updates"] = [update(nonsense)]
    await worker.catch_up()
    (error,) = worker.recorded
    assert isinstance(error, DamagedHistoryError)
    assert "update u-1" in str(error)


async def test_a_call_for_nothing_new_settles_what_waited() -> None:
    worker = Worker(last_seq=1, wake_at=NOW)
    worker.run.run.last_seq, worker.run.gap = 1, False
    request: Any = object()
    worker.run.queries = [request]
    await worker.catch_up()
    assert (worker.woken, worker.settled) == ([], [worker.run])
    assert worker.submitted == ["inbox was read"], "its row must not wake it again"
