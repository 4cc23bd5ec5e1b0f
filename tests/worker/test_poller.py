"""The poller: one look at a time, no news missed, and each kind of work goes to whoever does it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worker.fakes import Notes

from outlast.worker.poller import WorkPoller
from outlast_store.reads.workers import WaitingWork
from outlast_workflow.errors import StoreUnreachableError


class Polled:
    """A poller, and what it found work for."""

    def __init__(self, *found: Any) -> None:
        self.notes = Notes()
        self.found = list(found)
        self.done: list[Any] = []
        self.attempts: list[Any] = []
        self.notes.reads = {"poll_work": self._next, "next_claimable_at": None}

        async def poll_queries(queues: Any, types: Any) -> None:
            self.done.append("queries")

        owner: Any = SimpleNamespace(
            types=frozenset({"Order"}),
            refresh=lambda run_id: self.done.append(("refresh", run_id)),
            run_claimer=SimpleNamespace(
                claim=lambda: self.done.append("claim"), steal=lambda ids: self.done.append(("steal", ids))
            ),
            query_answers=SimpleNamespace(poll=poll_queries),
        )
        dispatcher: Any = SimpleNamespace(
            queued=SimpleNamespace(expect=lambda at: self.done.append(("activity", at))),
            local=SimpleNamespace(expect=lambda at: self.done.append(("local", at))),
            attempts_under_way=lambda: self.attempts,
            stop_unwanted=self._stop_unwanted,
        )
        settings: Any = SimpleNamespace(worker_id="me", task_queues=("default",))
        runtime: Any = self.notes
        self.poller = WorkPoller(runtime, settings, owner, dispatcher, ["add"])

    async def _stop_unwanted(self, attempts: Any) -> None:
        self.done.append(("stop", attempts))

    def _next(self) -> WaitingWork:
        found = self.found.pop(0) if self.found else WaitingWork()
        if isinstance(found, BaseException):
            raise found
        return found

    async def settle(self) -> None:
        while any(not task.done() for task in self.notes.tasks):
            await asyncio.gather(*self.notes.tasks)

    @property
    def looks(self) -> int:
        return self.notes.asked.count("poll_work")


async def test_each_kind_of_work_goes_to_whoever_does_it() -> None:
    work = WaitingWork(claimable=True, awake=["r-1", "r-2"], neglected=["r-3"], asked=True)
    work.next_activity, work.next_local = 5, 6
    polled = Polled(work)
    polled.poller.start()
    await polled.settle()
    expected = ["claim", "queries", ("refresh", "r-1"), ("refresh", "r-2"), ("steal", ["r-3"])]
    assert polled.done == [*expected, ("activity", 5), ("local", 6)]


async def test_attempts_are_looked_at_if_some_are_not_to_go_on() -> None:
    for wanted, done in ((2, []), (1, [("stop", ["a-1", "a-2"])])):
        polled = Polled(WaitingWork(wanted=wanted))
        polled.attempts = ["a-1", "a-2"]
        polled.poller.start()
        await polled.settle()
        assert polled.done == done


async def test_notifications_during_a_poll_are_one_more_poll() -> None:
    polled = Polled()
    polled.poller.start()
    await asyncio.sleep(0)
    for _ in range(5):
        polled.poller.poll()
    await polled.settle()
    assert polled.looks == 2
    assert len(polled.notes.tasks) == 1


async def test_a_poll_that_fails_ends_nothing() -> None:
    polled = Polled(StoreUnreachableError("nobody answers"), WaitingWork(awake=["r-1"]))
    polled.poller.start()
    await polled.settle()
    assert polled.done == []
    polled.poller.poll()
    await polled.settle()
    assert polled.done == [("refresh", "r-1")]


async def test_it_rests_while_it_is_paused_and_looks_when_it_is_resumed() -> None:
    polled = Polled()
    polled.poller.poll()
    assert polled.notes.tasks == [], "not before it is started"
    polled.poller.start()
    await polled.settle()
    polled.poller.pause()
    polled.poller.poll()
    await polled.settle()
    assert polled.looks == 1
    polled.poller.resume()
    await polled.settle()
    assert polled.looks == 2


async def test_it_is_told_of_nothing_once_it_is_stopped() -> None:
    polled = Polled()
    polled.poller.start()
    assert polled.notes.listeners == [polled.poller.poll]
    polled.poller.stop()
    polled.poller.cancel()
    assert polled.notes.listeners == []
    with pytest.raises(asyncio.CancelledError):
        await polled.notes.tasks[0]
