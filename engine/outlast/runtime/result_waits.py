"""The ends of runs, on their way to the callers in this process that wait for a result.

The journal reports the runs that this process closes, with their terminal events, so nobody reads the database for
those. Runs that another process closes are found when the notifier announces a commit: one query covers all runs that
somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from outlast.runtime.unserved_waits import UnservedWaits
from outlast_store.journal.commit_news import Committed
from outlast_store.reads.histories import find_terminal_event
from outlast_store.reads.runs import find_ended_runs
from outlast_workflow.errors import DamagedHistoryError, JournalClosedError
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

MOST_RUNS_ASKED: Final = 500
"""How many runs one query asks about."""

Read = Callable[..., Awaitable[Any]]


class RunEnd:
    """The end of one run: its terminal event, once this process knows it.

    Attributes:
        run_id: The run.
        event: The terminal event.
    """

    __slots__ = ("__weakref__", "event", "run_id")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.event: Event | None = None


class RunEnds:
    """Who waits for the end of a run in this process.

    Args:
        read: Reads the database.
        is_owned_here: Tells whether a worker of this process owns a run, so that this process most likely closes it.
        watch: Makes sure that :meth:`poll` is called when other processes may have written.
        closed_elsewhere: Called with the id of each run that another process has closed.
        unserved: Looks after waits that no worker could end.
    """

    def __init__(
        self,
        read: Read,
        is_owned_here: Callable[[str], bool],
        watch: Callable[[], None],
        closed_elsewhere: Callable[[str], None],
        unserved: UnservedWaits,
    ) -> None:
        self._read = read
        self._is_owned_here = is_owned_here
        self._watch = watch
        self._closed_elsewhere = closed_elsewhere
        self._unserved = unserved
        self._ends: WeakValueDictionary[str, RunEnd] = WeakValueDictionary()
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._closed = False

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    @property
    def awaited_runs(self) -> set[str]:
        """The runs that somebody waits for."""
        return set(self._waiters)

    def subscribe(self, run_id: str) -> RunEnd:
        """Return where the end of a run is noted from now on, for as long as somebody holds it."""
        end = self._ends.get(run_id)
        if end is None:
            end = self._ends[run_id] = RunEnd(run_id)
        return end

    async def wait(self, end: RunEnd, *, look: bool = True) -> Event:
        """Wait until a run is closed, and return its terminal event.

        Args:
            end: Where its end is noted.
            look: Whether to look first if another process has closed it; a caller that has many runs polls once.

        Raises:
            RunNotFoundError: There is no such run.
            JournalClosedError: The last client was closed first.
        """
        if end.event is not None:
            return end.event
        if self._closed:
            raise JournalClosedError
        run_id = end.run_id
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiters.setdefault(run_id, [])
        waiting.append(future)
        self._watch()
        if not self._unserved.armed:
            self._unserved.arm(run_id)
        try:
            if look and not self._is_owned_here(run_id):
                event = await self._read(find_terminal_event, run_id)
                if event is not None:
                    return _terminal_event(run_id, *event)
            await future
        finally:
            waiting.remove(future)
            if not waiting and self._waiters.get(run_id) is waiting:
                del self._waiters[run_id]
        if end.event is None:
            event = await self._read(find_terminal_event, run_id)
            assert event is not None, "a closed run ends with its terminal event"
            end.event = _terminal_event(run_id, *event)
        return end.event

    def on_commit(self, committed: Committed) -> None:
        """Note the runs that this process has closed."""
        for run_id in committed.ended:
            end = self._ends.get(run_id)
            # A batch without events changed only the row of a run that was closed before.
            if end is not None and run_id in committed.events:
                end.event = committed.events[run_id][-1][1]
                self._wake(run_id)

    async def poll(self, *, everywhere: bool = False) -> None:
        """Look for runs that other processes have closed.

        Args:
            everywhere: Whether to look for runs that a worker of this process owns, too: a watchdog or a terminate call
                elsewhere can close those.
        """
        wanted = list(self._waiters)
        if not everywhere:
            wanted = [run_id for run_id in wanted if not self._is_owned_here(run_id)]
        for start in range(0, len(wanted), MOST_RUNS_ASKED):
            for run_id in await self._read(find_ended_runs, wanted[start : start + MOST_RUNS_ASKED]):
                self._closed_elsewhere(run_id)
                self._wake(run_id)

    def fail(self, run_id: str, error: BaseException) -> None:
        """Fail those who wait for a run now.

        Args:
            run_id: The run.
            error: Why waiting is in vain.
        """
        for future in self._waiters.get(run_id, ()):
            if not future.done():
                future.set_exception(error)

    def _wake(self, run_id: str) -> None:
        for future in self._waiters.get(run_id, ()):
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Wake all who wait: they read once more, and fail because the client is closed."""
        self._closed = True
        for run_id in tuple(self._waiters):
            self._wake(run_id)


def _terminal_event(run_id: str, kind: str, payload: str) -> Event:
    try:
        return events.from_json(kind, payload)
    except (KeyError, TypeError, ValueError):
        raise DamagedHistoryError(run_id, "last event") from None
