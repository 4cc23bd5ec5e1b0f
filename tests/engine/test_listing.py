"""Listing and counting runs: against a model, page by page, while others write, and by the indexes."""

from __future__ import annotations

import asyncio
import base64
import inspect
import random
import re
import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.run_rows import HOUR, NOW, SECOND, insert_runs, run_row
from tests.statements import asked_of

from outlast import Client, Range, RunStatus, RunSummary
from outlast.errors import InvalidOptionError
from outlast.testing import TestEnvironment
from outlast.visibility.filters import Filters, run_filter
from outlast_store.database.database import Database
from outlast_store.reads import run_listing
from outlast_store.reads.attention import OVERDUE_AFTER_US, UNPOLLED_AFTER_US
from outlast_store.reads.run_listing import Order, Position, RunFilter
from outlast_store.schema.rows import RunRow
from outlast_store.schema.search_index import Wanted
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE

STATUSES = tuple(RunStatus)
TYPES = ("Order", "Invoice", "Refund")
QUEUES = ("default", "bulk")


# --- against a model ------------------------------------------------------------------------------------------------


def _some_runs(count: int) -> list[RunRow]:
    """Runs of all kinds within two days; several share a millisecond."""
    rng = random.Random(7)
    rows: list[RunRow] = []
    for number in range(count):
        created_at = NOW - rng.randrange(48) * HOUR - rng.randrange(4) * SECOND
        status = rng.choice(STATUSES)
        open_ = status.is_open
        deadline = NOW + rng.choice((-20, -10, -5, 0, 30, 5000)) * SECOND if rng.random() < 0.5 else None
        waits = open_ and rng.random() < 0.4
        attributes: dict[str, Any] = {"amount": rng.choice([1, 2.5, 3])} if rng.random() < 0.5 else {}
        if rng.random() < 0.5:
            attributes["tags"] = rng.sample(["eu", "us", "new"], 2)
        if rng.random() < 0.2:
            attributes[FORK_ATTRIBUTE] = f"w-{rng.randrange(9)}"
        rows.append(
            run_row(
                number,
                created_at=created_at,
                workflow_id=f"w-{rng.randrange(count // 3)}",
                parent_run_id=rng.choice(rows).run_id if rows and rng.random() < 0.3 else None,
                search_attributes=orjson.dumps(attributes).decode() if attributes else None,
                workflow_type=rng.choice(TYPES),
                task_queue=rng.choice(QUEUES),
                owner_id=rng.choice((None, "worker-1", "worker-2")) if open_ else None,
                build_id=rng.choice((None, "b1", "b2")),
                queue=rng.choice((None, "emails", "gpu")),
                partition_key=rng.choice(("", "a", "b")),
                status=status.value,
                closed_at=None if open_ else created_at + rng.randrange(3) * HOUR,
                run_deadline_at=deadline,
                next_deadline_at=deadline if open_ else None,
                task_failures=rng.choice((0, 2)) if open_ else 0,
                attention="task_keeps_failing" if open_ and rng.random() < 0.2 else None,
                wake_at=NOW - rng.choice((30, 60, 90)) * SECOND if waits else None,
            )
        )
    return rows


