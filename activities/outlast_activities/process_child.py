"""The child side of ``executor="process"``: what runs in the other process.

Only JSON, ids and instants cross the boundary. Heartbeats come back through one pipe, each with when the handler beat:
seconds of the machine's monotonic clock, which all its processes share. The request to stop, with its reason, is one
byte of shared memory per attempt, so that checking it costs nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from typing import Any

from outlast_activities.attempt_outcome import Completed, HandlerOutcome, OutcomeEncoder, let_go
from outlast_activities.attempts import AttemptEnd
from outlast_activities.context import CURRENT, Deferred, RunningActivity
from outlast_activities.definitions import found
from outlast_activities.stop_reason import StopReason
from outlast_activities.task import ActivityTask
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import SystemClock
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload

REASONS = tuple(StopReason)
MACHINE_CLOCK = SystemClock()


@dataclass(slots=True)
class Sender:
    """The writing end of the heartbeats' pipe, which the processes share by a lock.

    A process that is killed while it holds the lock keeps it forever, so the worker's side never waits for the lock.
    """

    pipe: Connection
    turn: Lock

    def put(self, item: Any) -> None:
        """Send an item under the lock."""
        with self.turn:
            self.pipe.send(item)


@dataclass(slots=True)
class Order:
    """An attempt to be run in the other process; ``place`` is its byte in the shared memory."""

    place: int
    number: int
    module: str
    qualname: str
    row: ActivityRow
    input: bytes
    workflow_id: str
    workflow_type: str


@dataclass(slots=True)
class WrittenItem:
    """An item of a stream, on its way through the heartbeats' pipe."""

    stream: str
    data: bytes


@dataclass(slots=True)
class Report:
    """The outcome of an attempt: a result or what came instead, and the newest heartbeat details with their instant.

    ``items`` says how many items of streams were sent through the pipe, which may arrive after this.
    """

    result: bytes | None
    end: AttemptEnd | Deferred | None
    details: bytes | None
    beat_s: float
    items: int


class Child:
    """What the child process keeps between attempts."""

    def __init__(self, sender: Sender, flags: Any, limits: StructuralLimits) -> None:
        self.sender = sender
        self.flags = flags
        self.limits = limits
        self.converter = DataConverter()
        self.outcomes = OutcomeEncoder(self.converter, limits)


class ChildHeartbeats:
    """Sends the heartbeats of one attempt to the worker."""

    def __init__(self, child: Child, order: Order) -> None:
        self._child = child
        self._order = order
        self.newest: bytes | None = None
        self.newest_s = 0.0

    def record(self, task: ActivityTask, details: tuple[Any, ...]) -> None:
        """See :meth:`outlast_activities.heartbeats.Heartbeats.record`."""
        beat_s = MACHINE_CLOCK.monotonic()
        data: bytes | None = None
        if details:
            data = self._child.converter.encode_args(details, None, "heartbeat").json
            self._child.limits.check("payload_bytes", len(data), whose=task.workflow_id)
            self.newest, self.newest_s = data, beat_s
        self._child.sender.put((self._order.place, self._order.number, data, beat_s))


class ChildStreams:
    """Sends the items of one attempt to the worker."""

    def __init__(self, child: Child, order: Order) -> None:
        self._child = child
        self._order = order
        self.count = 0

    def record(self, task: ActivityTask, name: str, value: Any) -> None:
        """See :meth:`outlast_activities.stream_buffers.StreamBuffers.record`."""
        data = self._child.converter.encode(value, f"an item of stream {name!r}").json
        self._child.limits.check("payload_bytes", len(data), whose=task.workflow_id)
        self._child.sender.put((self._order.place, self._order.number, WrittenItem(name, data), 0.0))
        self.count += 1

    async def drain(self, task: ActivityTask) -> None:
        """Do nothing: the pipe takes no more than the worker's process reads."""


class RunningChild(RunningActivity):
    """An attempt in the child process; the shared memory says whether it is to stop."""

    __slots__ = ("flags", "place")

    flags: Any
    place: int

    def raise_if_stopped(self) -> None:
        """See :class:`RunningActivity`."""
        self._read_flag()
        super().raise_if_stopped()

    def is_cancelled(self) -> bool:
        """See :class:`RunningActivity`."""
        self._read_flag()
        return super().is_cancelled()

    def _read_flag(self) -> None:
        code = self.flags[self.place]
        if code:
            self.stopped = REASONS[code - 1]


_child: Child | None = None


def set_up(sender: Sender, flags: Any, limits: StructuralLimits) -> None:
    """Set up a child process: it ignores Ctrl-C, which is the worker's to handle, and ends with the worker's process.

    Args:
        sender: Where heartbeats go.
        flags: The shared memory that says which attempts are to stop.
        limits: Their payload limit applies to results and details.
    """
    global _child
    _child = Child(sender, flags, limits)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, name="outlast-parent", daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run(order: Order) -> Report:
    """Run one attempt."""
    assert _child is not None, "set_up was not run"
    child = _child
    heartbeats, streams = ChildHeartbeats(child, order), ChildStreams(child, order)
    outcome = _run(child, order, heartbeats, streams)
    if isinstance(outcome, Payload):
        return Report(outcome.json, None, heartbeats.newest, heartbeats.newest_s, streams.count)
    assert not isinstance(outcome, Completed), "a process has no transactional activities"
    return Report(None, outcome, heartbeats.newest, heartbeats.newest_s, streams.count)


def _run(child: Child, order: Order, heartbeats: ChildHeartbeats, streams: ChildStreams) -> HandlerOutcome:
    running: RunningChild | None = None
    try:
        task = ActivityTask(order.row, Payload(order.input), order.workflow_id, order.workflow_type)
        definition = found(order.module, order.qualname)
        running = RunningChild(task, definition, child.converter, heartbeats, streams)
        running.flags, running.place = child.flags, order.place
        running.raise_if_stopped()
        CURRENT.set(running)
        try:
            args = child.converter.decode_args(task.input, definition.signature)
        except Exception as error:
            outcome: HandlerOutcome = child.outcomes.unusable(error)
            let_go(error)
        else:
            outcome = child.outcomes.returned(definition.fn(*args), running)
    except BaseException as error:
        outcome = child.outcomes.raised(error, running)
        let_go(error)
    finally:
        CURRENT.set(None)
    return outcome
