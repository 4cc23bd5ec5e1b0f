"""What must hold of streams: offsets are dense, and what a history records as written is there, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from outlast_store.schema.rows import RunRow, StreamItemRow, StreamKey, StreamRow
from outlast_workflow.history.events import Event, StreamWritten

Found = Iterator[tuple[str, str]]


def check_streams(
    streams: Sequence[StreamRow],
    items: Sequence[StreamItemRow],
    runs: Mapping[str, RunRow],
    histories: Mapping[str, Sequence[Event]],
    *,
    deleting: bool,
) -> Found:
    """Check streams and their items. Yield the place, and a sentence.

    Args:
        streams: All streams.
        items: All items.
        runs: All runs.
        histories: Their histories.
        deleting: Whether workflows may be half deleted.
    """
    by_stream: dict[StreamKey, list[StreamItemRow]] = defaultdict(list)
    written: dict[tuple[str, int], StreamItemRow] = {}
    forks = {run_id for run_id, history in histories.items() if _copied_through(history, "forked_from")}
    for item in items:
        by_stream[item.first_run_id, item.name].append(item)
        where = f"stream {item.name!r} of chain {item.first_run_id}"
        if item.seq is not None and (twin := written.get((item.run_id, item.seq))) is not None:
            yield where, f"has event {item.seq} of run {item.run_id} twice, at {twin.item_offset} too"
        if item.seq is not None:
            written[item.run_id, item.seq] = item
        # A fork leaves out who wrote an item that it has from runs before its original.
        by_nobody = item.seq is None and item.activity_id is None and item.first_run_id not in forks
        by_both = item.seq is not None and item.activity_id is not None
        if by_nobody or by_both or (item.activity_id is None) != (item.attempt is None):
            yield where, f"has item {item.item_offset}, which neither code nor one attempt has written"
    known = {stream.key for stream in streams}
    for key in sorted(by_stream.keys() - known):
        yield f"chain {key[0]}", f"has items of stream {key[1]!r}, which has no row"
    first_runs = {run.first_run_id for run in runs.values()}
    for stream in streams:
        where = f"stream {stream.name!r} of chain {stream.first_run_id}"
        if stream.first_run_id not in first_runs:
            yield where, "is of no chain"
        found = sorted(by_stream[stream.key], key=lambda item: item.item_offset)
        if not deleting:
            yield from ((where, what) for what in _check_items(stream, found))
    if not deleting:
        yield from _check_written(written, runs, histories)


def _check_items(stream: StreamRow, items: Sequence[StreamItemRow]) -> Iterator[str]:
    if [item.item_offset for item in items] != list(range(stream.next_offset)):
        yield f"has items that are not those from 0 to {stream.next_offset - 1}"
    if stream.bytes != sum(len(item.value.encode()) for item in items):
        yield f"counts {stream.bytes} bytes, which is not the size of its items"
    if stream.version < 1:
        yield "was never written to"
    # A later attempt begins again: nothing of an earlier one comes behind it.
    attempts: dict[tuple[str, int], int] = {}
    for item in items:
        if item.activity_id is not None and item.attempt is not None:
            key = (item.run_id, item.activity_id)
            if item.attempt < attempts.get(key, 0):
                yield f"has item {item.item_offset} of attempt {item.attempt} behind one of a later attempt"
            attempts[key] = max(item.attempt, attempts.get(key, 0))


def _copied_through(history: Sequence[Event], how: str) -> int:
    """Return the last event that a run has from another one, by a ``reset`` or as ``forked_from``; else 0."""
    source = getattr(history[0], how, None) if history else None
    return int(source["seq"]) if source else 0


def _check_written(
    written: Mapping[tuple[str, int], StreamItemRow],
    runs: Mapping[str, RunRow],
    histories: Mapping[str, Sequence[Event]],
) -> Found:
    for run_id, history in histories.items():
        run = runs.get(run_id)
        if run is None:
            continue
        copied = max(_copied_through(history, "reset"), _copied_through(history, "forked_from"))
        for seq, event in enumerate(history, 1):
            # A reset copies events, not items: those are in the streams already. A fork copies items.
            if not isinstance(event, StreamWritten) or seq <= copied:
                continue
            item = written.get((run_id, seq))
            if item is None:
                yield (
                    f"run {run_id}",
                    f"wrote to stream {event.name!r} at event {seq}, and the item is not there",
                )
            elif (item.first_run_id, item.name) != (run.first_run_id, event.name):
                yield f"run {run_id}", f"has the item of event {seq} in another stream"
    for (run_id, seq), item in written.items():
        recorded = histories.get(run_id, ())
        if run_id in runs and not (len(recorded) >= seq and isinstance(recorded[seq - 1], StreamWritten)):
            yield (
                f"run {run_id}",
                f"has item {item.item_offset} of stream {item.name!r}, which no event records",
            )
