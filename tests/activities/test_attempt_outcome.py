"""What is written about an attempt: its result, or why there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.activities.running import running_row

from outlast_activities import context as activity
from outlast_activities.attempt_outcome import OutcomeEncoder, let_go
from outlast_activities.attempts import CANCELLED, HANDED_BACK, AttemptEnd
from outlast_activities.context import RunningActivity
from outlast_activities.definitions import defn
from outlast_activities.stop_reason import StopReason
from outlast_activities.task import ActivityTask
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.enums import AttemptOutcome
from outlast_workflow.primitives.payloads import Payload

OBEYED = asyncio.CancelledError()
FAILED = ConnectionError("not undone")


@defn
async def work() -> None:
    """Never called: its outcomes are given."""


@pytest.fixture
def outcomes() -> OutcomeEncoder:
    return OutcomeEncoder(DataConverter(), StructuralLimits(payload_bytes=100))


def running(stopped: StopReason | None = None, *, seen: bool = True) -> RunningActivity:
    task = ActivityTask(running_row(ActivityOptions(start_to_close_timeout=60)), Payload(b"[]"), "w", "Order")
    heartbeats: Any = Environment()
    made = RunningActivity(task, work, DataConverter(), heartbeats, heartbeats)
    made.stopped, made.seen = stopped, seen and stopped is not None
    return made


@pytest.mark.parametrize(
    ("stopped", "seen", "error", "outcome"),
    [
        (None, False, FAILED, "failed"),
        (None, False, OBEYED, "failed"),
        (StopReason.CANCEL_REQUESTED, True, OBEYED, "cancelled"),
        (StopReason.CANCEL_REQUESTED, True, FAILED, "failed"),
        (StopReason.WORKER_SHUTDOWN, True, OBEYED, "handed_back"),
        (StopReason.WORKER_SHUTDOWN, True, FAILED, "handed_back"),
        (StopReason.WORKER_SHUTDOWN, False, FAILED, "failed"),
    ],
)
def test_an_exception_means_what_the_handler_was_asked(
    outcomes: OutcomeEncoder, stopped: StopReason | None, seen: bool, error: BaseException, outcome: str
) -> None:
    end = outcomes.raised(error, running(stopped, seen=seen))
    assert end.outcome == outcome
    assert (end.failure is not None) == (end.outcome is AttemptOutcome.FAILED)
    if outcome == "cancelled":
        assert end is CANCELLED


def test_what_activity_code_is_told_to_raise_is_obedience(outcomes: OutcomeEncoder) -> None:
    error = activity.Cancelled(StopReason.CANCEL_REQUESTED)
    assert outcomes.raised(error, running(StopReason.CANCEL_REQUESTED)) is CANCELLED


def test_a_result_counts_unless_the_worker_stops_and_the_handler_knows(outcomes: OutcomeEncoder) -> None:
    assert outcomes.returned(7, running()) == Payload(b"7")
    assert outcomes.returned(7, running(StopReason.CANCEL_REQUESTED)) == Payload(b"7")
    assert outcomes.returned(7, running(StopReason.WORKER_SHUTDOWN)) is HANDED_BACK
    assert outcomes.returned(7, running(StopReason.WORKER_SHUTDOWN, seen=False)) == Payload(b"7")


@pytest.mark.parametrize("result", [object(), "x" * 200], ids=["not JSON", "too large"])
def test_a_result_that_cannot_be_kept_is_not_tried_again(outcomes: OutcomeEncoder, result: object) -> None:
    end = outcomes.returned(result, running())
    assert isinstance(end, AttemptEnd)
    assert end.failure is not None
    assert end.failure["non_retryable"] is True


def test_no_traceback_is_kept() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        error = outer
    let_go(error)
    assert error.__traceback__ is None
    assert error.__cause__ is not None
    assert error.__cause__.__traceback__ is None
