"""Results without a workflow task: each is committed until the store has taken or refused it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.worker.fakes import Notes

from outlast.worker.runs.late_results import LateResults
from outlast_activities.attempts import UNWRITABLE
from outlast_activities.changes import EndAttempt
from outlast_workflow.errors import (
    JournalClosedError,
    RefusedError,
    StoreUnreachableError,
    UnstorableValueError,
)
from outlast_workflow.primitives.payloads import Payload


class Task:
    """What a result belongs to."""

    def __init__(self, activity_id: int, attempt: int = 3, charged: int = 2) -> None:
        self.run_id, self.activity_id, self.attempt = "run-1", activity_id, attempt
        self.row: Any = type("Row", (), {"charged_attempt": charged})()


def committed(*ids: int) -> tuple[Notes, LateResults]:
    notes = Notes()
    runtime: Any = notes
    late = LateResults(runtime)
    tasks: list[Any] = [(Task(number), Payload.of(f"result {number}")) for number in ids]
    late.commit(tasks)
    return notes, late


def test_each_result_is_a_change_of_its_own_that_names_its_attempt() -> None:
    notes, _ = committed(1, 2)
    assert notes.changes == ["CompleteAttempt"] * 2
    for (change, _), number in zip(notes.submitted, (1, 2), strict=True):
        assert (change.runs, change.activities, change.attempt) == (("run-1",), (("run-1", number),), 3)
        assert (change.event.result.value, change.event.attempt) == (f"result {number}", 2)


@pytest.mark.parametrize("in_time", [True, False])
def test_what_was_taken_or_came_past_its_deadline_is_done_with(in_time: bool) -> None:
    notes, _ = committed(1)
    notes.submitted[0][1](in_time, None)
    assert (len(notes.submitted), notes.later) == (1, [])


@pytest.mark.parametrize("error", [RefusedError("stale_attempt", "late"), JournalClosedError()])
def test_what_is_refused_or_can_never_be_written_here_is_done_with(error: Exception) -> None:
    notes, _ = committed(1)
    notes.submitted[0][1](None, error)
    assert (len(notes.submitted), notes.later) == (1, [])


def test_the_very_same_change_is_sent_again_until_the_store_answers() -> None:
    notes, _ = committed(1)
    for tries in range(1, 4):
        change, done = notes.submitted[-1]
        done(None, StoreUnreachableError("nobody answers"))
        notes.later.pop()()
        assert len(notes.submitted) == tries + 1
        assert notes.submitted[-1][0] is change
    notes.submitted[-1][1](True, None)
    assert notes.later == []


def test_an_attempt_whose_result_cannot_be_stored_ends_as_failed() -> None:
    notes, _ = committed(1)
    notes.submitted[0][1](None, UnstorableValueError("a value"))
    change = notes.submitted[1][0]
    assert isinstance(change, EndAttempt)
    assert (change.attempt, change.end) == (3, UNWRITABLE)


def test_a_closed_client_is_no_error() -> None:
    notes = Notes()
    notes.closed = JournalClosedError()
    runtime: Any = notes
    task: Any = Task(1)
    LateResults(runtime).commit([(task, Payload.of(1))])
    assert notes.submitted == []
