"""Following runs by replay: what reads a history with the code that wrote it is kept, and goes on where it stood."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import ref

from outlast.runtime.runtime import Runtime
from outlast_store.reads.histories import read_history
from outlast_workflow.run.replay import Row

MOST_KEPT: Final = 16
"""How many runs are kept, unless something else is said."""

ROWS_AT_ONCE: Final = 1_000
"""How many events are read at a time."""


class Follower(Protocol):
    """What reads the history of one run.

    Attributes:
        seq: How far it was read.
    """

    seq: int

    def feed(self, rows: Iterable[Row]) -> None:
        """Go on with the next events, in order, without a gap."""
        ...

    def close(self) -> None:
        """Let go of the run."""
        ...


F = TypeVar("F", bound=Follower)


class _Kept(Generic[F]):
    """A run that is followed, by one reader at a time."""

    def __init__(self, follower: F) -> None:
        self.follower = follower
        self.lock = asyncio.Lock()


class Following(Generic[F]):
    """The runs of a database that were looked at last, so that the next look reads what is new.

    Args:
        runtime: The database.
        rows_at_once: How many events are fed at a time, between which other tasks have their turn.
        most_kept: How many runs are kept.
    """

    def __init__(
        self, runtime: Runtime, *, rows_at_once: int = ROWS_AT_ONCE, most_kept: int = MOST_KEPT
    ) -> None:
        # Who keeps this by its database must not keep the database by this.
        self._runtime = ref(runtime)
        self._rows_at_once = rows_at_once
        self.most_kept = most_kept
        self._kept: OrderedDict[Hashable, _Kept[F]] = OrderedDict()

    async def of(self, key: Hashable, run_id: str, make: Callable[[], F]) -> F:
        """Return what follows a run, having read its last event.

        Args:
            key: Who looks, and at which run: each key has a follower of its own.
            run_id: The run.
            make: Makes the follower, where none is kept.

        Raises:
            OutlastError: The history cannot be followed. The next look begins anew.
        """
        kept = self._kept.get(key)
        if kept is None:
            self._make_room()
            kept = self._kept[key] = _Kept(make())
        self._kept.move_to_end(key)
        async with kept.lock:
            try:
                await self._go_on(run_id, kept.follower)
            except Exception:
                # It stands in the middle of something.
                self.forget(key)
                raise
        return kept.follower

    def forget(self, key: Hashable) -> None:
        """Let go of a follower, if it is kept."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.follower.close()

    def close(self) -> None:
        """Let go of all."""
        for key in list(self._kept):
            self.forget(key)

    def _make_room(self) -> None:
        """Let go of the runs that nobody has looked at for longest."""
        idle = [key for key, kept in self._kept.items() if not kept.lock.locked()]
        for key in idle[: max(0, len(self._kept) + 1 - self.most_kept)]:
            self.forget(key)

    async def _go_on(self, run_id: str, follower: F) -> None:
        step, runtime = self._rows_at_once, self._runtime()
        assert runtime is not None, "who looks has the database"
        while True:
            rows: list[Any] = await runtime.read(read_history, run_id, follower.seq, ROWS_AT_ONCE)
            for begin in range(0, len(rows), step):
                follower.feed(rows[begin : begin + step])
                await asyncio.sleep(0)
            if len(rows) < ROWS_AT_ONCE:
                return