def _matches(run: RunRow, wanted: RunFilter, runs: dict[str, RunRow]) -> bool:
    """The meaning of a filter, said once more in another language."""
    parent = runs[run.parent_run_id] if run.parent_run_id is not None else None
    attributes = orjson.loads(run.search_attributes or "{}")
    overdue = run.next_deadline_at is not None and run.next_deadline_at <= NOW - OVERDUE_AFTER_US
    # Nothing of such a run is recorded, but its code has run.
    first_task_fails = (run.status, run.task_failures > 0) == (
        "pending",
        True,
    ) and "running" in wanted.statuses
    waits = run.wake_at is not None and run.wake_at <= NOW - UNPOLLED_AFTER_US
    return all(
        (
            not wanted.statuses or run.status in wanted.statuses or first_task_fails,
            not wanted.run_ids or run.run_id in wanted.run_ids,
            not wanted.workflow_types or run.workflow_type in wanted.workflow_types,
            not wanted.workflow_ids or run.workflow_id in wanted.workflow_ids,
            wanted.has_parent in (None, run.parent_run_id is not None),
            wanted.owner_id in (None, run.owner_id),
            wanted.build_id in (None, run.build_id),
            wanted.task_queue in (None, run.task_queue),
            wanted.workflow_id in (None, run.workflow_id),
            wanted.id_prefix is None or run.workflow_id.startswith(wanted.id_prefix),
            wanted.queue in (None, run.queue),
            wanted.partition_key in (None, run.partition_key),
            wanted.parent is None or (parent is not None and parent.workflow_id == wanted.parent),
            wanted.was_forked_from in (None, run.workflow_id in _originals(runs)),
            all(_has(attributes.get(one.name), one) for one in wanted.where),
            wanted.started_after is None
            or (run.started_at is not None and run.started_at >= wanted.started_after),
            wanted.started_before is None
            or (run.started_at is not None and run.started_at < wanted.started_before),
            wanted.created_after is None or run.created_at >= wanted.created_after,
            wanted.created_before is None or run.created_at < wanted.created_before,
            wanted.closed_after is None
            or (run.closed_at is not None and run.closed_at >= wanted.closed_after),
            wanted.closed_before is None
            or (run.closed_at is not None and run.closed_at < wanted.closed_before),
            wanted.deadline_before is None
            or (run.next_deadline_at is not None and run.next_deadline_at < wanted.deadline_before),
            wanted.open in (None, run.closed_at is None),
            not wanted.overdue or overdue,
            not wanted.attention or overdue or waits or run.attention is not None,
        )
    )


def _originals(runs: dict[str, RunRow]) -> set[str]:
    """The workflow ids that forks name."""
    found = (orjson.loads(run.search_attributes or "{}").get(FORK_ATTRIBUTE) for run in runs.values())
    return {original for original in found if original is not None}


def _has(value: Any, wanted: Wanted) -> bool:
    items = value if isinstance(value, list) else [] if value is None else [value]
    if wanted.values:
        return any(item in wanted.values for item in items)
    least: Any = wanted.at_least
    return any(isinstance(item, int | float) and item >= least for item in items)


_conditions = st.sampled_from(
    [
        Wanted("amount", (1,)),
        Wanted("amount", (2.5, 3)),
        Wanted("amount", at_least=2.5),
        Wanted("tags", ("eu",)),
        Wanted("tags", ("us", "new")),
        Wanted("nothing", (True,)),
        Wanted(FORK_ATTRIBUTE, ("w-3",)),
        Wanted(FORK_ATTRIBUTE, ("w-60",)),
    ]
)
_instants = st.none() | st.integers(-49, 1).map(lambda hours: NOW + hours * HOUR)
_filters = st.builds(
    RunFilter,
    statuses=st.lists(st.sampled_from([status.value for status in STATUSES]), max_size=3, unique=True).map(
        tuple
    ),
    run_ids=st.just(()) | st.just(tuple(row.run_id for row in _some_runs(200)[::7])),
    workflow_types=st.lists(st.sampled_from(TYPES), max_size=3, unique=True).map(tuple),
    workflow_ids=st.just(()) | st.just(("w-3", "w-5", "w-x")),
    has_parent=st.none() | st.booleans(),
    was_forked_from=st.none() | st.booleans(),
    owner_id=st.none() | st.sampled_from(["worker-1", "worker-2"]),
    build_id=st.none() | st.sampled_from(["b1", "b2"]),
    task_queue=st.none() | st.sampled_from(QUEUES),
    workflow_id=st.none() | st.just("w-3"),
    id_prefix=st.none() | st.sampled_from(["w-3", "w-", "x"]),
    parent=st.none() | st.sampled_from(["w-3", "w-4"]),
    queue=st.none() | st.sampled_from(["emails", "gpu", "nothing"]),
    partition_key=st.none() | st.sampled_from(["a", "b"]),
    where=st.lists(_conditions, max_size=2).map(tuple),
    started_after=_instants,
    started_before=_instants,
    created_after=_instants,
    created_before=_instants,
    closed_after=_instants,
    closed_before=_instants,
    deadline_before=st.none() | st.sampled_from([NOW - 10 * SECOND, NOW, NOW + HOUR]),
    attention=st.booleans(),
    overdue=st.booleans(),
    open=st.none() | st.booleans(),
)


