"""The change by which an attempt writes to a stream.

An attempt writes only while it holds its activity: the change reads the activity's row behind the lock of the stream,
and compares the claim's token. It takes no lock on that row. An attempt that has lost its activity may still write in
the instant in which it loses it, but never after an item of the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast_activities.heartbeats import Lost, why_to_stop
from outlast_activities.stop_reason import CANCEL_REQUESTED
from outlast_activities.task import AttemptKey
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, StreamKey
from outlast_store.transitions.streams import check_writable, write_items
from outlast_workflow.options.limits import StructuralLimits


class WriteStreamItems(BaseChange):
    """Write items of one attempt to one stream.

    Args:
        attempt: The attempt.
        stream: The stream.
        values: The values in order, as JSON text.
        limits: How much a chain may write.
        workflow_id: The workflow, for messages.
    """

    def __init__(
        self,
        attempt: AttemptKey,
        stream: StreamKey,
        values: Sequence[bytes],
        limits: StructuralLimits,
        workflow_id: str,
    ) -> None:
        self.attempt = attempt
        self.stream = stream
        self.streams = (stream,)
        self.values = values
        self.limits = limits
        self.workflow_id = workflow_id
        self.weight = 512 + sum(len(value) + 100 for value in values)

    def apply(self, batch: Batch) -> Lost | None:
        """Write the items; return why the attempt is to stop where it may not write.

        Raises:
            StreamClosedError: The stream is closed; nothing was written.
            StructuralLimitError: The streams of the chain would become too large; nothing was written.
        """
        lost = self._lost(batch)
        if lost is not None:
            return lost
        first_run_id, name = self.stream
        written = [(name, len(value)) for value in self.values]
        check_writable(batch, first_run_id, written, self.limits, self.workflow_id)
        run_id, activity_id, attempt = self.attempt
        write_items(batch, self.stream, self.values, run_id, activity_id=activity_id, attempt=attempt)
        return None

    def _lost(self, batch: Batch) -> Lost | None:
        """Return why the attempt may not write. A cancel request alone does not keep it from that."""
        key = self.attempt[:2]
        found = batch.read(tables.activity_executions, ("run_id", "activity_id"), [key])
        rows: list[ActivityRow | None] = [ActivityRow(*values) for values in found] or [None]
        # An earlier change of the same batch may have ended the attempt.
        known = batch.activity(*key)
        if known is not None and vars(known) != batch.activity_rows.before.get(key):
            rows.append(known)
        for row in rows:
            stop = why_to_stop(self.attempt, row, batch.now)
            if stop is not None and (stop.closed or stop.reason != CANCEL_REQUESTED):
                return stop
        return None
