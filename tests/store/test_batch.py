"""A batch: what its changes see of each other, what is trusted, and what one flush writes."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection
from tests.activities.running import running_row
from tests.conformance.changes import Append, start

from outlast_runs.start import StartRun
from outlast_store.database.database import Database
from outlast_store.database.driver_errors import is_conflict, stale_rows_of
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sql_text import Asked
from outlast_store.database.statements import StaleRows
from outlast_store.journal.batch import BaseChange, Batch, Cache, Change
from outlast_store.reads.histories import read_events
from outlast_store.reads.runs import find_instance, find_open_timers, find_run
from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_workflow.history.events import SignalReceived, WorkflowCancelRequested
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.payloads import Payload

OWNER = "me"


class Counted(RawConnection):
    """A connection that notes its statements."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.sent: list[str] = []
        real = self._execute

        def execute(text: str, values: Any = None) -> Any:
            self.sent.append(text)
            return real(text, values) if values else real(text)

        self.exec_driver_sql = self._execute = execute

    def of(self, verb: str) -> list[str]:
        """The statements with a verb in them."""
        return [text for text in self.sent if verb in text]


class Bench:
    """Makes batches, and commits them, on one writing connection."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.environment = database.environment
        self.connection = database.writer()
        self.raw = Counted(self.connection)

    def batch(self, *changes: Change[Any], cache: Cache | None = None) -> Batch:
        """A batch that has loaded what the changes name."""
        self.raw.exec_driver_sql("BEGIN IMMEDIATE" if self.raw.qmark else "BEGIN")
        batch = Batch(self.raw, self.database.statements(self.connection), cache, self.environment)
        batch.load(changes)
        return batch

    def commit(self, *changes: Change[Any], cache: Cache | None = None) -> Batch:
        """Apply changes, write them and commit."""
        batch = self.batch(*changes, cache=cache)
        for change in changes:
            batch.begin(change)
            change.apply(batch)
        batch.flush()
        self.raw.exec_driver_sql("COMMIT")
        return batch

    def started(self, workflow_id: str = "w") -> RunRow:
        """A run that is there, of an owner."""
        change = start(self.environment, workflow_id, owner_id=OWNER)
        self.commit(change)
        return self.run(change.run.run_id)

    def run(self, run_id: str) -> RunRow:
        """A run as the database has it."""
        row = find_run(self.connection, run_id)
        assert row is not None
        return row


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    bench = Bench(database)
    yield bench
    bench.raw.roll_back()
    bench.connection.close()


def trusting(*runs: RunRow) -> Cache:
    cache = Cache()
    cache.owners.add(OWNER)
    cache.runs.update((run.run_id, run) for run in runs)
    return cache


class Touch(BaseChange):
    """Runs a function on a run's row."""

    def __init__(self, run_id: str, act: Callable[[Batch, RunRow], object]) -> None:
        self.runs = (run_id,)
        self.act = act

    def apply(self, batch: Batch) -> object:
        run = batch.run(self.runs[0])
        assert run is not None
        return self.act(batch, run)


def activity_row(run_id: str, activity_id: int = 1) -> ActivityRow:
    return running_row(ActivityOptions(), run_id=run_id, activity_id=activity_id)


def with_activity(batch: Batch, run: RunRow) -> None:
    batch.add_activity(activity_row(run.run_id))


def signal(batch: Batch, run: RunRow) -> int:
    return batch.append(run, SignalReceived("told", Payload.of(None)))


# --- what changes see and write -------------------------------------------------------------------------------------


def test_a_later_change_sees_what_an_earlier_one_did_and_the_database_does_not_yet(bench: Bench) -> None:
    run_id = bench.started().run_id
    batch = bench.batch(Append(run_id))
    run = batch.run(run_id)
    assert run is not None
    assert [signal(batch, run), signal(batch, run)] == [2, 3]
    assert batch.run(run_id) is run
    assert batch.event_types(run_id, 1) == ["SignalReceived"] * 2
    assert bench.run(run_id).last_seq == 1
    batch.flush()
    assert bench.run(run_id).last_seq == 3


def test_what_no_change_altered_is_not_written(bench: Bench) -> None:
    run_id = bench.started().run_id
    bench.raw.sent.clear()
    bench.commit(Touch(run_id, lambda batch, run: None))
    assert not bench.raw.of("UPDATE workflow_runs")


