"""Writing to streams: items get their offsets under the lock of the stream's row, so these are dense.

A stream belongs to a chain, so the runs of a chain write to the same one. What was published stays published: a reset
takes nothing back. A close is undone, though, where the code that closed the stream runs once more: by a retry of its
run, or by a reset to a point before the close.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow, StreamItemRow, StreamKey
from outlast_workflow.errors import StreamClosedError
from outlast_workflow.history.events import StreamClosed, stored_payload
from outlast_workflow.options.limits import StructuralLimits


def check_writable(
    batch: Batch,
    first_run_id: str,
    written: Sequence[tuple[str, int]],
    limits: StructuralLimits,
    workflow_id: str,
) -> None:
    """Check that items can be written; nothing has been written by this change yet.

    Args:
        batch: The batch; the change has named the streams.
        first_run_id: The chain.
        written: The stream of each item, and the size of its value in bytes.
        limits: How much a chain may write.
        workflow_id: The workflow, for messages.

    Raises:
        StreamClosedError: A stream is closed.
        StructuralLimitError: The streams of the chain would become too large.
    """
    for name in {name for name, _ in written}:
        if batch.stream((first_run_id, name)).closed_at is not None:
            raise StreamClosedError(workflow_id, name)
    items, size = _totals(batch, first_run_id)
    for kind, before, more in (
        ("stream_items", items, len(written)),
        ("stream_bytes", size, sum(size for _, size in written)),
    ):
        limit: int = getattr(limits, kind)
        # A warning is due once, where 80 % are passed.
        if limit and (before + more > limit or before * 5 < limit * 4 <= (before + more) * 5):
            limits.check(kind, before + more, whose=workflow_id)


def _totals(batch: Batch, first_run_id: str) -> tuple[int, int]:
    """Return how many items the streams of a chain have, and their size, with what this batch has written."""
    found = batch.totals.get(first_run_id)
    if found is None:
        # What PostgreSQL sums up is no whole number any more.
        text = (
            "SELECT CAST(COALESCE(SUM(next_offset), 0) AS BIGINT), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) "
            "FROM streams WHERE first_run_id = ?"
        )
        ((items, size),) = batch.scan(text, (first_run_id,))
        found = batch.totals[first_run_id] = items, size
    return found


def write_items(
    batch: Batch,
    key: StreamKey,
    values: Sequence[bytes],
    run_id: str,
    *,
    seq: int | None = None,
    activity_id: int | None = None,
    attempt: int | None = None,
) -> None:
    """Write items in order, after :func:`check_writable`.

    Args:
        batch: The batch.
        key: The stream.
        values: Their values, as JSON text.
        run_id: The run that writes them, or whose activity does.
        seq: The event that records the item, if the workflow's own code writes it.
        activity_id: The activity that writes them, if one does.
        attempt: Its attempt.
    """
    row, now = batch.stream(key), batch.now
    for offset, value in enumerate(values, row.next_offset):
        item = StreamItemRow(*key, offset, value.decode(), now, run_id, seq, activity_id, attempt)
        batch.add_stream_item(item)
    size = sum(len(value) for value in values)
    row.next_offset += len(values)
    row.bytes += size
    row.version += 1
    items, total = batch.totals[key[0]]
    batch.totals[key[0]] = items + len(values), total + size


def close_stream(batch: Batch, key: StreamKey) -> None:
    """Close a stream; one that is closed stays as it is."""
    row = batch.stream(key)
    if row.closed_at is None:
        row.closed_at = batch.now
        row.version += 1


def reopen_streams(batch: Batch, run: RunRow, after_seq: int = 0) -> None:
    """Open again what a run's code has closed, because that code runs once more.

    Args:
        batch: The batch; the run is locked.
        run: The run.
        after_seq: The last event that is kept: only closes behind it are undone.
    """
    text = "SELECT name FROM streams WHERE first_run_id = ? AND closed_at IS NOT NULL"
    closed = {row[0] for row in batch.scan(text, (run.first_run_id,))}
    if batch.stream_rows is not None:
        closed |= {name for first_run_id, name in batch.stream_rows if first_run_id == run.first_run_id}
    if not closed:
        return
    text = "SELECT seq, payload FROM history_events WHERE run_id = ? AND seq > ? AND type = ?"
    rows = batch.scan(text, (run.run_id, after_seq, StreamClosed.type))
    names = {stored_payload(payload, run.run_id, seq)["name"] for seq, payload in rows}
    names |= {
        event.name
        for seq, event, _ in batch.appended(run.run_id)
        if seq > after_seq and isinstance(event, StreamClosed)
    }
    reopen(batch, run.first_run_id, names & closed)


def reopen(batch: Batch, first_run_id: str, names: Iterable[str]) -> None:
    """Open streams again.

    Args:
        batch: The batch.
        first_run_id: Their chain.
        names: Which.
    """
    keys = [(first_run_id, name) for name in sorted(names)]
    if not keys:
        return
    batch.load_streams(keys)
    for key in keys:
        row = batch.stream(key)
        if row.closed_at is not None:
            row.closed_at = None
            row.version += 1
