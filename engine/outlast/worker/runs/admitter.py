"""The admitter: lets runs and activities out of the lines of queues, as far as this worker and the queues have room.

It looks at a queue when this process has put something in its line, when something of it has ended here, when another
process may have written, when a rate allows the next admission or a retry is due, and once a second as the poller does
for everything. A look is one change (:mod:`outlast_runs.admission`). The worker's room for runs is that of its claims:
no more runs than free activity slots, less those that were claimed and are not running yet. Its room for activities is
its free slots. A look reserves them, so it gets them only where activities are known to stand in line.

Where more partitions have a line than one look sees and none of them has room, the looks go on around the rotation. A
whole rotation that admitted nothing is followed by a pause of ten times as long as it took, so that however many
partitions are full, it costs at most a tenth of a core. The pause is short where one look saw all. What other processes
write in the meantime is looked at when it ends. News of this process ends it, too; but where a rotation of many looks
found all partitions full, they only let the partition be looked at that they are about.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.claimer import MOST_ACTIVITIES_CLAIMED
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.claimer import MOST_RUNS_CLAIMED, RunClaimer
from outlast.worker.runs.loader import RunLoader
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.settings import WorkerSettings
from outlast_runs.admission import Admission, AdmitFromQueue, Position, Taker
from outlast_store.queues.lines import Kind
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.errors import StoreError
from outlast_workflow.primitives.enums import ActivityStatus

logger = logging.getLogger("outlast.worker")

LOOK_AGAIN_AFTER_S: Final = 0.02
"""How long to wait while another transaction holds a gate."""
JITTER: Final = 0.5
"""By which part of itself that wait varies."""
PAUSE_PER_ROTATION: Final = 10
"""How many times as long as a rotation that admitted nothing the pause after it is."""
LONGEST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_AFTER_ONE_S: Final = 0.02
"""The same, where one look was the whole rotation."""
MOST_HINTS: Final = 20
"""How many partitions of which there are news one look is told. The rotation finds the others."""


class _Line:
    """What the admitter knows of one queue."""

    __slots__ = (
        "again",
        "began_at",
        "failed",
        "full",
        "has_activities",
        "hints",
        "looks",
        "paused_until",
        "position",
        "timer",
        "waking",
    )

    def __init__(self) -> None:
        self.again = False
        """Whether there was news during the look that is under way."""
        self.has_activities = False
        """Whether activities are known to stand in it."""
        self.position: Position | None = None
        self.began_at = 0.0
        """When the rotation began."""
        self.looks = 0
        """How many looks it has had."""
        self.failed = False
        """Whether the last look failed."""
        self.paused_until = 0.0
        self.hints: dict[str, None] = {}
        """The partitions of which there are news since the latest look, in order."""
        self.full = False
        """Whether the latest rotation took many looks and found no partition with room."""
        self.timer: asyncio.TimerHandle | None = None
        self.waking: asyncio.TimerHandle | None = None
        """Looks again at the end of the pause, where there was a reason to look in it."""


class Admitter:
    """Admits from queues for one worker, and has runs loaded and activities started; one look at a time, in turns.

    Args:
        runtime: Where the admissions are written.
        settings: The worker's settings.
        types: The workflow types that the worker runs.
        dispatcher: Has the slots of activities, and starts those that were admitted.
        claimer: Knows how much room there is for runs.
        loader: Loads the runs that were admitted.
        ready_queue: Keeps what is due later.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        types: frozenset[str],
        dispatcher: ActivityDispatcher,
        claimer: RunClaimer,
        loader: RunLoader,
        ready_queue: ReadyQueue,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._types = types
        self._dispatcher = dispatcher
        self._claimer = claimer
        self._loader = loader
        self._ready_queue = ready_queue
        self._lines: dict[str, _Line] = {}
        self._turns: dict[str, None] = {}
        """The queues that are to be looked at, in order."""
        self._looking: str | None = None
        self._short_of: dict[Kind, dict[str, None]] = {Kind.RUN: {}, Kind.ACTIVITY: {}}
        """The queues that are to be looked at once there is room for such."""
        self._stopped = False
        claimer.on_room.append(self._has_room)
        dispatcher.on_queued = self.on_activity

    def on_commit(self, run: RunRow) -> None:
        """Look at the queue of a run that this process has written, if that may let somebody out of its line."""
        assert run.queue is not None
        if run.closed_at is not None or run.queued_at is not None:
            self.news(run.queue, run.partition_key or "")
        elif run.owner_id is None and run.slot_queue is not None and run.wake_at is not None:
            self._ready_queue.call_at(max(run.wake_at, run.not_before), partial(self.news, run.queue))

    def on_activity(self, row: ActivityRow) -> None:
        """Look at the queue of an activity that this process has written, if that may let something out of its line."""
        assert row.queue is not None
        if row.status == ActivityStatus.PENDING:
            self._line(row.queue).has_activities = True
        # A deferred attempt has left its worker.
        if row.status != ActivityStatus.RUNNING or row.claimed_by is None:
            self.news(row.queue, row.partition_key or "")

    def news(self, queue: str, partition: str | None = None) -> None:
        """Look at a queue in which something has changed.

        Args:
            queue: The queue.
            partition: The partition that it is about, if it is about one.
        """
        line = self._lines.get(queue)
        if line is not None:
            if partition is not None and len(line.hints) < MOST_HINTS:
                line.hints[partition] = None
            if partition is None or not line.full:
                line.paused_until = 0.0
        self.look(queue)

    def look(self, queue: str, *, activities: bool = False) -> None:
        """Admit from a queue what there is room for.

        Args:
            queue: The queue.
            activities: Whether activities are known to stand in its line.
        """
        queues = self._settings.queues
        if self._stopped or (queues is not None and queue not in queues):
            return
        line = self._line(queue)
        line.has_activities |= activities
        if queue == self._looking:
            # The look under way may have missed what is there now.
            line.again = True
        elif (left := line.paused_until - self._runtime.environment.clock.monotonic()) <= 0 or line.hints:
            self._turns[queue] = None
            self._look()
        elif line.waking is None:
            line.waking = self._runtime.loop.call_later(left, self._wake, queue, line)

    def _wake(self, queue: str, line: _Line) -> None:
        """Look at a queue at the end of its pause."""
        line.waking = None
        self.news(queue)

    def _line(self, queue: str) -> _Line:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = _Line()
        return line

    def _has_room(self, *, anyway: bool = False) -> None:
        """Look at the queues whose runs wait for room."""
        self._turns |= self._short_of[Kind.RUN]
        self._short_of[Kind.RUN].clear()
        self._look(anyway=anyway)

    def _has_slots(self) -> None:
        """Look at the queues whose activities wait for a slot."""
        self._turns |= self._short_of[Kind.ACTIVITY]
        self._short_of[Kind.ACTIVITY].clear()
        self._look()

    def _look(self, *, anyway: bool = False) -> None:
        """Look at the queue whose turn it is.

        Args:
            anyway: Whether to look although there is no room.
        """
        if self._looking is not None or not self._turns or self._stopped or self._claimer.paused:
            return
        runs = MOST_RUNS_CLAIMED if anyway and self._types else max(self._claimer.limit, 0)
        for queue in list(self._turns):
            del self._turns[queue]
            line = self._lines[queue]
            slots = self._dispatcher.take_slots(MOST_ACTIVITIES_CLAIMED) if line.has_activities else 0
            if runs or slots:
                self._submit(queue, line, runs, slots)
                return
            self._wait_for(Kind.RUN, queue)
            if line.has_activities:
                self._wait_for(Kind.ACTIVITY, queue)

    def _submit(self, queue: str, line: _Line, runs: int, slots: int) -> None:
        """Look at a queue.

        Args:
            queue: The queue.
            line: What is known of it.
            runs: How many runs there is room for.
            slots: How many slots were reserved for activities.
        """
        settings = self._settings
        self._looking = queue
        line.again = False
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        now = self._runtime.environment.clock.monotonic()
        hints = tuple(line.hints)
        line.hints.clear()
        only_hints = bool(hints) and line.full and now < line.paused_until
        if not only_hints:
            if line.waking is not None:
                line.waking.cancel()
                line.waking = None
            if line.position is None:
                line.began_at = now
                line.looks = 0
            line.looks += 1
        taker = Taker(
            settings.worker_id,
            sorted(settings.task_queues),
            workflows=self._types,
            activities=self._dispatcher.types,
            runs=runs,
            slots=slots,
        )
        change = AdmitFromQueue(queue, taker, line.position, hints=hints, only_hints=only_hints)
        self._runtime.journal.submit(change, partial(self._looked, change, line, slots))

    def _wait_for(self, kind: Kind, queue: str) -> None:
        """Look at a queue again once there is room for runs, or a slot for activities.

        Args:
            kind: Which of them.
            queue: The queue.
        """
        self._short_of[kind][queue] = None
        if kind is Kind.ACTIVITY:
            self._dispatcher.on_slots = self._has_slots
        elif self._types:
            self._claimer.wait_for_room()

    def _looked(
        self,
        change: AdmitFromQueue,
        line: _Line,
        slots: int,
        admission: Admission | None,
        error: BaseException | None,
    ) -> None:
        queue = change.queue
        self._looking = None
        if admission is None:
            line.position = None
            self._failed(queue, line, error)
        else:
            line.failed = False
            self._admitted(change, line, admission)
        self._dispatcher.start_admitted(admission.activities if admission is not None else (), slots)
        self._look()

    def _failed(self, queue: str, line: _Line, error: BaseException | None) -> None:
        """Look again in a while. Log why nothing can be admitted: once, where it is not the database that is away."""
        self._later(queue, line, LONGEST_PAUSE_S)
        if line.failed or isinstance(error, StoreError):
            logger.debug("nothing could be admitted from queue %s: %s", queue, error)
            return
        line.failed = True
        logger.error(
            "nothing can be admitted from queue %s, which is tried again every second: %s",
            queue,
            type(error).__name__,
            extra={"queue": queue},
            exc_info=error,
        )

    def _admitted(self, change: AdmitFromQueue, line: _Line, admission: Admission) -> None:
        queue = change.queue
        for run in admission.runs:
            self._claimer.arriving.add(run.run_id)
            history = admission.histories.get(run.run_id)
            if history is None:
                self._loader.load(run.run_id)
            else:
                self._loader.hand_in((run, history))
        if any(run.started_at is not None for run in admission.runs):
            # Local activities of runs that have begun before have waited for an owner.
            self._dispatcher.local.expect(self._runtime.environment.clock.now())
        line.position = admission.position
        self._note_kinds(queue, line, admission)
        if admission.busy:
            line.hints |= dict.fromkeys(change.hints)
            wait = LOOK_AGAIN_AFTER_S * (1 + JITTER * (self._runtime.environment.random.random() - 0.5))
            self._later(queue, line, wait)
        elif line.again or admission.more or line.position is not None:
            self._turns[queue] = None
        elif not change.only_hints:
            self._rest(queue, line, admission)

    def _note_kinds(self, queue: str, line: _Line, admission: Admission) -> None:
        """Note what stands in line; look again where there was no room for it, once there is."""
        for kind in admission.short_of:
            if kind is Kind.ACTIVITY and not line.has_activities:
                # It was not known before, so this look had no slots for it.
                self._turns[queue] = None
            else:
                self._wait_for(kind, queue)
        if admission.waiting is not None:
            line.has_activities = Kind.ACTIVITY in admission.waiting

    def _rest(self, queue: str, line: _Line, admission: Admission) -> None:
        """Wait for news, or until a rate allows the next admission."""
        clock = self._runtime.environment.clock
        line.full = not admission.count and admission.waiting is not None and line.looks > 1
        if not admission.count:
            now = clock.monotonic()
            longest = LONGEST_PAUSE_AFTER_ONE_S if line.looks == 1 else LONGEST_PAUSE_S
            line.paused_until = now + min(PAUSE_PER_ROTATION * (now - line.began_at), longest)
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
            for timer in (line.timer, line.waking):
                if timer is not None:
                    timer.cancel()
