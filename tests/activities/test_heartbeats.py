from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.activities.running import START, running_row

from outlast_activities.heartbeats import Heartbeat, Heartbeats, Lost
from outlast_activities.interceptors import ActivityInterceptor
from outlast_activities.task import ActivityTask
from outlast_store.database.database import Database
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.errors import StructuralLimitError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.primitives.payloads import Payload

SECOND = 1_000_000


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = START
        self.off = 0

    def now(self) -> int:
        return self.at + self.off

    def monotonic(self) -> float:
        return (self.at - START) / SECOND

    def pass_(self, seconds: float) -> None:
        self.at += round(seconds * SECOND)

    def set_back(self, seconds: float) -> None:
        self.off -= round(seconds * SECOND)


class Ward:
    """Heartbeats over a real table."""

    def __init__(self, database: Database, **given: Any) -> None:
        self.clock = HandClock()
        self.wakes: list[float] = []
        self.database = database
        self.connection: Connection = database.writer()
        environment = Environment(self.clock, rng=random.Random(1))
        self.heartbeats = Heartbeats(
            DataConverter(), environment, lambda: self.wakes.append(self.clock.monotonic()), **given
        )

    def attempt(self, activity_id: int = 1, **columns: Any) -> ActivityTask:
        """Insert a running activity with a heartbeat timeout of 10 s and an attempt of 60 s."""
        heartbeat = columns.pop("heartbeat", 10)
        options = ActivityOptions(heartbeat_timeout=heartbeat, start_to_close_timeout=60)
        given = {
            "activity_id": activity_id,
            "start_to_close_deadline_at": START + 60 * SECOND,
            "heartbeat_deadline_at": START + heartbeat * SECOND if heartbeat else None,
            "next_deadline_at": START + (heartbeat or 60) * SECOND,
        }
        row = running_row(options, **{**given, **columns})
        statements = statements_for(self.database.backend)
        statements.insert(self.connection, tables.activity_executions, [tuple(vars(row).values())])
        return ActivityTask(row, Payload(b"[]"), "order-1", "Order")

    def change(self, task: ActivityTask, assignment: str) -> None:
        text = f"UPDATE activity_executions SET {assignment} WHERE activity_id = {task.activity_id}"
        self.connection.exec_driver_sql(text)

    def row(self, task: ActivityTask) -> ActivityRow:
        text = f"SELECT * FROM activity_executions WHERE activity_id = {task.activity_id}"
        return ActivityRow(*self.connection.exec_driver_sql(text).one())

    def flush(self) -> list[Lost]:
        return self.heartbeats.flush(self.connection, self.clock.now())


@pytest.fixture
def ward(database: Database) -> Iterator[Ward]:
    made = Ward(database)
    yield made
    made.connection.close()


def test_the_first_beat_is_written_at_once(ward: Ward):
    task = ward.attempt()
    ward.clock.pass_(3)
    ward.heartbeats.record(task, (1, "row"))
    assert ward.wakes == [3.0]
    assert ward.heartbeats.due_in_s() == 0
    assert ward.flush() == []
    row = ward.row(task)
    assert (row.heartbeat_at, row.heartbeat_details) == (START + 3 * SECOND, '[1,"row"]')
    assert row.heartbeat_deadline_at == row.next_deadline_at == START + 13 * SECOND
    assert row.start_to_close_deadline_at == START + 60 * SECOND


def test_a_clock_that_was_set_back_moves_no_deadline_back(ward: Ward):
    task = ward.attempt()
    ward.clock.set_back(2)
    ward.heartbeats.record(task, ())
    ward.flush()
    row = ward.row(task)
    assert (row.heartbeat_at, row.heartbeat_deadline_at) == (START, START + 10 * SECOND)
    ward.change(task, f"heartbeat_at = {START + 20 * SECOND}, next_deadline_at = {START + 30 * SECOND}")
    ward.clock.pass_(10)
    ward.heartbeats.record(task, ())
    ward.flush()
    row = ward.row(task)
    assert (row.heartbeat_at, row.heartbeat_deadline_at) == (START + 20 * SECOND, START + 30 * SECOND)


def test_the_next_deadline_is_the_least(ward: Ward):
    task = ward.attempt()
    ward.change(
        task, f"next_deadline_at = {START + 60 * SECOND}, heartbeat_deadline_at = {START + 90 * SECOND}"
    )
    ward.clock.pass_(55)
    ward.heartbeats.record(task, ())
    ward.flush()
    row = ward.row(task)
    assert (row.heartbeat_deadline_at, row.next_deadline_at) == (START + 65 * SECOND, START + 60 * SECOND)


