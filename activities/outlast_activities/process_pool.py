"""Attempts of ``executor="process"``: a pool of other processes, started when first needed.

Processes are spawned, never forked: a program that uses them guards its main code by
``if __name__ == "__main__":``. There are as many as the machine has processors. Further attempts wait their turn, while
their deadlines run. If one of the processes dies (killed, out of memory), every attempt under way in the pool fails,
because it cannot be known which one was the cause. The next attempt gets a new pool.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

import orjson

from outlast_activities import process_child
from outlast_activities.attempt_outcome import HandlerOutcome, OutcomeEncoder
from outlast_activities.attempts import HANDED_BACK, AttemptEnd
from outlast_activities.context import Deferred, RunningActivity
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.process_child import MACHINE_CLOCK, REASONS, Order, Report, Sender, WrittenItem
from outlast_activities.stop_reason import StopReason
from outlast_activities.stream_buffers import StreamBuffers
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of, plain_failure
from outlast_workflow.errors import OutlastError
from outlast_workflow.history.events import Failure
from outlast_workflow.primitives.enums import AttemptOutcome, FailureCategory
from outlast_workflow.primitives.payloads import Payload

logger = logging.getLogger("outlast.activities")

_PLAIN = DataConverter()
"""The converter of the other processes. It has no codec: a codec and its keys stay in this process."""


class ProcessRunner:
    """Runs attempts in other processes.

    Args:
        outcomes: Makes outcomes; it has the converter and the limits.
        heartbeats: Gets the heartbeats from the other processes.
        streams: Gets what handlers there write to streams.
        slots: How many attempts may be under way at once.
        on_end: Called, from any thread, with the outcome of each.
    """

    def __init__(
        self,
        outcomes: OutcomeEncoder,
        heartbeats: Heartbeats,
        streams: StreamBuffers,
        *,
        slots: int,
        on_end: Callable[[RunningActivity, HandlerOutcome], None],
    ) -> None:
        self._outcomes = outcomes
        self._heartbeats = heartbeats
        self._streams = streams
        self._slots = slots
        self._on_end = on_end
        self._pool: Pool | None = None

    def start(self, running: RunningActivity) -> None:
        """Run an attempt; ``running.handle`` is its future."""
        try:
            order = self._order(running)
        except Exception as error:
            self._on_end(running, self._outcomes.unusable(error))
            return
        if self._pool is None or self._pool.broken:
            if self._pool is not None:
                self._pool.close()
            self._pool = Pool(self._outcomes, self._heartbeats, self._streams, self._slots, self._on_end)
        self._pool.start(running, order)

    def stop(self, running: RunningActivity, reason: StopReason) -> None:
        """Ask an attempt to stop; it notices when it checks.

        Args:
            running: The attempt.
            reason: Why.
        """
        if self._pool is not None:
            self._pool.stop(running, reason)

    def close(self) -> None:
        """End the processes and the attempts that still run in them."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _order(self, running: RunningActivity) -> Order:
        task, fn = running.task, running.definition.fn
        converter = self._outcomes.converter
        row = task.row
        if row.heartbeat_details is not None:
            details = converter.decode_args(Payload(row.heartbeat_details.encode()))
            row = row.copy()
            row.heartbeat_details = orjson.dumps(details).decode()
        arguments = orjson.dumps(converter.decode_args(task.input))
        return Order(
            0, 0, fn.__module__, fn.__qualname__, row, arguments, task.workflow_id, task.workflow_type
        )


class UnderWay:
    """An attempt in another process, how many of its items have arrived, and its report once it has ended."""

    __slots__ = ("items", "number", "report", "running")

    def __init__(self, number: int, running: RunningActivity) -> None:
        self.number = number
        self.running = running
        self.items = 0
        self.report: Report | None = None


