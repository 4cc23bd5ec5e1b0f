"""Streams on each store: offsets are given under a lock, and an attempt writes only while it holds its activity."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.test_claims import activity_of, claim_activities, scheduled, started, workflow_task

from outlast_activities.attempts import HANDED_BACK
from outlast_activities.changes import CompleteAttempt, EndAttempt
from outlast_activities.heartbeats import Lost
from outlast_activities.stream_writes import WriteStreamItems
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_store.database.database import Database
from outlast_store.journal.journal import Journal
from outlast_store.reads.streams import PageSize, find_stream, look_at_stream, read_items
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.errors import StreamClosedError, StructuralLimitError
from outlast_workflow.history.events import ActivityCompleted, StreamClosed, StreamWritten
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload

LIMITS = StructuralLimits()


async def claimed(journal: Journal) -> tuple[RunRow, ActivityRow]:
    run = await started(journal, scheduled(1))
    (found,) = await journal.apply(claim_activities("worker"))
    return run, found.row


def items(
    run: RunRow, row: ActivityRow, *values: object, limits: StructuralLimits = LIMITS
) -> WriteStreamItems:
    key = (row.run_id, row.activity_id, row.attempt)
    data = [Payload.of(value).json for value in values]
    return WriteStreamItems(key, (run.first_run_id, "s"), data, limits, run.workflow_id)


def written(run: RunRow, name: str, *values: object, close: bool = False) -> CommitWorkflowTask:
    commands = [StreamWritten(10 + place, name, Payload.of(value)) for place, value in enumerate(values)]
    closing = [StreamClosed(99, name)] if close else []
    change = workflow_task(run, "owner", [*commands, *closing], seen=run.last_seq, now=run.last_event_at)
    task = change.workflow_task
    task.streams = (name,)
    return CommitWorkflowTask(run, task)


def values_of(database: Database, run: RunRow, name: str = "s") -> list[tuple[int, str]]:
    with database.reader() as connection:
        found = read_items(connection, run.first_run_id, name, 0, PageSize(1000, 2**30))
    return [(item.item_offset, item.value) for item in found]


async def test_an_attempt_that_lost_its_activity_writes_nothing(journal: Journal, database: Database) -> None:
    run, row = await claimed(journal)
    assert await journal.apply(items(run, row, "one")) is None
    await journal.apply(EndAttempt(row.run_id, row.activity_id, row.attempt, HANDED_BACK))
    assert isinstance(await journal.apply(items(run, row, "late")), Lost)
    (again,) = await journal.apply(claim_activities("other"))
    assert isinstance(await journal.apply(items(run, row, "later")), Lost)
    assert await journal.apply(items(run, again.row, "two")) is None
    assert values_of(database, run) == [(0, '"one"'), (1, '"two"')]


@pytest.mark.parametrize(
    ("size", "offsets"),
    [
        (PageSize(1000, 100), [0, 1, 2, 3, 4]),
        (PageSize(2, 100), [0, 1]),
        (PageSize(1000, 24), [0, 1, 2]),
        (PageSize(1000, 25), [0, 1, 2, 3]),
        (PageSize(1000, 1), [0]),
    ],
    ids=["all", "by items", "full to the byte", "one byte more", "one at least"],
)
async def test_a_page_is_bounded_by_items_and_by_bytes(
    journal: Journal, database: Database, size: PageSize, offsets: list[int]
) -> None:
    run, row = await claimed(journal)
    # Eight bytes each, the quotes included; not all of them are characters.
    assert await journal.apply(items(run, row, *["äöü"] * 5)) is None
    with database.reader() as connection:
        found = read_items(connection, run.first_run_id, "s", 0, size)
        assert [item.item_offset for item in found] == offsets
        rest = read_items(connection, run.first_run_id, "s", offsets[-1] + 1, PageSize(1000, 1000))
    assert [item.item_offset for item in rest] == [*range(offsets[-1] + 1, 5)]


async def test_a_look_at_a_closed_stream_tells_its_end_with_the_last_page(
    journal: Journal, database: Database
) -> None:
    run, _ = await claimed(journal)
    await journal.apply(written(run, "w", 1, 2, 3, close=True))
    with database.reader() as connection:

        def look(start: int, most: int, *, tell_end: bool = True) -> tuple[int, bool]:
            size = PageSize(most, 1000)
            page = look_at_stream(
                connection, run.first_run_id, "w", start, run.run_id, size, tell_end=tell_end
            )
            return len(page.items), page.ended

        assert [look(0, 2), look(2, 2), look(3, 2)] == [(2, False), (1, True), (0, True)]
        assert look(0, 3) == (3, True)
        assert look(2, 2, tell_end=False) == (1, False)


async def test_an_end_in_the_same_batch_counts(journal: Journal, database: Database) -> None:
    run, row = await claimed(journal)
    end = EndAttempt(row.run_id, row.activity_id, row.attempt, HANDED_BACK)
    before, _, behind = await asyncio.gather(
        journal.apply(items(run, row, "before")), journal.apply(end), journal.apply(items(run, row, "behind"))
    )
    assert before is None
    assert isinstance(behind, Lost)
    assert values_of(database, run) == [(0, '"before"')]


async def test_a_refused_write_makes_no_stream(journal: Journal, database: Database) -> None:
    run, row = await claimed(journal)
    done = CompleteAttempt(row.run_id, row.activity_id, row.attempt, ActivityCompleted(1, Payload.of(1), 1))
    await journal.apply(done)
    assert isinstance(await journal.apply(items(run, row, "late")), Lost)
    with database.reader() as connection:
        assert find_stream(connection, run.first_run_id, "s") is None


async def test_two_writers_give_no_offset_twice(journal: Journal, database: Database) -> None:
    """Two journals, as of two processes: each remembers how far the stream was when it wrote last."""
    run, row = await claimed(journal)
    other = Journal(database, database.environment) if not database.url.memory else journal
    if other is not journal:
        other.committer.connect()
    try:
        for turn in range(20):
            await asyncio.gather(
                journal.apply(items(run, row, f"a{turn}")), other.apply(items(run, row, f"b{turn}"))
            )
    finally:
        if other is not journal:
            await other.close()
    found = values_of(database, run)
    assert [offset for offset, _ in found] == list(range(40))
    for writer in "ab":
        mine = [value for _, value in found if value[1] == writer]
        assert mine == [f'"{writer}{turn}"' for turn in range(20)], "each writer's items keep their order"


async def test_items_of_a_workflow_task_come_and_go_with_it(journal: Journal, database: Database) -> None:
    run = await started(journal)
    applied = await journal.apply(written(run, "s", 1, 2))
    fenced = written(applied.run, "s", 3)
    fenced.workflow_task.fence -= 1
    with pytest.raises(Exception, match="owned by another"):
        await journal.apply(fenced)
    assert values_of(database, run) == [(0, "1"), (1, "2")]


async def test_a_closed_stream_takes_nothing(journal: Journal, database: Database) -> None:
    run, row = await claimed(journal)
    applied = await journal.apply(written(run, "s", "last", close=True))
    with pytest.raises(StreamClosedError):
        await journal.apply(items(run, row, "late"))
    with pytest.raises(StreamClosedError):
        await journal.apply(written(applied.run, "s", "late"))
    assert values_of(database, run) == [(0, '"last"')]
    assert activity_of(database, row.run_id) is not None


async def test_the_limit_of_items_is_that_of_all_streams_of_the_chain(
    journal: Journal, database: Database
) -> None:
    run, row = await claimed(journal)
    await journal.apply(written(run, "other", 1, 2))
    limits = StructuralLimits(stream_items=4)
    with pytest.raises(StructuralLimitError, match="5 > 4"):
        await journal.apply(items(run, row, "a", "b", "c", limits=limits))
    assert await journal.apply(items(run, row, "a", "b", limits=limits)) is None
    assert [value for _, value in values_of(database, run)] == ['"a"', '"b"']


async def test_a_close_by_another_process_is_seen_by_one_that_wrote_before(
    journal: Journal, database: Database
) -> None:
    run, row = await claimed(journal)
    assert await journal.apply(items(run, row, "one")) is None
    if database.url.memory:
        await journal.apply(written(run, "s", close=True))
    else:
        other = Journal(database, database.environment)
        other.committer.connect()
        await other.apply(written(run, "s", close=True))
        await other.close()
    with pytest.raises(StreamClosedError):
        await journal.apply(items(run, row, "late"))
    assert values_of(database, run) == [(0, '"one"')]