def test_rows_that_change_alike_share_a_statement(bench: Bench) -> None:
    runs = [bench.started(f"w-{number}").run_id for number in range(4)]
    bench.raw.sent.clear()
    bench.commit(*[Touch(run_id, signal) for run_id in runs])
    assert len(bench.raw.of("UPDATE workflow_runs")) == 1
    assert len(bench.raw.of("INSERT INTO history_events")) == 1
    assert [bench.run(run_id).last_seq for run_id in runs] == [2, 2, 2, 2]


def test_nothing_is_appended_after_a_terminal_event(bench: Bench) -> None:
    run_id = bench.started().run_id
    batch = bench.batch(Append(run_id))
    run = batch.run(run_id)
    assert run is not None
    run.closed_at = batch.now
    with pytest.raises(AssertionError, match="after the terminal event"):
        batch.append(run, WorkflowCancelRequested("late"))


def test_the_time_of_a_runs_events_never_falls(bench: Bench) -> None:
    run_id = bench.started().run_id
    later = bench.run(run_id).last_event_at + 3_600_000_000

    def from_the_future(batch: Batch, run: RunRow) -> None:
        run.last_event_at = later
        signal(batch, run)

    bench.commit(Touch(run_id, from_the_future))
    assert read_events(bench.connection, run_id, 1, 1)[0][2] == later


def test_only_a_change_that_wrote_has_touched_the_batch(bench: Bench) -> None:
    run_id = bench.started().run_id
    batch = bench.batch(Append(run_id))
    run = batch.run(run_id)
    assert run is not None
    batch.begin("one")
    signal(batch, run)
    assert batch.touched
    batch.begin("two")
    assert not batch.touched


def test_an_instance_that_no_start_took_is_not_kept(bench: Bench) -> None:
    made, refused = start(bench.environment, "made"), start(bench.environment, "refused")
    batch = bench.batch(made, refused)
    assert batch.instance("made") is None
    made.apply(batch)
    assert batch.instance("made") is not None
    batch.flush()
    assert find_instance(bench.connection, "made") is not None
    assert find_instance(bench.connection, "refused") is None


def test_news_of_a_commit_tell_new_runs_from_changed_ones(bench: Bench) -> None:
    old = bench.started("old").run_id
    untouched = bench.started("untouched").run_id
    new: StartRun = start(bench.environment, "new")
    batch = bench.commit(new, Append(old), Touch(untouched, lambda batch, run: None))
    news = batch.committed()
    assert set(news.runs) == {old, new.run.run_id}
    assert news.begun == [new.run.run_id]
    assert {run_id: len(events) for run_id, events in news.events.items()} == {old: 1, new.run.run_id: 1}


# --- trust ----------------------------------------------------------------------------------------------------------


def test_a_trusted_row_is_neither_read_nor_locked(bench: Bench) -> None:
    run = bench.started()
    bench.raw.sent.clear()
    batch = bench.batch(Append(run.run_id), cache=trusting(run))
    assert not bench.raw.of("SELECT")
    assert batch.trusted() == ([run.run_id], [], [])
    assert batch.run(run.run_id) is not run, "the batch works on a copy"


def test_locks_are_required_where_a_row_was_trusted(bench: Bench) -> None:
    run = bench.started()
    bench.batch(Append(run.run_id)).require_locks()
    bench.raw.roll_back()
    with pytest.raises(StaleRows):
        bench.batch(Append(run.run_id), cache=trusting(run)).require_locks()


def test_a_trusted_row_that_was_stale_is_found_by_its_update(bench: Bench) -> None:
    old = bench.started()
    bench.commit(Touch(old.run_id, signal))
    with pytest.raises((StaleRows, sqlite3.IntegrityError, psycopg.Error)) as caught:
        bench.commit(Touch(old.run_id, signal), cache=trusting(old))
    error = caught.value
    assert isinstance(error, StaleRows) or stale_rows_of(error) == "workflow_runs" or is_conflict(error)
    bench.raw.roll_back()
    assert bench.run(old.run_id).last_seq == 2