class Pool:
    """One set of processes, with its pipe and its shared memory."""

    def __init__(
        self,
        outcomes: OutcomeEncoder,
        heartbeats: Heartbeats,
        streams: StreamBuffers,
        slots: int,
        on_end: Callable[[RunningActivity, HandlerOutcome], None],
    ) -> None:
        self.broken = False
        self._outcomes = outcomes
        self._heartbeats = heartbeats
        self._streams = streams
        self._on_end = on_end
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._free = list(range(slots))
        self._under_way: dict[int, UnderWay] = {}
        context = multiprocessing.get_context("spawn")
        self._flags: Any = context.RawArray("b", slots)
        self._incoming, self._outgoing = context.Pipe(duplex=False)
        self._stopped, self._stop = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            min(slots, os.cpu_count() or 1),
            mp_context=context,
            initializer=process_child.set_up,
            initargs=(Sender(self._outgoing, context.Lock()), self._flags, outcomes.limits),
        )
        self._listener = threading.Thread(target=self._listen, name="outlast-process-heartbeats", daemon=True)
        self._listener.start()

    def start(self, running: RunningActivity, order: Order) -> None:
        """Run an attempt in one of the processes."""
        with self._lock:
            order.place = place = self._free.pop()
            order.number = next(self._numbers)
            self._flags[place] = 0
            self._under_way[place] = UnderWay(order.number, running)
        try:
            future = self._executor.submit(process_child.run, order)
        except BrokenExecutor:
            self.broken = True
            self._release(place)
            # It never began.
            self._on_end(running, HANDED_BACK)
            return
        except BaseException:
            self._release(place)
            raise
        running.handle = future
        future.add_done_callback(lambda done: self._done(place, running, done))

    def stop(self, running: RunningActivity, reason: StopReason) -> None:
        """Set an attempt's byte."""
        with self._lock:
            for place, one in self._under_way.items():
                if one.running is running:
                    self._flags[place] = REASONS.index(reason) + 1
                    return

    def close(self) -> None:
        """End the processes."""
        under_way = bool(self._under_way)
        processes = list((getattr(self._executor, "_processes", None) or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        # Nobody takes what attempts under way would return, and they would keep this process from exiting.
        if under_way:
            for process in processes:
                process.terminate()
        # With this end closed the pipe ends with its processes, possibly half-way through a message.
        self._outgoing.close()
        self._stop.close()
        self._listener.join()
        self._incoming.close()
        self._stopped.close()

    def _release(self, place: int) -> None:
        with self._lock:
            del self._under_way[place]
            self._free.append(place)

    def _listen(self) -> None:
        """Read heartbeats until every writer is gone, or until everything is read and the pool is to stop."""
        while self._incoming in wait([self._incoming, self._stopped]):
            try:
                place, number, data, beat_s = self._incoming.recv()
            except (EOFError, OSError):
                return
            # A heartbeat that comes after the attempt's report is older than that report: it is dropped.
            with self._lock:
                known = self._under_way.get(place)
                if known is None or known.number != number:
                    continue
                if isinstance(data, WrittenItem):
                    self._write(known.running, data)
                    known.items += 1
                elif known.report is None:
                    self._record(known.running, tuple(orjson.loads(data)) if data is not None else (), beat_s)
                whole = known.report is not None and known.items == known.report.items
            if whole:
                self._reported(place, known)

    def _write(self, running: RunningActivity, item: WrittenItem) -> None:
        # The end of the attempt says what was refused. Nothing waits here: the lock is held.
        with suppress(OutlastError):
            self._streams.record(running.task, item.stream, orjson.loads(item.data), waits=False)

    def _record(self, running: RunningActivity, details: tuple[Any, ...], beat_s: float) -> None:
        ago_s = max(MACHINE_CLOCK.monotonic() - beat_s, 0.0)
        try:
            self._heartbeats.record(running.task, details, ago_s=ago_s)
        except Exception:
            logger.exception("a heartbeat of %r is lost", running.task)

    def _done(self, place: int, running: RunningActivity, future: Future[Report]) -> None:
        if future.cancelled():
            # The canceller reports its end.
            self._release(place)
            return
        error = future.exception()
        if error is None:
            with self._lock:
                known = self._under_way[place]
                known.report = report = future.result()
                # Items that are still in the pipe come before the end.
                whole = known.items == report.items
            if whole:
                self._reported(place, known)
            return
        self._release(place)
        if isinstance(error, BrokenExecutor):
            self.broken = True
            failure = plain_failure(
                FailureCategory.APPLICATION,
                "ProcessDied",
                "the process that ran the activity, or another of its pool, died: check whether it ran out of memory",
            )
        else:
            failure = failure_of(error, self._outcomes.converter)
        self._on_end(running, AttemptEnd(AttemptOutcome.FAILED, failure))

    def _reported(self, place: int, known: UnderWay) -> None:
        """Everything of an attempt has arrived."""
        self._release(place)
        assert known.report is not None
        self._on_end(known.running, self._outcome(known.running, known.report))

    def _outcome(self, running: RunningActivity, report: Report) -> HandlerOutcome:
        converter = self._outcomes.converter
        if report.result is not None:
            payload = Payload(report.result)
            return payload if converter.codec is None else converter.encode(_PLAIN.decode(payload))
        if report.details is not None:
            self._record(running, tuple(orjson.loads(report.details)), report.beat_s)
        assert report.end is not None
        if isinstance(report.end, Deferred):
            return report.end
        if report.end.failure is not None and converter.codec is not None:
            _encode_details(report.end.failure, converter)
        return report.end


def _encode_details(failure: Failure, converter: DataConverter) -> None:
    """Encode the details of a failure: they are user data, and the other process has no codec."""
    document: Failure | None = failure
    while document is not None:
        for name in ("details", "heartbeat_details"):
            if name in document:
                document[name] = converter.encode_args(_PLAIN.decode_args(Payload.of(document[name]))).value
        document = document.get("cause")
