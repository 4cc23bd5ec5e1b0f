"""A run's activity calls: what is asked for live, what stands in replay, and what a cancelled call leaves behind."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.workflow.driver import BOUNDED, CONVERTER, START, started

from outlast_workflow.api.activities import _over, _overridden
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import (
    ActivityError,
    DurableCallError,
    InvalidOptionError,
    PayloadDecodeError,
    StructuralLimitError,
)
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
)
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import RetryState
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.activity_calls import NO_OPTIONS, ActivityCalls, ActivityFuture
from outlast_workflow.run.machine import WorkflowMachine


def new_calls(
    default_options: ActivityOptions | None = BOUNDED,
    limits: StructuralLimits | None = None,
    **fields: Any,
) -> ActivityCalls:
    loop = DeterministicLoop(CommandLog(limits or StructuralLimits()), 7)  # type: ignore[abstract]
    loop.now = loop.started_at = START
    return ActivityCalls(loop, started(**fields), CONVERTER, default_options)


def schedule(
    calls: ActivityCalls, *args: Any, options: ActivityOptions = NO_OPTIONS, hint: Any = Any
) -> ActivityFuture[Any]:
    return calls.schedule("charge", args, None, options, hint)


def only_command(calls: ActivityCalls) -> ActivityScheduled:
    (command,) = calls.log.take()
    assert isinstance(command, ActivityScheduled)
    return command


def test_a_call_is_numbered_and_asked_for_when_it_is_made():
    calls = new_calls()
    _ = schedule(calls, "order-1", 5, options=ActivityOptions(task_queue="payments", priority=2))
    command = only_command(calls)
    assert (command.command_id, command.activity_type) == (1, "charge")
    assert (command.task_queue, command.priority) == ("payments", 2)
    assert command.input.value == ["order-1", 5]


def test_queue_and_priority_are_those_of_the_run_where_the_call_names_none():
    command_of = new_calls()
    _ = schedule(command_of)
    command = only_command(command_of)
    assert (command.task_queue, command.priority) == (command_of.run.task_queue, command_of.run.priority)


def test_an_activity_that_nothing_bounds_is_refused_unless_its_run_has_a_deadline():
    calls = new_calls(default_options=None)
    with pytest.raises(DurableCallError, match="charge"):
        _ = schedule(calls)
    assert isinstance(calls.log.refusal, DurableCallError)
    _ = schedule(new_calls(default_options=None, run_deadline_at="2030-01-01T00:00:00+00:00"))


def test_in_replay_nothing_of_a_call_is_checked_or_encoded():
    calls = new_calls(default_options=None)
    calls.log.replaying = True
    _ = schedule(calls, object())
    assert calls.log.refusal is None
    assert only_command(calls).activity_type == "charge"


def test_too_many_open_activities_end_the_run():
    calls = new_calls(limits=StructuralLimits(pending_activities=1))
    _ = schedule(calls)
    with pytest.raises(StructuralLimitError) as caught:
        _ = schedule(calls)
    assert caught.value.kind == "pending_activities"


def test_the_result_is_read_as_the_hint_of_the_call():
    calls = new_calls()
    found = schedule(calls, hint=tuple[int, str])
    calls.completed(ActivityCompleted(1, Payload.of([1, "a"]), 1))
    assert found.result() == (1, "a")
    _ = schedule(calls, hint=int)
    with pytest.raises(PayloadDecodeError, match="the result of charge"):
        calls.completed(ActivityCompleted(2, Payload.of("many"), 1))


def test_a_failure_becomes_an_activity_error_with_its_cause():
    calls = new_calls()
    failed = schedule(calls)
    failure = failure_of(ValueError("declined"), CONVERTER)
    calls.ended_badly(ActivityFailed(1, failure, 3, RetryState.MAXIMUM_ATTEMPTS_REACHED))
    error = failed.exception()
    assert isinstance(error, ActivityError)
    assert (error.activity_type, error.attempt) == ("charge", 3)
    assert "declined" in str(error.__cause__)


def test_a_call_cancelled_in_its_own_workflow_task_was_never_made():
    calls = new_calls()
    future = schedule(calls)
    assert future.cancel()
    assert future.cancelled()
    assert calls.log.take() == []
    assert calls.open == {}


@pytest.mark.parametrize(
    ("cancellation_type", "commands", "cancelled_at_once"),
    [
        ("try", [ActivityCancelRequested(1)], True),
        ("wait", [ActivityCancelRequested(1, wait=True)], False),
        ("abandon", [], True),
    ],
)
def test_a_call_cancelled_later_does_what_its_cancellation_type_says(
    cancellation_type: str, commands: list[Any], cancelled_at_once: bool
):
    calls = new_calls()
    future = schedule(calls, options=ActivityOptions(cancellation_type=cancellation_type))
    calls.log.take()
    assert future.cancel()
    assert future.cancelled() is cancelled_at_once
    # A second request changes nothing.
    future.cancel()
    assert calls.log.take() == commands
    calls.cancelled(ActivityCancelled(1))
    assert future.cancelled()


def test_what_history_says_about_an_activity_that_is_no_longer_open_is_ignored():
    calls = new_calls()
    future = schedule(calls)
    calls.log.take()
    future.cancel()
    calls.completed(ActivityCompleted(1, Payload.of(1), 1))
    calls.completed(ActivityCompleted(99, Payload.of(1), 1))
    assert future.cancelled()


def test_options_of_a_call_are_remembered_by_value_and_type() -> None:
    """Otherwise True, which is equal to 1, would pass where 1 was given before."""

    def over(**given: Any) -> ActivityOptions:
        return _over(cast(WorkflowMachine, None), BOUNDED, given)

    assert over(start_to_close_timeout=1) is over(start_to_close_timeout=1)
    assert over(start_to_close_timeout=1) == BOUNDED.replace(start_to_close_timeout=1)
    assert over(options=ActivityOptions(priority=1), priority=2).priority == 2
    with pytest.raises(InvalidOptionError):
        _overridden(BOUNDED, (("start_to_close_timeout", True),), (bool,))
