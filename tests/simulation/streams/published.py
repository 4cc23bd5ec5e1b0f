"""What must hold of streams: what was written is there in order, once, and readers have seen that and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection
from tests.simulation.programs import Executions, executions
from tests.simulation.story import Story
from tests.simulation.streams.stories import Reader

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import StreamItemRow

AttemptKey = tuple[str, int, int]


class Items:
    """The witness of one batch: who writes items, and which are there when an activity completes."""

    def __init__(self) -> None:
        self.added_by: defaultdict[AttemptKey, int] = defaultdict(int)

    def added(self, batch: Batch, row: StreamItemRow) -> Iterator[str]:
        """An attempt writes only while it holds its activity."""
        if row.activity_id is None or row.attempt is None:
            return
        self.added_by[row.run_id, row.activity_id, row.attempt] += 1
        status, attempt = _activity(batch, row.run_id, row.activity_id)
        if (status, attempt) != ("running", row.attempt):
            yield (
                f"attempt {row.attempt} of activity {row.activity_id} of run {row.run_id} wrote item "
                f"{row.item_offset} of stream {row.name!r}, when attempt {attempt} was {status}"
            )

    def completed(self, batch: Batch, run_id: str, activity_id: int) -> Iterator[str]:
        """An activity completes when all that its attempt has written is there."""
        _, attempt = _activity(batch, run_id, activity_id)
        key = run_id, activity_id, attempt
        said = sum(len(values) for values in executions.said.get(key, {}).values())
        if not said:
            return
        text = "SELECT COUNT(*) FROM stream_items WHERE run_id = ? AND activity_id = ? AND attempt = ?"
        there = batch.scan(text, key)[0][0] + self.added_by[key]
        if there < said:
            yield (
                f"attempt {attempt} of activity {activity_id} of run {run_id} completed when {there} of its {said} "
                "items of streams were there"
            )


def _activity(batch: Batch, run_id: str, activity_id: int) -> tuple[str, int]:
    row = batch.activity(run_id, activity_id)
    if row is not None:
        return str(row.status), row.attempt
    text = "SELECT status, attempt FROM activity_executions WHERE run_id = ? AND activity_id = ?"
    for status, attempt in batch.scan(text, (run_id, activity_id)):
        return status, attempt
    return "gone", 0


def check_published(
    connection: Connection, readers: Sequence[Reader], executions: Executions, exports: Path | None
) -> Iterator[str]:
    """Everything that is wrong with streams when all is over.

    Args:
        connection: The database.
        readers: Who has read.
        executions: What attempts have written.
        exports: Where retention has left what it deleted.
    """
    text = (
        "SELECT first_run_id, name, item_offset, value, run_id, activity_id, attempt FROM stream_items "
        "ORDER BY first_run_id, name, item_offset"
    )
    streams: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for first_run_id, name, offset, value, *by in fetch(connection, text):
        items = streams[first_run_id][name]
        if offset != len(items):
            yield f"stream {name!r} of chain {first_run_id} has offset {offset} at place {len(items)}"
        items.append((orjson.loads(value), *by))
    story = Story(connection, exports)
    for first_run_id in story.chains:
        if first_run_id in story.deleted:
            continue
        yield from _check_workflows(story, first_run_id, streams[first_run_id])
        yield from _check_activities(executions, first_run_id, streams[first_run_id])
    for reader in readers:
        yield from reader.wrong
        if reader.first_run_id is not None and reader.first_run_id not in story.deleted:
            yield from _check_reader(story, reader, streams[reader.first_run_id][reader.name])


def _check_workflows(story: Story, first_run_id: str, streams: dict[str, list[Any]]) -> Iterator[str]:
    """What a run's own code writes is there once, in order, as its history says."""
    found: dict[str, list[int]] = defaultdict(list)
    for name, items in streams.items():
        last: dict[str, int] = {}
        for value, run_id, _, _ in items:
            # A fork has items of other runs.
            if not isinstance(value, dict) or value["run"] != run_id:
                continue
            if value["n"] <= last.get(run_id, -1):
                yield f"run {run_id} wrote item {value['n']} behind {last[run_id]} to stream {name!r}"
            last[run_id] = value["n"]
            found[run_id].append(value["n"])
    for run_id in story.chains[first_run_id]:
        written = sum(kind == "StreamWritten" for kind, _, _ in story.events[run_id])
        own = sum(kind == "StreamWritten" for kind, _, _ in story.own(run_id))
        if sorted(found[run_id]) != list(range(written - own, written)):
            yield (
                f"run {run_id} wrote {own} items behind {written - own}, and there are {sorted(found[run_id])}"
            )


def _check_activities(
    executions: Executions, first_run_id: str, streams: dict[str, list[Any]]
) -> Iterator[str]:
    """What an attempt writes is there once, in order, without a gap."""
    for name, items in streams.items():
        found: dict[AttemptKey, list[Any]] = defaultdict(list)
        for value, *by in items:
            if isinstance(value, list) and value[0] == by[0]:
                found[value[0], value[1], value[2]].append(value)
                if value[:3] != by:
                    yield f"an item of {value} in stream {name!r} of chain {first_run_id} says it is of {by}"
        for key, values in found.items():
            said = executions.said.get(key, {}).get(name, [])
            if values != said[: len(values)]:
                yield f"attempt {key} wrote {said} to stream {name!r}, and {values} is there"


def _check_reader(story: Story, reader: Reader, items: list[Any]) -> Iterator[str]:
    """A reader has seen each item once, in order; and all of them, if nothing has opened the stream again."""
    there = [(offset, item[0]) for offset, item in enumerate(items)]
    expected = there[reader.start : reader.start + len(reader.seen)]
    if reader.seen != expected:
        yield f"{reader!r} saw {reader.seen} where {expected} was written"
    chain = story.chains.get(reader.first_run_id or "", [])
    if not chain:
        yield f"{reader!r} read of a chain that is not there, and was not exported"
        return
    went_on = story.effective(chain[0]) != chain
    shut = any(kind == "StreamClosed" for run_id in chain for kind, _, _ in story.events[run_id])
    if reader.ended and not (went_on or shut) and len(reader.seen) < len(there) - reader.start:
        yield f"{reader!r} was told of the end after {len(reader.seen)} items, and there are {len(there)}"
