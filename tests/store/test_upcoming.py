"""What falls due next: joined pages are the sorted whole, whatever comes and goes meanwhile, at a bounded cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.engine.run_rows import NOW, SECOND, run_id_at, run_row
from tests.scheduled import a_row
from tests.statements import asked_of
from tests.store.activity_rows import activity_row

from outlast_store.database import bounded_pages
from outlast_store.database.bounded_pages import BoundedPage
from outlast_store.database.database import Database
from outlast_store.database.sql_text import execute, fetch
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import LOCAL
from outlast_store.upcoming.outlook import outlook
from outlast_store.upcoming.pages import Wanted, read_upcoming
from outlast_store.upcoming.sources import Due, Place
from outlast_workflow.primitives.enums import UpcomingKind

TYPES = ("Order", "Report")
QUEUES = ("default", "slow")
MARKS = ("50%", "80%", "-600s", "+3600s")
DEADLINES = {
    "execution_timeout": ("execution_deadline_at",),
    "run_timeout": ("run_deadline_at",),
    "schedule_to_start": ("start_deadline_at",),
}


@dataclass
class Model:
    """Everything that lies ahead, and nothing that the code under test knows of it.

    Attributes:
        rows: By place (instant, source, key) what stands there: its kind, workflow type and task queue.
        runs: By id, the type and the task queue of the runs that others belong to.
    """

    random: Random
    connection: Connection
    rows: dict[tuple[Any, ...], tuple[str, str, str]] = field(default_factory=dict)
    runs: dict[str, tuple[str, str]] = field(default_factory=dict)
    number: int = 0

    def insert(self, table: Any, **values: Any) -> None:
        columns = {column.name: values.get(column.name) for column in table.columns}
        statements_for(self.connection.dialect.name).insert(self.connection, table, [tuple(columns.values())])

    def run(self, **given: Any) -> str:
        self.number += 1
        of_type, queue = self.random.choice(TYPES), self.random.choice(QUEUES)
        row = run_row(self.number, created_at=NOW, workflow_type=of_type, task_queue=queue, **given)
        self.insert(tables.workflow_runs, **vars(row))
        self.runs[row.run_id] = of_type, queue
        return row.run_id

    def add(self) -> None:
        """Insert something that falls due at one of few instants."""
        at = NOW + self.random.randrange(6) * SECOND
        source = self.random.randrange(5)
        if source == 0:
            kind = self.random.choice([*DEADLINES])
            run_id = self.run(next_deadline_at=at, **dict.fromkeys(DEADLINES[kind], at))
            self.rows[at, 0, run_id] = (kind, *self.runs[run_id])
            return
        if source == 4:
            self.number += 1
            schedule_id, of_type, queue = f"s-{self.number:04}", *map(self.random.choice, (TYPES, QUEUES))
            row = a_row(schedule_id, next_look_at=at, workflow_type=of_type, task_queue=queue)
            self.insert(tables.schedules, **vars(row))
            self.rows[at, 4, schedule_id] = ("schedule", of_type, queue)
            return
        run_id = (
            self.random.choice(sorted(self.runs)) if self.runs and self.random.random() < 0.7 else self.run()
        )
        of_type, queue = self.runs[run_id]
        self.number += 1
        if source == 1:
            kind = self.random.choice(
                ["schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat"]
            )
            queue, local = self.random.choice(QUEUES), self.random.random() < 0.3
            given = {f"{kind}_deadline_at": at, "next_deadline_at": at}
            activity = activity_row(
                run_id,
                activity_id=self.number,
                task_queue=LOCAL + queue if local else queue,
                local=local,
                **given,
            )
            self.insert(tables.activity_executions, **activity)
            self.rows[at, 1, run_id, self.number] = (kind, of_type, queue)
        elif source == 2:
            self.insert(tables.timers, run_id=run_id, timer_id=self.number, fire_at=at)
            self.rows[at, 2, run_id, self.number] = ("timer", of_type, queue)
        else:
            mark = self.random.choice(MARKS)
            key = (run_id, 0, "execution", mark)
            if not any(place[2:] == key for place in self.rows):
                values = dict(zip(("run_id", "activity_id", "kind", "mark"), key, strict=True))
                self.insert(tables.alert_timers, **values, attempt=0, due_at=at)
                self.rows[at, 3, *key] = ("alert", of_type, queue)

    def remove(self) -> None:
        """Take something away, as the watchdog does once it is due."""
        if not self.rows:
            return
        place = self.random.choice(sorted(self.rows, key=str))
        _, source, *key = place
        text = (
            "UPDATE workflow_runs SET next_deadline_at = NULL WHERE run_id = ?",
            "UPDATE activity_executions SET next_deadline_at = NULL WHERE run_id = ? AND activity_id = ?",
            "DELETE FROM timers WHERE run_id = ? AND timer_id = ?",
            "DELETE FROM alert_timers WHERE run_id = ? AND activity_id = ? AND kind = ? AND mark = ?",
            "UPDATE schedules SET next_look_at = NULL WHERE schedule_id = ?",
        )[source]
        assert execute(self.connection, text, tuple(key)) == 1
        del self.rows[place]

    def wanted(self) -> Wanted:
        """Some filters."""
        some = self.random.random() < 0.5
        kinds = frozenset(self.random.sample([*UpcomingKind], self.random.randint(1, 4)))
        return Wanted(
            kinds=kinds if some else frozenset(UpcomingKind),
            workflow_type=self.random.choice([None, None, *TYPES]),
            task_queue=self.random.choice([None, None, *QUEUES]),
            until=self.random.choice([None, None, NOW + 3 * SECOND]),
        )

    def expected(self, wanted: Wanted) -> list[tuple[Any, ...]]:
        """All that matches, sorted."""
        return sorted(
            place
            for place, (kind, of_type, queue) in self.rows.items()
            if kind in wanted.kinds
            and wanted.workflow_type in (None, of_type)
            and wanted.task_queue in (None, queue)
            and (wanted.until is None or place[0] <= wanted.until)
        )


def flat(place: Place) -> tuple[Any, ...]:
    return (place.due_at, place.rank, *place.key)


def walk(database: Database, wanted: Wanted, limit: int) -> Iterator[BoundedPage[Due]]:
    """Yield page by page."""
    after: Place | None = None
    while True:
        with database.reader() as connection:
            page = read_upcoming(connection, wanted, limit, after)
        yield page
        if page.last is None:
            return
        after = page.last.place


@pytest.mark.parametrize("seed", range(25))
def test_joined_pages_are_the_sorted_whole_whatever_comes_and_goes_meanwhile(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(bounded_pages, "CHUNK", random.choice([2, 7, 1000]))
    monkeypatch.setattr(bounded_pages, "MOST_LOOKED_AT", random.choice([3, 11, 10_000]))
    with database.writer() as connection:
        model = Model(random, connection)
        for _ in range(random.randrange(120)):
            model.add()
        for moving in (False, True, True):
            wanted, limit = model.wanted(), random.choice([1, 3, 10, 200])
            stays = set(model.expected(wanted))
            ever: set[tuple[Any, ...]] = set()
            seen: list[tuple[Any, ...]] = []
            for page in walk(database, wanted, limit):
                known = {**model.rows}
                assert len(page.found) <= limit
                assert page.stopped == (len(page.found) < limit and page.last is not None)
                for due in page.found:
                    place = flat(due.place)
                    assert known[place] == (due.kind, due.workflow_type, due.task_queue)
                    assert (due.run_id is None) == (due.kind == UpcomingKind.SCHEDULE)
                    seen.append(place)
                for _ in range(random.randrange(8) if moving else 0):
                    random.choice([model.add, model.remove])()
                stays &= set(model.rows)
                ever |= known.keys()
            assert seen == sorted(set(seen)), "each once, in order"
            assert stays <= set(seen) <= ever
            if not moving:
                assert seen == model.expected(wanted)


def test_what_is_shown_of_each_kind(database: Database) -> None:
    run_id = run_id_at(NOW, 1)
    with database.writer() as connection:
        model = Model(Random(0), connection)
        row = run_row(1, created_at=NOW, run_deadline_at=NOW + 1, next_deadline_at=NOW + 1)
        model.insert(tables.workflow_runs, **vars(row))
        deadline = {"start_to_close_deadline_at": NOW + 2, "next_deadline_at": NOW + 2}
        model.insert(tables.activity_executions, **activity_row(run_id, task_queue=LOCAL + "q", **deadline))
        model.insert(tables.timers, run_id=run_id, timer_id=4, fire_at=NOW + 3, summary="a rest")
        alert = {"run_id": run_id, "kind": "start_to_close", "mark": "80%", "attempt": 1}
        model.insert(tables.alert_timers, **alert, activity_id=3, due_at=NOW + 4)
        model.insert(tables.alert_timers, **{**alert, "kind": "run"}, activity_id=0, due_at=NOW + 5)
        model.insert(tables.schedules, **vars(a_row("nightly", next_look_at=NOW + 6)))
    with database.reader() as connection:
        found = read_upcoming(connection, Wanted(), 10).found
    shown = [
        (
            due.kind.value,
            due.due_at - NOW,
            due.workflow_id,
            due.task_queue,
            due.command_id,
            due.name,
            due.mark,
        )
        for due in found
    ]
    assert shown == [
        ("run_timeout", 1, "w-1", "default", None, "Order", None),
        ("start_to_close", 2, "w-1", "q", 3, "charge", None),
        ("timer", 3, "w-1", "default", 4, "a rest", None),
        ("alert", 4, "w-1", "q", 3, "charge", "80%"),
        ("alert", 5, "w-1", "default", None, "Order", "80%"),
        ("schedule", 6, None, "default", None, "nightly", None),
    ]
    assert {due.workflow_type for due in found[:-1]} == {"Order"}
    assert [due.alert_kind for due in found[3:5]] == ["start_to_close", "run"]


# --- bounds ---------------------------------------------------------------------------------------------------------


def fill(database: Database, count: int, at: Any) -> None:
    """Insert as many runs, activities, timers and alerts, each with an instant that ``at`` gives by its number."""
    statements = statements_for(database.backend)
    with database.writer() as connection:
        connection.exec_driver_sql("BEGIN")
        runs, activities, timers, alerts = [], [], [], []
        for number in range(count):
            due = at(number)
            row = run_row(number, created_at=NOW, run_deadline_at=due, next_deadline_at=due)
            runs.append(tuple(vars(row).values()))
            given = {"start_to_close_deadline_at": due, "next_deadline_at": due}
            one = activity_row(row.run_id, **given)
            activities.append(tuple(one.get(column.name) for column in tables.activity_executions.columns))
            timers.append((row.run_id, 4, due, None))
            alerts.append((row.run_id, 0, "run", "80%", 0, due, None))
        for table, rows in (
            (tables.workflow_runs, runs),
            (tables.activity_executions, activities),
            (tables.timers, timers),
            (tables.alert_timers, alerts),
        ):
            for start in range(0, count, 5_000):
                statements.insert(connection, table, rows[start : start + 5_000])
        connection.exec_driver_sql("COMMIT")
        if database.backend == "postgresql":
            connection.exec_driver_sql("ANALYZE")


def asked(database: Database, ask: Any) -> tuple[BoundedPage[Due], list[tuple[str, Any]]]:
    """A page, and the statements that read it."""
    with asked_of(database) as seen, database.reader() as connection:
        page = ask(connection)
    return page, [(text, values) for text, values in seen if text.lstrip().startswith("SELECT")]


def rows_of(database: Database, statements: Sequence[tuple[str, Any]]) -> int:
    with database.reader() as connection:
        return sum(len(connection.exec_driver_sql(text, values).all()) for text, values in statements)


def test_a_page_reads_one_chunk_of_each_source_and_a_filter_reads_on_to_its_bound(database: Database) -> None:
    fill(database, 4_000, lambda number: NOW + number % 1_000)
    page, statements = asked(database, partial(read_upcoming, wanted=Wanted(), limit=50))
    assert len(page.found) == 50
    assert page.last is not None
    assert not page.stopped
    assert len(statements) == 5
    assert rows_of(database, statements) == 4 * 51
    none = Wanted(workflow_type="Nobody")
    page, statements = asked(database, partial(read_upcoming, wanted=none, limit=50))
    assert (page.found, page.stopped) == ([], True)
    assert page.last is not None
    # What is read ahead of each of them is one chunk at most.
    assert (
        bounded_pages.MOST_LOOKED_AT
        < rows_of(database, statements)
        <= bounded_pages.MOST_LOOKED_AT + 4 * 1_000
    )
    assert len(statements) <= 4 * 4 + 1
    page, _ = asked(database, partial(read_upcoming, wanted=none, limit=50, after=page.last.place))
    assert (page.found, page.stopped, page.last) == ([], False, None)


@pytest.mark.parametrize("spread", ["at one instant", "at many"])
def test_plans_walk_the_indexes_without_sorting_what_is_due(shared_database: Database, spread: str) -> None:
    database = shared_database
    fill(database, 20_000, lambda number: NOW + (number if spread == "at many" else 0))
    first, _ = asked(database, partial(read_upcoming, wanted=Wanted(), limit=50))
    amid = [Place(first.found[-1].due_at, rank, key) for rank, key in amid_keys()]
    plain = [partial(read_upcoming, wanted=Wanted(), limit=50, after=after) for after in (None, *amid)]
    for ask in [*plain, partial(outlook, bounds=[NOW])]:
        _, statements = asked(database, ask)
        for text, values in statements:
            limit = values[-1]
            # Where a filter reads on by a thousand, PostgreSQL may read few runs as a whole.
            if "schedules" in text or limit == bounded_pages.CHUNK:
                continue
            assert looked_at(database, text, values) <= 4 * limit + 10, text


def amid_keys() -> list[tuple[int, tuple[str | int, ...]]]:
    run_id = run_id_at(NOW, 10_000)
    return [(0, (run_id,)), (1, (run_id, 3)), (2, (run_id, 4)), (3, (run_id, 0, "run", "80%"))]


def looked_at(database: Database, text: str, values: Any) -> int:
    """How many rows a statement looks at; on SQLite, where only steps are counted, as many as they stand for."""
    with database.reader() as connection:
        if database.backend == "sqlite":
            plan = "\n".join(
                row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            )
            scans = [line for line in plan.splitlines() if line.startswith("SCAN")]
            assert all(line in ("SCAN ahead", "SCAN placed") or "INDEX ix_" in line for line in scans), plan
            return steps(connection, text, values) // 40
        (found,) = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).one()
        nodes = [one["Plan"] for one in (json.loads(found) if isinstance(found, str) else found)]
        count = 0
        while nodes:
            node = nodes.pop()
            nodes += node.get("Plans", ())
            if "Scan" in node["Node Type"] and "Relation Name" in node:
                left_out = node.get("Rows Removed by Filter", 0)
                count += int((node["Actual Rows"] + left_out) * node["Actual Loops"])
        return count


def steps(connection: Connection, text: str, values: Any) -> int:
    raw: Any = connection.connection.dbapi_connection
    count = 0

    def note() -> int:
        nonlocal count
        count += 10
        return 0

    raw.set_progress_handler(note, 10)
    connection.exec_driver_sql(text, values).all()
    raw.set_progress_handler(None, 0)
    return count


@pytest.fixture
def shared_database(shared_url: str) -> Iterator[Database]:
    from tests.conftest import at_head

    with at_head(shared_url) as opened:
        yield opened


def test_a_run_that_waits_in_line_is_counted_by_its_schedule_to_start_deadline(database: Database) -> None:
    with database.writer() as connection:
        model = Model(Random(0), connection)
        row = run_row(1, created_at=NOW, start_deadline_at=NOW + 1, next_deadline_at=NOW + 1)
        model.insert(tables.workflow_runs, **vars(row))
        given = {"schedule_to_start_deadline_at": NOW + 2, "next_deadline_at": NOW + 2}
        model.insert(tables.activity_executions, **activity_row(row.run_id, **given))
    with database.reader() as connection:
        assert outlook(connection, [NOW]).counts == {"schedule_to_start": [0, 2]}
        assert fetch(connection, "SELECT count(*) FROM workflow_runs") == [(1,)]