def test_beats_are_throttled_to_four_fifths_of_the_timeout(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, (1,))
    ward.flush()
    assert ward.heartbeats.due_in_s() is None
    ward.clock.pass_(1)
    for number in range(100):
        ward.heartbeats.record(task, (number,))
    assert len(ward.wakes) == 2
    assert ward.heartbeats.due_in_s() == 7
    ward.clock.pass_(6.9)
    ward.flush()
    assert ward.row(task).heartbeat_details == "[1]"
    ward.clock.pass_(0.1)
    ward.flush()
    assert ward.row(task).heartbeat_details == "[99]"


def test_the_deadline_counts_from_the_beat_whenever_it_is_written(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, ())
    ward.flush()
    ward.clock.pass_(1)
    ward.heartbeats.record(task, ())
    ward.clock.pass_(7)
    ward.flush()
    row = ward.row(task)
    assert (row.heartbeat_at, row.heartbeat_deadline_at) == (START + 1 * SECOND, START + 11 * SECOND)


def test_the_throttle_counts_from_the_beat_too(ward: Ward):
    """So a beat that comes in time is written in time, however late the one before it was written."""
    task = ward.attempt()
    ward.heartbeats.record(task, ())
    ward.flush()
    ward.clock.pass_(1)
    ward.heartbeats.record(task, ())
    ward.clock.pass_(7)
    ward.flush()
    ward.clock.pass_(2)
    ward.heartbeats.record(task, ())
    assert ward.heartbeats.due_in_s() == 0, "9 s after the beat that was written at 8 s"
    assert ward.flush() == []
    assert ward.row(task).heartbeat_deadline_at == START + 20 * SECOND


def test_a_clock_that_is_set_does_not_move_the_throttle(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, ())
    ward.flush()
    ward.clock.set_back(3600)
    ward.clock.pass_(1)
    ward.heartbeats.record(task, ())
    assert ward.heartbeats.due_in_s() == 7


def test_a_beat_counts_no_later_than_the_clock_under_the_lock(ward: Ward):
    task = ward.attempt()
    ward.clock.pass_(5)
    ward.heartbeats.record(task, ())
    ward.clock.set_back(2)
    ward.flush()
    assert ward.row(task).heartbeat_at == START + 3 * SECOND


def test_the_newest_beat_counts_though_an_older_one_is_recorded_after_it(ward: Ward):
    task = ward.attempt()
    ward.clock.pass_(5)
    ward.heartbeats.record(task, ())
    ward.heartbeats.record(task, (), ago_s=2)
    ward.flush()
    assert ward.row(task).heartbeat_at == START + 5 * SECOND


def test_a_beat_from_another_process_counts_from_when_it_was_there(ward: Ward):
    task = ward.attempt()
    ward.clock.pass_(5)
    ward.heartbeats.record(task, (1,), ago_s=1.5)
    ward.flush()
    assert ward.row(task).heartbeat_at == START + 3_500_000
    ward.heartbeats.record(task, (2,))
    assert ward.heartbeats.due_in_s() == 6.5


def test_the_time_that_interceptors_take_does_not_count(database: Database):
    class Slow(ActivityInterceptor):
        def heartbeat(self, call: Heartbeat, next: Callable[[Heartbeat], None]) -> None:
            slowed.clock.pass_(4)
            next(call)

    slowed = Ward(database, interceptors=Chain([Slow()], ActivityInterceptor))
    task = slowed.attempt()
    slowed.heartbeats.record(task, ())
    slowed.flush()
    assert slowed.row(task).heartbeat_at == START
    slowed.connection.close()


@pytest.mark.parametrize(("heartbeat", "throttle"), [(1, 0.8), (30, 24.0), (60, 30.0), (None, 30.0)])
def test_the_throttle_is_at_most_thirty_seconds(ward: Ward, heartbeat: int | None, throttle: float):
    task = ward.attempt(heartbeat=heartbeat)
    ward.heartbeats.record(task, ())
    assert ward.flush() == []
    ward.heartbeats.record(task, ())
    assert ward.heartbeats.due_in_s() == pytest.approx(throttle)
    assert ward.row(task).heartbeat_at == START


def test_a_beat_without_details_keeps_those_of_an_earlier_one(ward: Ward):
    task = ward.attempt(heartbeat_details='["previous attempt"]')
    ward.heartbeats.record(task, ())
    ward.flush()
    assert ward.row(task).heartbeat_details == '["previous attempt"]'
    ward.heartbeats.record(task, (5,))
    ward.clock.pass_(2)
    ward.heartbeats.record(task, ())
    ward.clock.pass_(6)
    ward.flush()
    assert ward.row(task).heartbeat_details == "[5]"
    assert ward.row(task).heartbeat_at == START + 2 * SECOND


def test_a_beat_at_its_deadline_loses(ward: Ward):
    task, punctual = ward.attempt(1), ward.attempt(2)
    ward.change(
        task, f"next_deadline_at = {START + 5 * SECOND}, heartbeat_deadline_at = {START + 5 * SECOND}"
    )
    ward.clock.pass_(5)
    ward.heartbeats.record(task, (1,))
    ward.heartbeats.record(punctual, (2,))
    assert ward.flush() == [Lost("run-1", 1, 1, "timed_out")]
    assert ward.row(task).heartbeat_at is None
    assert ward.row(punctual).heartbeat_details == "[2]"


