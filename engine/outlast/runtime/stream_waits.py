"""Who waits for items of streams in this process, and what wakes them.

The journal reports what this process writes. What other processes write is found when the notifier announces a commit:
one query covers all streams that somebody waits for. A reader that is woken looks for itself, so waking it once too
often costs a look and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from outlast.runtime.unserved_waits import UnservedWaits
from outlast_store.journal.commit_news import Committed
from outlast_store.journal.journal import Journal
from outlast_store.reads.runs import find_ended_runs
from outlast_store.reads.streams import find_versions
from outlast_store.schema.rows import StreamKey
from outlast_workflow.errors import JournalClosedError

MOST_ASKED: Final = 200
"""How many streams or runs one query asks about."""


class StreamWait:
    """One reader that waits.

    Attributes:
        key: The stream.
        run_id: The last run of its chain, as far as the reader knows.
        news: Set when there may be something to read.
    """

    __slots__ = ("key", "news", "run_id")

    def __init__(self, key: StreamKey, run_id: str) -> None:
        self.key = key
        self.run_id = run_id
        self.news = asyncio.Event()


class StreamWaits:
    """The readers of one process that wait.

    Args:
        journal: Reports what this process writes.
        read: Reads the database.
        watch: Makes sure that :meth:`poll` is called when other processes may have written.
        unserved: Looks after waits that no worker could end.
    """

    def __init__(
        self,
        journal: Journal,
        read: Callable[..., Awaitable[Any]],
        watch: Callable[[], None],
        unserved: UnservedWaits,
    ) -> None:
        self._journal = journal
        self._read = read
        self._watch = watch
        self._unserved = unserved
        self._waits: dict[StreamWait, None] = {}
        """In the order in which they began, which is the order in which they are woken."""
        self._versions: dict[StreamKey, int] = {}
        """The versions that the last poll found, of the streams that were awaited then."""
        self._closed = False

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waits)

    @property
    def awaited_runs(self) -> set[str]:
        """The runs from which somebody waits for items."""
        return {wait.run_id for wait in self._waits}

    @contextmanager
    def waiting(self, key: StreamKey, run_id: str) -> Generator[StreamWait]:
        """Wait for news of a stream within the block.

        Args:
            key: The stream.
            run_id: A run of its chain, whose end is news as well.

        Raises:
            JournalClosedError: The last client has been closed.
        """
        if self._closed:
            raise JournalClosedError
        wait = StreamWait(key, run_id)
        if not self._waits:
            self._journal.subscribe(self.on_commit)
        self._waits[wait] = None
        self._watch()
        if not self._unserved.armed:
            self._unserved.arm(run_id)
        try:
            yield wait
        finally:
            del self._waits[wait]
            if not self._waits and not self._closed:
                self._journal.unsubscribe(self.on_commit)
                self._versions.clear()

    def on_commit(self, committed: Committed) -> None:
        """Wake the readers of what this process has written."""
        ended = {run_id for run_id, run in committed.runs.items() if run.closed_at is not None}
        if not committed.streams and not ended:
            return
        for wait in self._waits:
            if wait.key in committed.streams or wait.run_id in ended:
                wait.news.set()

    async def poll(self) -> None:
        """Look for what other processes have written."""
        waits = tuple(self._waits)
        keys = sorted({wait.key for wait in waits})
        versions: dict[StreamKey, int] = {}
        for start in range(0, len(keys), MOST_ASKED):
            versions.update(await self._read(find_versions, keys[start : start + MOST_ASKED]))
        before, self._versions = self._versions, versions
        run_ids = sorted({wait.run_id for wait in waits})
        ended: set[str] = set()
        for start in range(0, len(run_ids), MOST_ASKED):
            ended.update(await self._read(find_ended_runs, run_ids[start : start + MOST_ASKED]))
        for wait in waits:
            if versions.get(wait.key) != before.get(wait.key) or wait.run_id in ended:
                wait.news.set()

    def close(self) -> None:
        """Wake all who wait; they fail because the client is closed."""
        self._closed = True
        for wait in self._waits:
            wait.news.set()