def test_a_row_found_by_a_scan_stays_as_earlier_changes_made_it(bench: Bench) -> None:
    run_id = bench.started().run_id
    batch = bench.batch(Append(run_id))
    run = batch.run(run_id)
    assert run is not None
    run.priority = 9
    assert batch.lock_runs([run_id]) == [run]
    batch.more_runs([run_id])
    assert batch.run(run_id) is run


def test_a_run_that_a_change_has_given_an_owner_counts_as_taken(bench: Bench) -> None:
    change = start(bench.environment, "free")
    bench.commit(change)
    batch = bench.batch(Append(change.run.run_id))
    assert batch.runs_taken == 0
    run = batch.run(change.run.run_id)
    assert run is not None
    run.owner_id = OWNER
    assert batch.runs_taken == 1


# --- what is open in a run ------------------------------------------------------------------------------------------


def with_timers(batch: Batch, run: RunRow) -> None:
    for timer_id in (1, 2):
        batch.add_timer(run.run_id, timer_id, timer_id * 10)


@pytest.mark.parametrize("likely", [1, 2])
def test_open_timers_are_those_of_the_database_as_the_batch_changes_them(bench: Bench, likely: int) -> None:
    """Whether they are read for one run when it closes, or for several that are likely to close at once."""
    runs = [bench.started(f"w-{number}").run_id for number in range(2)]
    bench.commit(*[Touch(run_id, with_timers) for run_id in runs])
    changes = [Touch(run_id, signal) for run_id in runs]
    for change in changes[:likely]:
        change.closes = change.runs
    batch = bench.batch(*changes)
    batch.remove_timer(runs[0], 1)
    batch.add_timer(runs[0], 3, 30)
    batch.add_timer(runs[0], 4, 40)
    batch.remove_timer(runs[0], 4)
    assert [batch.open_timers(run_id) for run_id in runs] == [[2, 3], [1, 2]]
    batch.flush()
    assert find_open_timers(bench.connection, runs[0]) == [(2, 20, None), (3, 30, None)]


def test_named_timers_fire_when_the_batch_says(bench: Bench) -> None:
    run_id = bench.started().run_id
    bench.commit(Touch(run_id, with_timers))
    change = Touch(run_id, signal)
    change.timers = [(run_id, number) for number in (1, 2, 3)]
    batch = bench.batch(change)
    assert batch.timers(run_id, [1, 2, 3]) == {1: 10, 2: 20}
    batch.remove_timer(run_id, 1)
    batch.add_timer(run_id, 3, 30)
    assert batch.timers(run_id, [1, 2, 3]) == {2: 20, 3: 30}


def test_a_child_is_open_until_the_batch_closes_it(bench: Bench) -> None:
    parent = bench.started("parent").run_id
    child = start(bench.environment, "child")
    child.run.parent_run_id = parent
    bench.commit(child)
    batch = bench.batch(Append(parent))
    assert batch.has_open_children(parent)
    batch.more_runs([child.run.run_id])
    row = batch.run(child.run.run_id)
    assert row is not None
    row.closed_at = batch.now
    assert not batch.has_open_children(parent)


@pytest.mark.parametrize("likely", [0, 1, 2])
def test_an_open_child_is_that_of_the_run_that_the_batch_gives_it_to(bench: Bench, likely: int) -> None:
    first, second = (bench.started(f"w-{number}").run_id for number in range(2))
    given, begun = start(bench.environment, "given"), start(bench.environment, "begun")
    given.run.parent_run_id = first
    bench.commit(given)
    changes = [Touch(run_id, signal) for run_id in (first, second)]
    for change in changes[:likely]:
        change.closes = change.runs
    batch = bench.batch(*changes)
    assert [batch.has_open_children(run_id) for run_id in (first, second)] == [True, False]
    batch.more_runs([given.run.run_id])
    child = batch.run(given.run.run_id)
    assert child is not None
    batch.adopt(child, second, 7)
    assert (child.parent_run_id, child.parent_command_id) == (second, 7)
    assert [batch.has_open_children(run_id) for run_id in (first, second)] == [False, True]
    child.closed_at = batch.now
    assert not batch.has_open_children(second)
    begun.run.parent_run_id = first
    made = batch.add_run(begun.run)
    assert [batch.has_open_children(run_id) for run_id in (first, second)] == [True, False]
    made.closed_at = batch.now
    assert not batch.has_open_children(first)