def test_any_filter_and_page_size_gives_what_the_model_gives(database: Database) -> None:
    rows = _some_runs(200)
    writer = database.writer()
    insert_runs(writer, rows)
    by_id = {row.run_id: row for row in rows}
    newest_first = sorted(rows, key=lambda run: run.run_id, reverse=True)

    @settings(max_examples=150)
    @given(wanted=_filters, limit=st.sampled_from([1, 7, 50, 1000]), order=st.sampled_from(Order))
    def check(wanted: RunFilter, limit: int, order: Order) -> None:
        matching = [run for run in newest_first if _matches(run, wanted, by_id)]
        ordered = sorted(matching, key=lambda run: run.run_id, reverse=order is Order.NEWEST)
        if order is Order.DEADLINE:
            due = [
                (run.next_deadline_at, run.run_id, run)
                for run in matching
                if run.next_deadline_at is not None
            ]
            ordered = [run for *_, run in sorted(due, key=lambda one: one[:2])]
        expected = [run.run_id for run in ordered]
        if limit * 30 < len(expected):
            limit = 50
        with database.reader() as connection:
            found: list[str] = []
            last: Position | None = None
            while page := run_listing.page(connection, wanted, NOW, after=last, limit=limit, order=order):
                assert len(page) <= limit
                found += [run.run_id for run, *_ in page]
                last = Position(found[-1], by_id[found[-1]].next_deadline_at or 0)
            assert found == expected
            assert run_listing.count(connection, wanted, NOW) == len(matching)
            any_status = replace(wanted, statuses=(), open=None)
            expected_counts = Counter(run.status for run in newest_first if _matches(run, any_status, by_id))
            assert run_listing.count_by_status(connection, wanted, NOW) == (expected_counts, frozenset())

    check()
    writer.close()


