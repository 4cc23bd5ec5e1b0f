"""The ways in which the engine's tests are run.

normal:           one worker, whose runs stay in memory.
always_replay:    one worker, whose runs leave memory after each workflow task and come back by replay.
two_workers:      two workers share the queue: they start the runs in turn, and only one of them runs activities, so
                  that half of the results come from another worker.
double_delivery:  everything that notifies a worker is delivered twice: commits, notifications, and calls to refresh or
                  load a run; claims are made twice. Keyed signals and the ends of attempts are written twice, as by a
                  caller that did not receive the answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final, Self

import pytest

from outlast.runtime.runtime import Runtime
from outlast.testing import TestEnvironment
from outlast.worker.activities.claimer import ActivityClaimer
from outlast.worker.runs.claimer import RunClaimer
from outlast.worker.runs.loader import RunLoader
from outlast.worker.runs.owner import RunOwner
from outlast.worker.worker import Worker
from outlast_activities.changes import AttemptChange
from outlast_runs.signals import SendSignal
from outlast_store.journal.journal import Journal

MODES: Final = ("normal", "always_replay", "two_workers", "double_delivery")
EVERY_DAY: Final = {
    ("sqlite-file", "normal"),
    ("sqlite-memory", "always_replay"),
    ("postgresql", "two_workers"),
    ("sqlite-file", "double_delivery"),
}
"""The databases and modes of ``make test``: each mode once, each database at least once.

A mode changes what the engine does, a database what the store does, and hardly a bug needs one certain pair of them.
``make nightly`` does the other pairs. PostgreSQL has the mode that contends for claims and rows, for its locks are the
finer ones.
"""
IN_PLACE_OF: Final = {("postgresql", "two_workers"): ("postgresql", "normal")}
"""What ``make test`` does with a test that is not run in the mode of its database: no database is left out."""


def is_for_the_night(run_as: tuple[str, str], left_out: str | None = None) -> bool:
    """Whether ``make test`` leaves a database in a mode to ``make nightly``.

    Args:
        run_as: The database and the mode.
        left_out: The mode in which the test is never run, if there is one.
    """
    chosen = {
        IN_PLACE_OF.get((database, mode), (database, mode)) if mode == left_out else (database, mode)
        for database, mode in EVERY_DAY
    }
    return run_as not in chosen


class InTurn(list[Any]):
    """The workers of a process, of which each in turn comes first."""

    def __init__(self, workers: list[Any]) -> None:
        super().__init__(workers)
        self._turns = itertools.count()

    def __iter__(self) -> Iterator[Any]:
        first = next(self._turns) % max(len(self), 1)
        return iter([*self[first:], *self[:first]])


class TwoWorkers(TestEnvironment):
    """An environment with a second worker, which runs no activities."""

    other: Worker

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if not self._workflows:
            return self
        self.other = self.new_worker(workflows=self._workflows)
        await self.other.start()
        runtime = self.client.runtime
        runtime.workers = InTurn(runtime.workers)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            if self._workflows:
                await self.other.stop()
        finally:
            await super().__aexit__(*exc_info)


def deliver_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver everything twice that may be delivered twice."""
    subscribe, unsubscribe = Journal.subscribe, Journal.unsubscribe
    twins: dict[Any, Callable[[Any], None]] = {}

    def subscribe_twice(journal: Journal, listener: Callable[[Any], None]) -> None:
        def twice(committed: Any) -> None:
            listener(committed)
            listener(committed)

        twins[listener] = twice
        subscribe(journal, twice)

    def unsubscribe_both(journal: Journal, listener: Callable[[Any], None]) -> None:
        unsubscribe(journal, twins.pop(listener))

    monkeypatch.setattr(Journal, "subscribe", subscribe_twice)
    monkeypatch.setattr(Journal, "unsubscribe", unsubscribe_both)
    monkeypatch.setattr(Journal, "submit", _written_again(Journal.submit))
    for owner, name in ((Runtime, "_poll"), (RunOwner, "refresh"), (RunLoader, "load")):
        monkeypatch.setattr(owner, name, _doubled(getattr(owner, name)))
    monkeypatch.setattr(RunClaimer, "claim", _soon_again(RunClaimer.claim))
    monkeypatch.setattr(ActivityClaimer, "claim", _soon_again(ActivityClaimer.claim))


def _written_again(submit: Any) -> Any:
    """Submit again at once what a key or a claim token makes safe to repeat."""

    def twice(journal: Journal, change: Any, callback: Any) -> None:
        again = copy(change) if _is_safe(change) else None
        submit(journal, change, callback)
        if again is not None:
            submit(journal, again, lambda value, error: None)

    return twice


def _is_safe(change: Any) -> bool:
    return isinstance(change, AttemptChange) or (
        isinstance(change, SendSignal) and change.signal.request_id is not None
    )


def _doubled(method: Any) -> Any:
    def twice(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = method(self, *args, **kwargs)
        return (
            _both(first, method(self, *args, **kwargs))
            if first is not None
            else method(self, *args, **kwargs)
        )

    return twice


async def _both(first: Any, second: Any) -> None:
    await first
    await second


def _soon_again(method: Any) -> Any:
    """Call it again while the first call is being answered."""

    def twice(self: Any) -> None:
        method(self)
        asyncio.get_running_loop().call_soon(method, self)

    return twice
