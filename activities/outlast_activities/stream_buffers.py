"""What attempts have written to streams, on its way to the database.

An item is written at once if its attempt has written none for :data:`GAP_S` seconds; what comes sooner is gathered and
written together. While a write is under way, more gathers, so a handler that is faster than the database writes ever
larger batches. Writes go through the journal. The end of an attempt waits for its items, so what an activity has
written is there before its result is. An attempt whose items were refused fails; one that may not write any more, as
its deadline has passed, has no result.

A plain handler that is too far ahead waits in ``write``. A coroutine cannot, and awaits ``drain`` instead.

An attempt that dies loses what was not written yet, and the next attempt writes again what this one wrote: items are
written at least once for each attempt that gets so far, and each names its attempt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from outlast_activities.attempt_outcome import HandlerOutcome, OutcomeEncoder
from outlast_activities.attempts import HANDED_BACK, AttemptEnd
from outlast_activities.heartbeats import Lost
from outlast_activities.stream_writes import WriteStreamItems
from outlast_activities.task import ActivityTask, AttemptKey
from outlast_store.journal.journal import Journal
from outlast_workflow.errors import JournalClosedError, StoreError, StructuralLimitError

logger = logging.getLogger("outlast.activities")

GAP_S: Final = 0.02
"""The shortest time between two writes of an attempt, unless :data:`ENOUGH_ITEMS` have gathered."""
ENOUGH_ITEMS: Final = 100
MOST_ITEMS_A_WRITE: Final = 1000
MOST_BYTES_A_WRITE: Final = 1024 * 1024
MOST_AHEAD: Final = 8 * 1024 * 1024
"""From so many bytes on that wait to be written, a plain handler waits."""
MOST_BUFFERED: Final = 64 * 1024 * 1024
"""So many bytes may wait where a handler cannot."""
ITEM_BYTES: Final = 100
"""What an item counts beside its value."""
RETRY_AFTER_S: Final = 0.5
LOOK_AGAIN_S: Final = 1.0
"""How often a handler that waits looks whether its worker is still there."""

Item = tuple[str, bytes]
"""A stream's name, and a value as JSON text."""


