"""The loader reads each wanted run once, hands results on, and says what is stale."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.engine.run_rows import NOW, run_row

from outlast.worker.runs import loader as loaders
from outlast.worker.runs.loader import LoadingRun, RunLoader
from outlast_workflow.errors import StoreUnreachableError


class Reads:
    """A runtime whose reads a test answers."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.fails = 0
        self.loaded: list[LoadingRun] = []
        self.unread: list[Any] = []
        self.again: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        runtime: Any = SimpleNamespace(
            read=self.read,
            task=self.task,
            loop=SimpleNamespace(call_later=lambda delay, load, run_id: self.again.append(run_id)),
        )
        self.two_loaded = asyncio.Event()
        self.loader = RunLoader(runtime, self.on_loaded, self.unread.extend)

    def on_loaded(self, loading: LoadingRun) -> None:
        self.loaded.append(loading)
        if len(self.loaded) == 2:
            self.two_loaded.set()

    def task(self, work: Any, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def read(self, query: Any, run_ids: list[str]) -> dict[str, Any]:
        self.asked.append(run_ids)
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            raise StoreUnreachableError("nobody answers")
        return {run_id: (run_row(1, created_at=NOW, run_id=run_id), []) for run_id in run_ids}

    async def all_read(self) -> None:
        await asyncio.gather(*self.tasks)


def result() -> Any:
    return object()


async def test_runs_wanted_together_are_read_together() -> None:
    reads = Reads()
    for run_id in ("a", "b", "a"):
        reads.loader.load(run_id)
    await reads.all_read()
    assert reads.asked == [["a", "b"]]
    assert [loading.run_id for loading in reads.loaded] == ["a", "b"]


async def test_results_wait_with_their_run() -> None:
    reads = Reads()
    first, second = result(), result()
    reads.loader.load("a", [first])
    reads.loader.load("a", [second])
    await reads.all_read()
    assert reads.loaded[0].results == [first, second]


async def test_a_run_wanted_again_before_it_is_finished_is_stale() -> None:
    reads = Reads()
    reads.loader.load("a")
    await reads.all_read()
    (loading,) = reads.loaded
    reads.loader.load("a")
    await reads.all_read()
    assert reads.asked == [["a"]], "it is not read twice at a time"
    assert not reads.loader.finish(loading)
    assert reads.loader.under_way == {}


async def test_what_cannot_be_read_is_read_again_and_its_results_are_not_kept() -> None:
    reads = Reads()
    reads.fails = 1
    waiting = result()
    reads.loader.load("a", [waiting])
    await reads.all_read()
    assert (reads.again, reads.unread, reads.loader.under_way) == (["a"], [waiting], {})


async def test_a_run_that_the_claim_has_read_is_not_read_again() -> None:
    reads = Reads()
    waiting = result()
    run = run_row(1, created_at=NOW, run_id="a")
    reads.loader.hand_in((run, []))
    assert reads.loaded[0].found == (run, [])
    reads.loader.hand_in((run, []))
    assert len(reads.loaded) == 1, "it is under way"
    reads.loader.load("b", [waiting])
    reads.loader.stop()
    assert reads.unread == [waiting]


async def test_no_more_runs_are_under_way_than_may_be(monkeypatch: Any) -> None:
    monkeypatch.setattr(loaders, "MOST_LOADING", 2)
    reads = Reads()
    for run_id in "abc":
        reads.loader.load(run_id)
    await asyncio.wait_for(reads.two_loaded.wait(), 30)
    assert reads.asked == [["a", "b"]]
    assert reads.loader.finish(reads.loaded[0])
    await reads.all_read()
    assert reads.asked == [["a", "b"], ["c"]]
