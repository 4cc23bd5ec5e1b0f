"""The run admitter: lets runs out of the lines of queues, as far as this worker and the queues have room.

It looks at a queue when this process has put a run in its line, when a run of it has ended here, when another process
may have written, when a rate allows the next admission, and once a second as the poller does for everything. A look is
one change (:mod:`outlast_runs.admission`). The worker's room is that of its claims: no more runs than free activity
slots, less those that were claimed and are not running yet.

Where more partitions have a line than one look sees and none of them has room, the looks go on around the rotation. A
whole rotation that admitted nothing is followed by a pause of ten times as long as it took, so that however many
partitions are full, it costs at most a tenth of a core.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.claimer import MOST_RUNS_CLAIMED, RunClaimer
from outlast.worker.runs.loader import RunLoader
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.settings import WorkerSettings
from outlast_runs.admission import Admission, AdmitRuns, Position
from outlast_store.schema.rows import RunRow

logger = logging.getLogger("outlast.worker")

LOOK_AGAIN_AFTER_S: Final = 0.02
"""How long to wait while another transaction holds a gate."""
JITTER: Final = 0.5
"""By which part of itself that wait varies."""
PAUSE_PER_ROTATION: Final = 10
"""How many times as long as a rotation that admitted nothing the pause after it is."""
LONGEST_PAUSE_S: Final = 1.0


class _Line:
    """What the admitter knows of one queue."""

    __slots__ = ("again", "began_at", "paused_until", "position", "timer")

    def __init__(self) -> None:
        self.again = False
        """Whether there was news during the look that is under way."""
        self.position: Position | None = None
        self.began_at = 0.0
        self.paused_until = 0.0
        self.timer: asyncio.TimerHandle | None = None


class RunAdmitter:
    """Admits runs of queues for one worker and has them loaded; one look at a time, the queues in turns.

    Args:
        runtime: Where the admissions are written.
        settings: The worker's settings.
        types: The workflow types that the worker runs.
        claimer: Knows how much room there is.
        loader: Loads what was admitted.
        ready_queue: Keeps what is due later.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        types: frozenset[str],
        claimer: RunClaimer,
        loader: RunLoader,
        ready_queue: ReadyQueue,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._types = types
        self._claimer = claimer
        self._loader = loader
        self._ready_queue = ready_queue
        self._lines: dict[str, _Line] = {}
        self._turns: dict[str, None] = {}
        """The queues that are to be looked at, in order."""
        self._looking: str | None = None
        self._stopped = False
        claimer.on_room.append(self._look)

    def on_commit(self, run: RunRow) -> None:
        """Look at the queue of a run that this process has written, if that may let somebody out of its line."""
        assert run.queue is not None
        if run.closed_at is not None or run.queued_at is not None:
            self.news(run.queue)
        elif run.owner_id is None and run.slot_queue is not None and run.wake_at is not None:
            self._ready_queue.call_at(max(run.wake_at, run.not_before), partial(self.news, run.queue))

    def news(self, queue: str) -> None:
        """Look at a queue in which something has changed."""
        line = self._lines.get(queue)
        if line is not None:
            line.paused_until = 0.0
        self.look(queue)

    def look(self, queue: str) -> None:
        """Admit from a queue what there is room for."""
        queues = self._settings.queues
        if self._stopped or (queues is not None and queue not in queues):
            return
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = _Line()
        if queue == self._looking:
            # The look under way may have missed what is there now.
            line.again = True
        elif self._runtime.environment.clock.monotonic() >= line.paused_until:
            self._turns[queue] = None
            self._look()

    def _look(self, *, anyway: bool = False) -> None:
        """Look at the queue whose turn it is.

        Args:
            anyway: Whether to look although there is no room.
        """
        if self._looking is not None or not self._turns or self._stopped or self._claimer.paused:
            return
        limit = MOST_RUNS_CLAIMED if anyway else self._claimer.limit
        if limit <= 0:
            self._claimer.wait_for_room()
            return
        queue = next(iter(self._turns))
        del self._turns[queue]
        self._looking = queue
        line, settings = self._lines[queue], self._settings
        line.again = False
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        if line.position is None:
            line.began_at = self._runtime.environment.clock.monotonic()
        change = AdmitRuns(
            queue, settings.worker_id, sorted(settings.task_queues), self._types, limit, line.position
        )
        self._runtime.journal.submit(change, partial(self._looked, queue, line))

    def _looked(
        self, queue: str, line: _Line, admission: Admission | None, error: BaseException | None
    ) -> None:
        self._looking = None
        if admission is None:
            line.position = None
            logger.debug("nothing could be admitted from queue %s: %s", queue, error)
        else:
            self._admitted(queue, line, admission)
        self._look()

    def _admitted(self, queue: str, line: _Line, admission: Admission) -> None:
        for run in admission.runs:
            self._claimer.arriving.add(run.run_id)
            history = admission.histories.get(run.run_id)
            if history is None:
                self._loader.load(run.run_id)
            else:
                self._loader.hand_in((run, history))
        line.position = admission.position
        if admission.busy:
            wait = LOOK_AGAIN_AFTER_S * (1 + JITTER * (self._runtime.environment.random.random() - 0.5))
            self._later(queue, line, wait)
        elif line.again or admission.more or line.position is not None:
            self._turns[queue] = None
        else:
            self._rest(queue, line, admission)

    def _rest(self, queue: str, line: _Line, admission: Admission) -> None:
        """Wait for news, or until a rate allows the next admission."""
        clock = self._runtime.environment.clock
        if not admission.runs:
            now = clock.monotonic()
            line.paused_until = now + min(PAUSE_PER_ROTATION * (now - line.began_at), LONGEST_PAUSE_S)
        if admission.next_at is not None:
            self._later(queue, line, max(admission.next_at - clock.now(), 0) / 1_000_000)

    def _later(self, queue: str, line: _Line, wait_s: float) -> None:
        if self._stopped:
            return
        if line.timer is not None:
            line.timer.cancel()
        line.timer = self._runtime.loop.call_later(wait_s, self.news, queue)

    def stop(self) -> None:
        """Admit nothing more."""
        self._stopped = True
        for line in self._lines.values():
            if line.timer is not None:
                line.timer.cancel()
