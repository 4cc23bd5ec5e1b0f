"""The log of commands: numbers, order, withdrawal, refusal, and silence once it is closed."""

from __future__ import annotations

import pytest

from outlast_workflow.errors import DurableCallError, StructuralLimitError
from outlast_workflow.history.events import TimerScheduled
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.options.limits import StructuralLimits


def timer(number: int) -> TimerScheduled:
    return TimerScheduled(number, 1_000 * number)


def test_commands_are_taken_in_the_order_in_which_they_were_added():
    log = CommandLog(StructuralLimits())
    for number in (1, 2, 3):
        log.add(timer(number))
    assert log.take() == [timer(1), timer(2), timer(3)]
    assert log.take() == []


def test_a_withdrawn_command_leaves_a_hole_in_the_numbers_and_no_trace_in_the_commands():
    log = CommandLog(StructuralLimits())
    indexes = [log.add(timer(log.next_id())) for _ in range(3)]
    log.withdraw(indexes[1])
    assert log.take() == [timer(1), timer(3)]
    assert log.next_id() == 4


def test_taking_the_commands_ends_the_workflow_task():
    log = CommandLog(StructuralLimits())
    assert log.workflow_task == 0
    log.take()
    assert log.workflow_task == 1


def test_the_first_refusal_stays_and_each_is_returned_to_be_raised():
    log = CommandLog(StructuralLimits())
    first, second = DurableCallError("first"), DurableCallError("second")
    assert log.refuse(first) is first
    assert log.refuse(second) is second
    assert log.refusal is first


def test_a_command_too_many_is_refused_live_but_not_in_replay():
    limits = StructuralLimits(commands_per_workflow_task=2)
    live, replaying = CommandLog(limits, "order-1"), CommandLog(limits, "order-1")
    replaying.replaying = True
    for log in (live, replaying):
        log.add(timer(1))
        log.add(timer(2))
    with pytest.raises(StructuralLimitError) as caught:
        live.add(timer(3))
    assert (caught.value.kind, caught.value.value, caught.value.limit) == ("commands_per_workflow_task", 3, 2)
    assert live.refusal is caught.value
    replaying.add(timer(3))
    assert replaying.refusal is None
    assert len(replaying.take()) == 3


def test_replay_knows_where_each_command_that_was_not_withdrawn_was_asked_for():
    log = CommandLog(StructuralLimits())
    log.replaying = True
    log.add(timer(1))
    log.withdraw(log.add(timer(2)))
    log.add(timer(3))
    log.take()
    assert len(log.asked_at) == 2
    assert {place[0].co_name for place in log.asked_at if place} == {
        "test_replay_knows_where_each_command_that_was_not_withdrawn_was_asked_for"
    }


def test_a_closed_log_ignores_whatever_it_is_given():
    log = CommandLog(StructuralLimits(commands_per_workflow_task=1))
    log.add(timer(1))
    log.close()
    for number in (2, 3, 4):
        log.withdraw(log.add(timer(number)))
    assert log.replaying
    assert log.take() == []
    assert log.refusal is None