@pytest.mark.parametrize(
    "change", ["attempt = 2", "status = 'pending'", "status = 'completed', closed_at = 5"], ids=str
)
def test_an_attempt_that_is_no_longer_the_current_one_is_lost(ward: Ward, change: str):
    task = ward.attempt()
    ward.change(task, change)
    ward.heartbeats.record(task, (1,))
    assert ward.flush() == [Lost("run-1", 1, 1, "lost")]
    assert ward.row(task).heartbeat_at is None


def test_an_activity_that_is_closed_as_cancelled_is_told_so(ward: Ward):
    task = ward.attempt()
    ward.change(task, "status = 'cancelled', closed_at = 5")
    ward.heartbeats.record(task, (1,))
    assert ward.flush() == [Lost("run-1", 1, 1, "cancel_requested", closed=True)]
    assert ward.row(task).heartbeat_at is None


def test_an_attempt_whose_row_is_gone_is_lost(ward: Ward):
    task = ward.attempt()
    ward.connection.exec_driver_sql("DELETE FROM activity_executions")
    ward.heartbeats.record(task, (1,))
    assert ward.flush() == [Lost("run-1", 1, 1, "lost")]


def test_two_attempts_of_one_activity_are_told_apart(ward: Ward):
    old = ward.attempt()
    ward.change(old, "attempt = 2")
    new = ActivityTask(ward.row(old), Payload(b"[]"), "order-1", "Order")
    ward.heartbeats.record(old, ("old",))
    ward.heartbeats.record(new, ("new",))
    assert ward.flush() == [Lost("run-1", 1, 1, "lost")]
    assert ward.row(new).heartbeat_details == '["new"]'


def test_a_cancel_request_is_told_and_the_beat_counts(ward: Ward):
    task = ward.attempt(cancel_requested=True)
    ward.heartbeats.record(task, (1,))
    assert ward.flush() == [Lost("run-1", 1, 1, "cancel_requested")]
    assert ward.row(task).heartbeat_details == "[1]"


def test_what_was_not_written_is_handed_over(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, (1,))
    ward.flush()
    ward.heartbeats.record(task, ())
    assert ward.heartbeats.take_pending(*task.key) is None, "it is written already"
    ward.heartbeats.record(task, (2,))
    ward.heartbeats.record(task, (3,))
    assert ward.heartbeats.take_pending(*task.key) == "[3]"
    assert ward.heartbeats.take_pending(*task.key) is None
    assert ward.flush() == []


def test_an_error_leaves_everything_to_the_next_flush(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, (1,))
    broken = ward.database.writer()
    if ward.database.url.memory:
        broken.exec_driver_sql("BEGIN")  # so that BEGIN IMMEDIATE fails
    else:
        broken.close()
    with pytest.raises(Exception):  # noqa: B017, PT011
        ward.heartbeats.flush(broken, ward.clock.now())
    if ward.database.url.memory:
        broken.exec_driver_sql("ROLLBACK")
        broken.close()
    assert ward.heartbeats.due_in_s() == 0
    assert ward.flush() == []
    assert ward.row(task).heartbeat_details == "[1]"


def test_details_are_still_pending_while_they_are_being_written(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, (1,))
    due = ward.heartbeats._take_due()
    assert ward.heartbeats.take_pending(*task.key) == "[1]", (
        "the flush may yet find that the attempt has ended"
    )
    ward.change(task, "status = 'pending'")
    assert ward.heartbeats._write(ward.connection, START, due) == [Lost("run-1", 1, 1, "lost")]


def test_many_are_written_together(ward: Ward):
    tasks = [ward.attempt(number) for number in range(1, 301)]
    for task in tasks:
        ward.heartbeats.record(task, (task.activity_id,))
    assert ward.flush() == []
    found = ward.connection.exec_driver_sql(
        "SELECT activity_id, heartbeat_details FROM activity_executions"
    ).all()
    assert {row[0]: row[1] for row in found} == {number: f"[{number}]" for number in range(1, 301)}
    assert len(ward.wakes) == 1


def test_details_over_the_payload_limit_are_refused(database: Database):
    ward = Ward(database, limits=StructuralLimits(payload_bytes=10))
    task = ward.attempt()
    with pytest.raises(StructuralLimitError):
        ward.heartbeats.record(task, ("much too long",))
    assert ward.heartbeats.due_in_s() is None
    ward.connection.close()


def test_a_forgotten_attempt_is_not_written(ward: Ward):
    task = ward.attempt()
    ward.heartbeats.record(task, (1,))
    ward.heartbeats.forget(task.key)
    assert ward.flush() == []
    assert ward.row(task).heartbeat_at is None