async def test_a_summary_says_what_the_run_is(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        began = env.now()
        handle = await env.client.start("Order", 1, id="o-1", task_queue="q")
        page = await env.client.list().page()
        described = (await handle.describe()).run
    (run,) = page.runs
    assert page.cursor is None
    assert isinstance(run, RunSummary)
    assert (run.workflow_id, run.workflow_type, run.run_id) == ("o-1", "Order", handle.run_id)
    assert (run.status, run.task_queue, run.created_at) == (RunStatus.PENDING, "q", began)
    assert run.model_dump_json().count("+00:00") == 1
    shared = set(type(run).model_fields) & set(type(described).model_fields)
    assert {name: getattr(run, name) for name in shared} == {
        name: getattr(described, name) for name in shared
    }


# --- page by page ---------------------------------------------------------------------------------------------------


async def test_pages_meet_and_the_last_one_says_so(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        ids = [(await env.client.start("Order", id=f"o-{number}")).run_id for number in range(10)]
        listing = env.client.list(page_size=5)
        first = await listing.page()
        second = await listing.page(first.cursor)
        assert [run.run_id for run in (*first.runs, *second.runs)] == ids[::-1]
        assert first.cursor is not None
        assert second.cursor is None
        # The cursor is good for another page size, another client, another day.
        rest = await env.client.list(page_size=100).page(first.cursor)
        assert rest.runs == second.runs
        assert [run.run_id async for run in env.client.list(page_size=3)] == ids[::-1]
        assert await env.client.count() == 10
        assert [run async for run in env.client.list(status="failed")] == []


async def test_runs_that_start_during_a_walk_belong_to_the_next_one(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        ids = [(await env.client.start("Order")).run_id for _ in range(7)]
        seen = []
        async for run in env.client.list(page_size=2):
            seen.append(run.run_id)
            await env.client.start("Order")
        assert seen == ids[::-1]
        assert await env.client.count() == 14


@pytest.mark.parametrize(
    "wanted", [RunFilter(), RunFilter(open=True), RunFilter(where=(Wanted("a", ("b",)),))]
)
def test_a_walk_under_load_skips_nothing_and_repeats_nothing(
    shared_database: Database, wanted: RunFilter
) -> None:
    """Another thread inserts runs all the while, with ids above, below and between the walk's, and closes some."""
    database = shared_database
    rows = [
        run_row(number, created_at=NOW + number // 5 * 1000, search_attributes='{"a":"b"}')
        for number in range(1000)
    ]
    writer = database.writer()
    insert_runs(writer, rows)
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        connection = database.writer()
        rng = random.Random(3)
        try:
            for number in range(100_000):
                if stop.is_set():
                    return
                at = NOW + rng.randrange(200) * 1000
                fresh = run_row(1_000_000 + number, created_at=at, search_attributes='{"a":"b"}')
                insert_runs(connection, [fresh])
                if number < 500:
                    ended = rows[2 * rng.randrange(500)].run_id
                    connection.exec_driver_sql(
                        f"UPDATE workflow_runs SET closed_at = {NOW}, status = 'completed' WHERE run_id = '{ended}'"
                    )
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    seen: list[str] = []
    try:
        with database.reader() as connection:
            while page := run_listing.page(
                connection, wanted, NOW, after=Position(seen[-1]) if seen else None, limit=17
            ):
                seen += [run.run_id for run, *_ in page]
    finally:
        stop.set()
        thread.join()
        writer.close()
    assert not failures
    assert len(set(seen)) == len(seen)
    stayed = rows[1::2] if wanted.open else rows
    assert {run.run_id for run in stayed} <= set(seen)


@pytest.mark.parametrize(
    "cursor",
    ["", "nonsense", "£", "W10", base64.urlsafe_b64encode(b"[2, 1, 1]").decode(), 7, "bnVsbA"],
)
async def test_a_cursor_that_no_page_gave_is_refused(cursor: Any) -> None:
    async with TestEnvironment() as env:
        with pytest.raises(InvalidOptionError, match=r"cursor .* begin again without one") as caught:
            await env.client.list().page(cursor)
        assert caught.value.field == "cursor"


async def test_a_cursor_belongs_to_its_filters() -> None:
    async with TestEnvironment() as env:
        for number in range(3):
            await env.client.start("Order", id=f"o-{number}")
        cursor = (await env.client.list(page_size=1).page()).cursor
        with pytest.raises(InvalidOptionError, match="belongs to other filters"):
            await env.client.list(page_size=1, status="running").page(cursor)


# --- what can be asked for ------------------------------------------------------------------------------------------

AT = datetime(2026, 1, 1, tzinfo=UTC)
NAIVE = AT.replace(tzinfo=None)

BAD_FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"status": "done"}, "status must be one of queued, pending, running, completed, failed, .*, not 'done'"),
    ({"status": ["running", "done"]}, "status must be one of"),
    ({"status": 3}, "status must be one of .* not int$"),
    ({"status": "canceled"}, r"not 'canceled': did you mean cancelled\?"),
    ({"status": "ENQUEUED"}, r"not 'ENQUEUED': did you mean queued\?"),
    ({"status": "PENDING"}, r"did you mean pending\?"),
    ({"status": [None]}, "status must be one of .* not NoneType"),
    ({"status": []}, "status must name at least one"),
    ({"workflow_type": ""}, "workflow type must not be empty"),
    ({"workflow_type": 3}, "workflow type must be text"),
    ({"task_queue": "a\0b"}, "task queue must not hold control characters"),
    ({"workflow_id": "x" * 201}, "workflow id must be at most 200"),
    ({"created_after": NAIVE}, "created after: a datetime without a time zone"),
    ({"created_before": "yesterday"}, "created before must be a datetime, not str"),
    ({"closed_after": 0}, "closed after must be a datetime"),
    ({"closed_before": NAIVE}, "closed before: a datetime without"),
    ({"deadline_before": NAIVE}, "deadline before: a datetime without"),
    ({"created_after": AT, "created_before": AT}, "created before must lie after created after"),
    ({"closed_after": AT, "closed_before": AT - timedelta(1)}, "closed before must lie after closed after"),
    ({"attention": 1}, "attention must be True or False"),
    ({"overdue": "yes"}, "overdue must be True or False"),
    ({"open": 0}, "open must be True or False"),
    ({"open": True, "status": "failed"}, "a run that is failed is not open"),
    ({"open": False, "status": "running"}, "a run that is running is not closed"),
    ({"id": "o-1"}, "there is no filter 'id': the workflow's id is workflow_id"),
    ({"colour": "red"}, "there is no filter 'colour': there are status"),
    ({"completed_after": AT}, "there is no filter 'completed_after': it is called closed_after here"),
    ({"workflow_id_prefix": "o-"}, "there is no filter 'workflow_id_prefix': it is called id_prefix here"),
    ({"name": "Order"}, "there is no filter 'name': it is called workflow_type here"),
    ({"id_prefix": ""}, "id prefix must not be empty"),
    ({"parent": 3}, "parent must be text"),
    ({"started_after": NAIVE}, "started after: a datetime without"),
    ({"started_after": AT, "started_before": AT}, "started before must lie after started after"),
    ({"where": ["a"]}, "where must be a dict of attribute names and values, not list"),
    ({"where": {"a": None}}, "where 'a' must be text, a number, .* not NoneType"),
    ({"where": {"a": []}}, "where 'a' must name at least one value"),
    ({"where": {"a": [["b"]]}}, "where 'a' must be text, a number, .* not list"),
    ({"where": {"a": NAIVE}}, "where 'a': a datetime without a time zone"),
    ({"where": {"": 1}}, "name must not be empty"),
]


@pytest.mark.parametrize(("filters", "message"), BAD_FILTERS, ids=lambda value: str(value)[:40])
async def test_a_filter_that_can_not_be_is_refused_at_once(filters: dict[str, Any], message: str) -> None:
    async with TestEnvironment() as env:
        with pytest.raises(InvalidOptionError, match=message) as caught:
            env.client.list(**filters)
        assert caught.value.field in filters
        with pytest.raises(InvalidOptionError, match=message):
            await env.client.count(**filters)


@pytest.mark.parametrize("size", [0, -1, 1001, True, 2.5, "10", None])
async def test_a_page_has_from_1_to_1000_runs(size: Any) -> None:
    async with TestEnvironment() as env:
        with pytest.raises(InvalidOptionError, match="page size must be"):
            env.client.list(page_size=size)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({}, "a Range needs an end"),
        ({"at_least": 1, "above": 1}, "at_least or above, not both"),
        ({"at_most": 1, "below": 1}, "at_most or below, not both"),
        ({"at_least": 1, "below": "b"}, "of one kind"),
        ({"at_least": True}, "must be a number, text or a datetime, not bool"),
        ({"below": float("inf")}, "must be finite"),
    ],
)
def test_a_range_that_can_not_be_is_refused_when_it_is_made(ends: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        Range(**ends)


def test_a_status_may_be_one_or_several_by_name_or_member() -> None:
    assert run_filter(status="failed") == run_filter(status=RunStatus.FAILED) == run_filter(status=["failed"])
    assert run_filter(status={RunStatus.FAILED}).statuses == ("failed",)
    assert run_filter(status=["failed", "failed", "running"]).statuses == ("failed", "running")


# --- by the indexes -------------------------------------------------------------------------------------------------


MANY = 100_000

_PLANS: list[tuple[RunFilter, str]] = [
    (RunFilter(), "SCAN workflow_runs|pk_workflow_runs"),  # SQLite's scan is the key's, and ends at the limit
    (RunFilter(statuses=("failed",)), "ix_runs_trouble"),
    (RunFilter(statuses=("running",)), "ix_runs_open"),
    (RunFilter(open=True), "ix_runs_open"),
    (RunFilter(workflow_types=("Rare",)), "ix_runs_type"),
    (RunFilter(workflow_types=("Rare", "Rarer", "Common")), "ix_runs_type"),
    (RunFilter(owner_id="worker-1"), "ix_runs_owned"),
    (RunFilter(workflow_ids=("w-77", "w-99000")), "ix_runs_workflow_id"),
    (RunFilter(workflow_ids=tuple(f"w-{n}" for n in range(0, 100_000, 100))), "ix_runs_workflow_id"),
    (RunFilter(workflow_ids=("w-77", "w-99000"), current=True), "workflow_instances"),
    (RunFilter(has_parent=True, open=True), "ix_runs_open|ix_runs_children"),
    (RunFilter(build_id="b", created_after=NOW - HOUR), "PRIMARY KEY|pk_workflow_runs"),
    (RunFilter(workflow_id="w-77"), "ix_runs_workflow_id"),
    (RunFilter(id_prefix="w-7777"), "ix_runs_workflow_id"),
    (RunFilter(where=(Wanted("customer", ("c-7",)),)), "ix_search_attributes_value"),
    (RunFilter(where=(Wanted("amount", at_least=99_990),)), "ix_search_attributes_value"),
    (RunFilter(overdue=True), "ix_runs_deadline"),
    (RunFilter(deadline_before=NOW - HOUR), "ix_runs_deadline"),
    (RunFilter(attention=True), "ix_runs_attention"),
    (RunFilter(created_after=NOW - HOUR), "PRIMARY KEY|pk_workflow_runs"),
]
PLANS = [
    *((wanted, index, order) for wanted, index in _PLANS for order in (Order.NEWEST, Order.OLDEST)),
    (RunFilter(), "ix_runs_deadline", Order.DEADLINE),
]


def test_common_questions_are_answered_by_the_indexes(shared_database: Database) -> None:
    """With 100,000 runs, nearly all completed; what is asked for is rare, and nothing reads the whole table for it."""
    database = shared_database
    writer = database.writer()
    rows = []
    for number in range(MANY):
        created_at = NOW - (MANY - number) * 10 * SECOND
        values: dict[str, Any] = {"status": "completed", "closed_at": created_at + SECOND}
        if number % 1000 == 0:
            values["status"] = "failed"
        if number % 1000 == 1:
            values = {"next_deadline_at": NOW + (number - MANY // 2) * SECOND}
        if number % 10_000 == 2:
            values = {"attention": "task_keeps_failing", "workflow_type": "Rare"}
        if number % 10 == 3:
            values["search_attributes"] = f'{{"customer":"c-{number % 1000}","amount":{number}}}'
        rows.append(run_row(number, created_at=created_at, **values))
    insert_runs(writer, rows)
    if database.backend == "postgresql":
        writer.exec_driver_sql("ANALYZE")
    writer.close()
    explain = "EXPLAIN QUERY PLAN " if database.backend == "sqlite" else "EXPLAIN "
    with asked_of(database) as seen, database.reader() as connection:
        for wanted, index, order in PLANS:
            seen.clear()
            run_listing.page(connection, wanted, NOW, after=None, limit=101, order=order)
            text, values = next(one for one in seen if re.search("ORDER BY .* LIMIT [^ ]+$", one[0]))
            plan = "\n".join(str(tuple(row)) for row in connection.exec_driver_sql(explain + text, values))
            assert any(name in plan for name in index.split("|")), f"{wanted}\n{plan}"
            assert "Seq Scan on workflow_runs" not in plan, f"{wanted}\n{plan}"
            if "(SELECT" not in text and wanted.id_prefix is None and wanted.owner_id is None:
                assert "TEMP B-TREE" not in plan, f"{wanted}\n{plan}"


def test_counts_by_status_stay_cheap_and_say_what_they_left_out(shared_database: Database) -> None:
    """Of many runs the first are counted; the few that failed are found by their index, however old."""
    database = shared_database
    rows = []
    for number in range(3000):
        failed, running = number in (5, 17), number in (9, 2990)
        rows.append(
            run_row(
                number,
                created_at=NOW + number * SECOND,
                status="failed" if failed else "running" if running else "completed",
                closed_at=None if running else NOW + HOUR,
                task_queue="rare" if number in (17, 40, 2995) else "default",
            )
        )
    writer = database.writer()
    insert_runs(writer, rows)
    writer.close()
    ends = frozenset({"completed", "continued_as_new"})
    with asked_of(database) as seen, database.reader() as connection:

        def counts(wanted: RunFilter) -> tuple[dict[str, int], frozenset[str]]:
            found, more = run_listing.count_by_status(connection, wanted, NOW, most=1000, newest=500)
            return {status: number for status, number in found.items() if number}, more

        found, more = counts(RunFilter(statuses=("cancelled",)))
        assert (found["failed"], found["running"], more) == (2, 2, ends)
        assert 990 <= found["completed"] <= 1000
        # No index serves task queues: only the newest five hundred runs are looked at.
        found, more = counts(RunFilter(task_queue="rare"))
        assert (found, len(more)) == ({"completed": 1}, len(STATUSES))
        found, more = counts(RunFilter(created_after=NOW + 2900 * SECOND))
        assert (found, more) == ({"completed": 99, "running": 1}, frozenset())
        counting = [text for text, _ in seen if "AS counted" in text]
    assert counting
    assert all("LIMIT" in text for text in counting)


async def test_many_tasks_may_list_at_once(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        client: Client = env.client
        for number in range(20):
            await client.start("Order", id=f"o-{number}")

        async def walk() -> int:
            return len([run async for run in client.list(page_size=3)])

        assert await asyncio.gather(*(walk() for _ in range(10))) == [20] * 10


def test_every_filter_is_documented_in_order() -> None:
    documented = re.findall(r"^    (\w+): ", inspect.cleandoc(Client.list.__doc__ or ""), re.M)
    raised = ["InvalidOptionError"]
    assert documented == ["page_size", "order", *get_type_hints(Filters), *raised]
