"""The exporter: it sends the lifecycle events of runs to a sink, and keeps in mind how far it is.

History is its outbox. It looks for runs whose histories have more than was exported, replays those, sends the lifecycle
events of what is new, and then notes how far it is. When it dies in between, the next one sends the same events again,
with the same ids. So each event is sent at least once. Runs know nothing of it, and pay nothing for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from outlast import Client
from outlast_serverless.jq import Evaluator
from outlast_serverless.lifecycle.progress import (
    HELD_US,
    DueRun,
    ForgetExported,
    HoldSink,
    NoteExported,
    ReleaseSink,
    due_runs,
    finished_runs,
    new_runs,
    since_id,
)
from outlast_serverless.lifecycle.projection import Projection
from outlast_serverless.lifecycle.wanted import LifecycleEvents, Sink, SinkAwayError, SinkRefusedError
from outlast_store.reads.histories import read_history
from outlast_workflow.errors import JournalClosedError, OutlastError, StoreError

logger = logging.getLogger("outlast.serverless")

_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_RUNS_AT_ONCE: Final = 200
_ROWS_AT_ONCE: Final = 16
"""A workflow task of a document may be a thousand tasks, and so as many events."""
_MOST_KEPT: Final = 256
"""So many replays of open runs are kept, so that the next look reads what is new."""
_MARGIN_US: Final = 3_600_000_000
"""A run may become visible so long after its id was made: its start may wait in a transaction of a user."""
_NEAR_US: Final = 120_000_000
"""So far back new runs are looked for each time; the rest of the margin is looked through once a minute."""
_SWEEP_S: Final = 60.0
_RENEWED_S: Final = HELD_US / 4_000_000
"""How often an exporter says that it is still there."""


class _NotHeldError(Exception):
    """Another exporter holds the sink."""


class Exporter:
    """Sends lifecycle events to one sink.

    Args:
        client: The client.
        wanted: Which events, and what the sink is called.
        sink: The sink.
    """

    def __init__(self, client: Client, wanted: LifecycleEvents, sink: Sink) -> None:
        self._client = client
        self._wanted = wanted
        self._sink = sink
        self._evaluator = Evaluator()
        self._holder = client.runtime.environment.ids.next()
        self._kept: OrderedDict[str, Projection] = OrderedDict()
        self._stuck: dict[str, float] = {}
        self._swept_at: float | None = None
        self._held_at = 0.0
        self._sent = 0
        self._away = 0
        self._exporting = asyncio.Lock()

    async def begin(self) -> None:
        """Make the sink known: runs that are started from now on are told."""
        with contextlib.suppress(_NotHeldError):
            await self._hold()

    async def run(self) -> None:
        """Export until the client is closed."""
        while True:
            pause = _PAUSE_S
            try:
                await self.export()
                self._away = 0
            except JournalClosedError:
                return
            except SinkAwayError as error:
                self._tell(error)
                pause = min(_PAUSE_S * 2**self._away, _LONGEST_PAUSE_S)
            except StoreError as error:
                logger.warning("lifecycle events were not sent, and will be: %s", error)
            except Exception:
                logger.exception("lifecycle events were not sent, and will be")
                pause = _LONGEST_PAUSE_S
            await asyncio.sleep(pause)

    async def export_now(self) -> int:
        """Export what there is now; return how many events were sent. Where the sink takes nothing, the log says so."""
        try:
            return await self.export()
        except SinkAwayError as error:
            self._tell(error)
            return self._sent

    def _tell(self, error: SinkAwayError) -> None:
        """Log that events wait: when that begins, not each time."""
        self._away += 1
        if self._away == 1:
            logger.warning("lifecycle events wait for the sink %s: %s", self._wanted.name, error)

    async def close(self) -> None:
        """Let another exporter go on."""
        for run_id in list(self._kept):
            self._forget(run_id)
        self._evaluator.close()
        await self._sink.close()
        with contextlib.suppress(StoreError, JournalClosedError):
            await self._client.runtime.journal.apply(ReleaseSink(self._wanted.name, self._holder))

    async def export(self) -> int:
        """Export what there is now, unless another exporter holds the sink.

        Returns:
            How many events were sent.

        Raises:
            SinkAwayError: The sink takes nothing now. What was sent before is noted.
            StoreError: The database cannot be read or written.
        """
        async with self._exporting:
            self._sent = 0
            # Another exporter has taken the sink; what is not noted is its.
            with contextlib.suppress(_NotHeldError):
                await self._pass()
            return self._sent

    async def _pass(self) -> None:
        since = await self._hold()
        now = self._client.runtime.environment.clock.now()
        loop = asyncio.get_running_loop()
        whole = self._swept_at is None or loop.time() - self._swept_at >= _SWEEP_S
        near = since if whole else max(since, since_id(now - _NEAR_US))
        await self._each_due()
        while page := await self._page(new_runs, near):
            # The end of a run is there when the run that continues it is, and is to be told before.
            await self._each_due()
            await self._each(page)
            near = page[-1].run_id
        if whole:
            await self._sweep(since_id(now - _MARGIN_US))
            self._swept_at = loop.time()

    async def _hold(self) -> str:
        since = await self._client.runtime.journal.apply(HoldSink(self._wanted.name, self._holder))
        if since is None:
            raise _NotHeldError
        self._held_at = asyncio.get_running_loop().time()
        return since

    async def _keep(self) -> None:
        """Renew the hold where it is time to."""
        if asyncio.get_running_loop().time() - self._held_at >= _RENEWED_S:
            await self._hold()

    async def _page(self, question: Callable[..., list[DueRun]], after: str) -> list[DueRun]:
        return await self._client.runtime.read(question, self._wanted.name, after, _RUNS_AT_ONCE)

    async def _each_due(self) -> None:
        after = ""
        while page := await self._page(due_runs, after):
            await self._each(page)
            after = page[-1].run_id

    async def _each(self, runs: Sequence[DueRun]) -> None:
        for run in runs:
            await self._keep()
            await self._one(run)

    async def _one(self, run: DueRun) -> None:
        """Export what is new of one run."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._stuck.get(run.run_id, 0.0):
            return
        try:
            await self._told(run)
        except (StoreError, SinkAwayError, JournalClosedError, _NotHeldError):
            self._forget(run.run_id)
            raise
        except (OutlastError, SinkRefusedError) as error:
            self._forget(run.run_id)
            if run.run_id not in self._stuck:
                logger.error(
                    "the lifecycle events of workflow %s wait: the sink %s cannot have them: %s",
                    run.workflow_id,
                    self._wanted.name,
                    error,
                )
            self._stuck[run.run_id] = loop.time() + _LONGEST_PAUSE_S
            # It is known from now on, however long it takes.
            await self._client.runtime.journal.apply(NoteExported(self._wanted.name, run.run_id, run.seq))
            return
        self._stuck.pop(run.run_id, None)
        if run.closed_at is not None:
            self._forget(run.run_id)

    async def _told(self, run: DueRun) -> None:
        projection, read = self._projection(run)
        noted = run.seq
        while rows := await self._client.runtime.read(read_history, run.run_id, read, _ROWS_AT_ONCE):
            projection.feed(rows, run.closed_at)
            read = rows[-1][0]
            events = projection.taken(noted)
            if events:
                await self._sink.send(events)
                self._sent += len(events)
            if events or len(rows) < _ROWS_AT_ONCE:
                noted = max(noted, projection.settled)
                await self._client.runtime.journal.apply(NoteExported(self._wanted.name, run.run_id, noted))
            if len(rows) < _ROWS_AT_ONCE:
                break
            await self._keep()

    def _projection(self, run: DueRun) -> tuple[Projection, int]:
        """Return the projection of a run, and up to which event it has read."""
        kept = self._kept.get(run.run_id)
        if kept is not None and kept.settled == run.seq:
            self._kept.move_to_end(run.run_id)
            return kept, kept.seq
        self._forget(run.run_id)
        while len(self._kept) >= _MOST_KEPT:
            self._forget(next(iter(self._kept)))
        made = Projection(run, self._client.converter, self._evaluator, tasks=self._wanted.tasks)
        self._kept[run.run_id] = made
        return made, 0

    def _forget(self, run_id: str) -> None:
        kept = self._kept.pop(run_id, None)
        if kept is not None:
            kept.close()

    async def _sweep(self, since: str) -> None:
        """Forget runs that have ended and were exported, once nothing can bring them to light again."""
        runtime, name = self._client.runtime, self._wanted.name
        while True:
            finished = await runtime.read(finished_runs, name, since, _RUNS_AT_ONCE)
            await runtime.journal.apply(ForgetExported(name, since, finished))
            if len(finished) < _RUNS_AT_ONCE:
                return


class Exporters:
    """The exporters of one runtime.

    Args:
        make: Makes them, once they are needed.
    """

    def __init__(self, make: Callable[[], list[Exporter]]) -> None:
        self._make = make
        self._made: list[Exporter] | None = None
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to export: what is started from now on is told."""
        for one in self._exporters():
            await one.begin()
        self._running = [
            asyncio.create_task(one.run(), name="outlast serverless exporter") for one in self._exporters()
        ]

    async def export(self) -> int:
        """Export what there is now; return how many events were sent."""
        return sum([await one.export_now() for one in self._exporters()])

    async def close(self) -> None:
        """Stop exporting. What waits is left to others, or to the next start."""
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        made, self._made = self._made, None
        for one in made or ():
            await one.close()

    def _exporters(self) -> list[Exporter]:
        if self._made is None:
            self._made = self._make()
        return self._made