@pytest.mark.parametrize("likely", [0, 1, 2])
def test_open_activities_are_those_of_the_database_and_those_that_the_batch_adds(
    bench: Bench, likely: int
) -> None:
    runs = [bench.started(f"w-{number}").run_id for number in range(2)]
    bench.commit(*[Touch(run_id, with_activity) for run_id in runs])
    changes = [Touch(run_id, signal) for run_id in runs]
    for change in changes[:likely]:
        change.closes = change.runs
    batch = bench.batch(*changes)

    def found() -> list[list[int]]:
        return [[row.activity_id for row in batch.open_activities(run_id)] for run_id in runs]

    assert found() == [[1], [1]]
    batch.add_activity(activity_row(runs[1], activity_id=3))
    batch.add_activity(activity_row(runs[1], activity_id=2))
    assert found() == [[1], [1, 2, 3]]
    batch.add_activity(activity_row(runs[0], activity_id=2))
    for activity_id in (1, 2):
        row = batch.activity(runs[1], activity_id)
        assert row is not None
        row.closed_at = batch.now
    assert found() == [[1, 2], [3]]


def test_one_child_among_many_is_open(bench: Bench) -> None:
    """However many of them the batch has closed or given away."""
    first, second = (bench.started(f"w-{number}").run_id for number in range(2))
    children = [start(bench.environment, f"child-{number}") for number in range(5)]
    for child in children:
        child.run.parent_run_id = first
    bench.commit(*children)
    for open_one in range(5):
        batch = bench.batch(Touch(first, signal), Touch(second, signal))
        run_ids = [child.run.run_id for number, child in enumerate(children) if number != open_one]
        batch.more_runs(run_ids)
        for number, run_id in enumerate(run_ids):
            row = batch.run(run_id)
            assert row is not None
            if number % 2:
                batch.adopt(row, second, number)
            else:
                row.closed_at = batch.now
        assert batch.has_open_children(first)
        bench.raw.roll_back()


def test_what_is_open_in_each_of_many_runs_costs_as_much_as_in_each_of_few(bench: Bench) -> None:
    """Counted in lines of Python: not a batch's rows are looked at for each of its runs."""

    def lines(count: int) -> float:
        runs = [bench.started(f"{count}-{number}").run_id for number in range(count)]
        bench.commit(*[Touch(run_id, with_timers) for run_id in runs])
        changes = [Touch(run_id, signal) for run_id in runs]
        for change in changes:
            change.closes = change.runs
        batch = bench.batch(*changes)
        for run_id in runs:
            batch.add_activity(activity_row(run_id))
            child = start(bench.environment, f"child of {run_id}").run
            child.parent_run_id = run_id
            batch.add_run(child)
        seen = 0

        def line(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal seen
            seen += event == "line"
            return line

        before = sys.gettrace()
        sys.settrace(line)
        try:
            for run_id in runs:
                assert len(batch.open_activities(run_id)) == 1
                for timer_id in batch.open_timers(run_id):
                    batch.remove_timer(run_id, timer_id)
                assert batch.has_open_children(run_id)
        finally:
            sys.settrace(before)
        bench.raw.roll_back()
        return seen / count

    assert lines(40) <= lines(10)


def test_statements_that_are_sent_together_give_what_they_give_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.started()
    blocks: list[int] = []
    together = RawConnection.together

    @contextmanager
    def noted(raw: RawConnection) -> Generator[None]:
        sent = len(bench.raw.sent)
        with together(raw):
            yield
        blocks.append(len(bench.raw.sent) - sent)

    monkeypatch.setattr(RawConnection, "together", noted)
    batch = bench.batch()
    asked: list[Asked] = [
        ("SELECT workflow_id FROM workflow_runs WHERE run_id = ?", (run.run_id,)),
        ("SELECT run_id FROM workflow_runs WHERE run_id = ?", ("nobody",)),
        ("SELECT count(*) FROM workflow_runs", ()),
    ]
    assert batch.scan_together(asked) == [batch.scan(*one) for one in asked] == [[("w",)], [], [(1,)]]
    assert batch.scan_together(asked[:1]) == [[("w",)]]
    assert batch.scan_together([]) == []
    bench.raw.exec_driver_sql("COMMIT")
    assert blocks == ([3] if bench.raw.pipelined else [])
