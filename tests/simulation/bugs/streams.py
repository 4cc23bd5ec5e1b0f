"""Bugs of streams: offsets, transactions, and the attempts that write."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_activities import stream_writes
from outlast_activities.stream_buffers import Buffer, StreamBuffers
from outlast_runs import task_commands
from outlast_runs.start import StartRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.journal.journal import Journal
from outlast_store.schema.rows import StreamKey
from outlast_store.transitions.streams import check_writable, write_items
from outlast_workflow.options.limits import StructuralLimits


@bug
def offsets_given_before_the_lock(stack: ExitStack) -> None:
    """An attempt's items get the offsets that were next when its process last wrote to the stream."""
    known: dict[tuple[object, StreamKey], int] = {}

    def wrong(batch: Batch, key: StreamKey, values: Any, *rest: Any, **by: Any) -> None:
        row = batch.stream(key)
        place = batch._clock, key
        row.next_offset = known.get(place, row.next_offset)
        write_items(batch, key, values, *rest, **by)
        known[place] = row.next_offset

    patch(stack, stream_writes, "write_items", wrong)


class WriteLater(BaseChange):
    """Items of a workflow task, in a transaction of their own."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.streams = [key for key, *_ in items]

    def apply(self, batch: Batch) -> None:
        for key, values, run_id, seq in self.items:
            written = [(key[1], len(value)) for value in values]
            check_writable(batch, key[0], written, StructuralLimits(), "simulated")
            write_items(batch, key, values, run_id, seq=seq)


@bug
def items_written_after_their_task(stack: ExitStack) -> None:
    """A workflow task's items are written in a transaction of their own, once it is known to be done."""
    right = Journal.submit
    waiting: dict[object, list[Any]] = {}

    def later(batch: Batch, key: StreamKey, values: Any, run_id: str, *, seq: int) -> None:
        waiting.setdefault(batch.change, []).append((key, values, run_id, seq))

    def done(journal: Journal, change: object, callback: Any, value: Any, error: Any) -> None:
        items = waiting.pop(change, [])
        # A change that is tried again has noted its items again.
        last = list({item[2:]: item for item in items}.values())
        if last and error is None:
            right(journal, WriteLater(last), lambda value, error: None)
        callback(value, error)

    def wrong(self: Journal, change: Any, callback: Any) -> None:
        if isinstance(change, CommitWorkflowTask | StartRun):
            callback = partial(done, self, change, callback)
        right(self, change, callback)

    patch(stack, task_commands, "write_items", later)
    patch(stack, Journal, "submit", wrong)


@bug
def items_of_any_attempt_count(stack: ExitStack) -> None:
    """Whether an attempt still holds its activity is not looked at when its items are written."""
    patch(stack, stream_writes.WriteStreamItems, "_lost", lambda self, batch: None)


@bug
def results_before_items(stack: ExitStack) -> None:
    """The end of an attempt does not wait for its items."""

    def wrong(self: StreamBuffers, task: Any, outcome: Any, then: Any) -> None:
        then(task, outcome)
        buffer = self.buffers.get(task.key)
        if buffer is not None:
            self._flush(buffer)

    patch(stack, StreamBuffers, "end", wrong)


@bug
def results_of_who_may_not_write(stack: ExitStack) -> None:
    """An attempt whose items were refused, as its deadline had passed, has a result once the clock is set back."""
    right = StreamBuffers._ended

    def wrong(self: StreamBuffers, buffer: Buffer, outcome: Any, then: Any) -> None:
        buffer.lost = False
        right(self, buffer, outcome, then)

    patch(stack, StreamBuffers, "_ended", wrong)