class Buffer:
    """The items of one attempt that are not known to be in the database."""

    __slots__ = (
        "drained",
        "end",
        "error",
        "flush_at",
        "gone",
        "in_flight",
        "lost",
        "planned",
        "size",
        "task",
        "waiting",
    )

    def __init__(self, task: ActivityTask) -> None:
        self.task = task
        self.waiting: list[Item] = []
        self.size = 0
        self.in_flight = 0
        self.planned = False
        self.flush_at = 0.0
        self.gone = False
        """Whether nobody takes its items any more: the attempt is lost, or the client closed."""
        self.lost = False
        """Whether the attempt may not write any more."""
        self.error: Exception | None = None
        """Why its items were refused."""
        self.end: Callable[[], None] | None = None
        """What follows once everything is written."""
        self.drained: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written."""
        return not self.waiting and not self.in_flight


class StreamBuffers:
    """The items of one worker's attempts. :meth:`record` may be called from any thread, the rest on the loop.

    Args:
        journal: Where they are written.
        outcomes: Encodes values; its limits apply.
        on_lost: Called, on the loop, with an attempt that may not write any more.
    """

    def __init__(self, journal: Journal, outcomes: OutcomeEncoder, on_lost: Callable[[Lost], None]) -> None:
        self._journal = journal
        self._outcomes = outcomes
        self._on_lost = on_lost
        self._loop = journal.loop
        self._loop_thread = threading.get_ident()
        self._room = threading.Condition()
        self.buffers: dict[AttemptKey, Buffer] = {}
        """By attempt."""

    # --- writing, from any thread -----------------------------------------------------------------------------------

    def record(self, task: ActivityTask, name: str, value: Any, *, waits: bool = True) -> None:
        """Take an item to be written.

        Args:
            task: The attempt.
            name: The stream.
            value: What is published.
            waits: Whether to wait where too much is on its way, if the caller is not on the loop.

        Raises:
            PayloadEncodeError: The value has no JSON form.
            StructuralLimitError: It is too large, or far too much is on its way.
            StreamClosedError: An earlier item was refused, because the stream is closed.
        """
        outcomes = self._outcomes
        data = outcomes.converter.encode(value, f"an item of stream {name!r}").json
        outcomes.limits.check("payload_bytes", len(data), whose=task.workflow_id)
        on_loop = threading.get_ident() == self._loop_thread
        with self._room:
            buffer = self.buffers.get(task.key)
            if buffer is None:
                buffer = self.buffers[task.key] = Buffer(task)
            if waits and not on_loop:
                while buffer.size > MOST_AHEAD and not (
                    buffer.gone or buffer.error or self._loop.is_closed()
                ):
                    self._room.wait(LOOK_AGAIN_S)
            if buffer.error is None and buffer.size > MOST_BUFFERED:
                buffer.error = _too_far_ahead(buffer.size)
            if buffer.error is not None:
                raise buffer.error
            if buffer.gone:
                return
            buffer.waiting.append((name, data))
            buffer.size += len(data) + ITEM_BYTES
            # One that is under way plans the next; a second plan comes where there is enough to write now.
            if buffer.in_flight or (buffer.planned and len(buffer.waiting) != ENOUGH_ITEMS):
                return
            buffer.planned = True
        if on_loop:
            self._loop.call_soon(self._plan, buffer)
        else:
            try:
                self._loop.call_soon_threadsafe(self._plan, buffer)
            except RuntimeError:
                logger.debug("an item of %r came after its worker", task)

    # --- writing, on the loop ---------------------------------------------------------------------------------------

    def _plan(self, buffer: Buffer) -> None:
        """Write now, or when the gap since the last write is over."""
        wait = buffer.flush_at - self._loop.time()
        if wait <= 0 or len(buffer.waiting) >= ENOUGH_ITEMS or buffer.end is not None or buffer.drained:
            self._flush(buffer)
        else:
            self._loop.call_later(wait, self._flush, buffer)

    def _flush(self, buffer: Buffer) -> None:
        if buffer.in_flight or buffer.gone:
            return
        with self._room:
            buffer.planned = False
            taken = _first_of(buffer.waiting)
            del buffer.waiting[: len(taken)]
        if not taken:
            return
        buffer.flush_at = self._loop.time() + GAP_S
        by_name: dict[str, list[bytes]] = {}
        for name, data in taken:
            by_name.setdefault(name, []).append(data)
        buffer.in_flight = len(by_name)
        task = buffer.task
        for name, values in by_name.items():
            stream = (task.first_run_id, name)
            change = WriteStreamItems(task.key, stream, values, self._outcomes.limits, task.workflow_id)
            try:
                self._journal.submit(change, partial(self._settled, buffer, name, values))
            except JournalClosedError as error:
                self._settled(buffer, name, values, None, error)

    def _settled(
        self,
        buffer: Buffer,
        name: str,
        values: Sequence[bytes],
        lost: Lost | None,
        error: BaseException | None,
    ) -> None:
        """A write has an outcome."""
        with self._room:
            buffer.in_flight -= 1
            if lost is not None:
                buffer.lost = buffer.gone = True
            elif isinstance(error, JournalClosedError):
                buffer.gone = True
            elif isinstance(error, StoreError):
                logger.warning("items of a stream could not be written and are written again: %s", error)
                buffer.waiting[:0] = [(name, data) for data in values]
                buffer.flush_at = self._loop.time() + RETRY_AFTER_S
            elif isinstance(error, Exception):
                buffer.error = error
            else:
                buffer.size -= sum(len(data) + ITEM_BYTES for data in values)
            if buffer.gone or buffer.error is not None:
                buffer.waiting.clear()
                buffer.size = 0
            again = bool(buffer.waiting) and not buffer.in_flight
            buffer.planned = again
            self._room.notify_all()
        if lost is not None:
            self._on_lost(lost)
        if again and isinstance(error, StoreError):
            self._loop.call_later(RETRY_AFTER_S, self._flush, buffer)
        elif again:
            self._plan(buffer)
        elif buffer.idle:
            self._settle(buffer)

    def _settle(self, buffer: Buffer) -> None:
        """Everything is written, or was refused."""
        waiting, buffer.drained = buffer.drained, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if buffer.end is not None:
            end, buffer.end = buffer.end, None
            end()

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def drain(self, task: ActivityTask) -> None:
        """Wait until everything that an attempt has written is in the database.

        Raises:
            StreamClosedError: Something was refused, because its stream is closed.
            StructuralLimitError: Something was refused, because the streams of the chain would become too large.
        """
        buffer = self.buffers.get(task.key)
        if buffer is None:
            return
        if not buffer.idle and not buffer.gone:
            future = self._loop.create_future()
            buffer.drained.append(future)
            self._plan(buffer)
            await future
        if buffer.error is not None:
            raise buffer.error

    def end(
        self,
        task: ActivityTask,
        outcome: HandlerOutcome,
        then: Callable[[ActivityTask, HandlerOutcome], None],
    ) -> None:
        """Write what an ended attempt has left, then pass on its outcome; it fails if something was refused.

        Args:
            task: The attempt.
            outcome: How its handler ended.
            then: Gets the outcome.
        """
        buffer = self.buffers.get(task.key)
        if buffer is None:
            then(task, outcome)
            return
        buffer.end = partial(self._ended, buffer, outcome, then)
        if buffer.idle or buffer.gone:
            self._settle(buffer)
        else:
            self._flush(buffer)

    def _ended(
        self, buffer: Buffer, outcome: HandlerOutcome, then: Callable[[ActivityTask, HandlerOutcome], None]
    ) -> None:
        self.buffers.pop(buffer.task.key, None)
        if buffer.error is not None and not isinstance(outcome, AttemptEnd):
            outcome = self._outcomes.unusable(buffer.error)
        elif buffer.lost and not isinstance(outcome, AttemptEnd):
            # Its deadline had passed when it wrote. If the clock was set back since, its result would be accepted.
            outcome = HANDED_BACK
        then(buffer.task, outcome)

    def forget(self, key: AttemptKey) -> None:
        """Forget an attempt whose outcome nobody waits for."""
        if self.buffers:
            with self._room:
                buffer = self.buffers.pop(key, None)
                if buffer is not None:
                    buffer.gone = True
                    self._room.notify_all()


def _first_of(waiting: Sequence[Item]) -> list[Item]:
    """Return the first items, as many as one write may have; at least one."""
    size = 0
    for place, (_, data) in enumerate(waiting):
        size += len(data)
        if place == MOST_ITEMS_A_WRITE or (place and size > MOST_BYTES_A_WRITE):
            return list(waiting[:place])
    return list(waiting)


def _too_far_ahead(size: int) -> StructuralLimitError:
    return StructuralLimitError(
        "buffered_stream_bytes",
        value=size,
        limit=MOST_BUFFERED,
        advice="await the stream's drain() now and then, so that the database keeps up",
    )
