"""Waiting for a condition: who is released and when, deadlines, and predicates that raise or try to change the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.workflow.driver import START

from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import TimerCancelled, TimerScheduled
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.wait_condition import ConditionFuture
from outlast_workflow.options.limits import StructuralLimits


@pytest.fixture
def loop() -> DeterministicLoop:
    loop = DeterministicLoop(CommandLog(StructuralLimits()), 7)  # type: ignore[abstract]
    loop.now = loop.started_at = START
    return loop


def wait(
    loop: DeterministicLoop, predicate: Callable[[], Any], timeout: float | None = None
) -> ConditionFuture:
    return ConditionFuture(loop, predicate, timeout)


def test_a_wait_is_over_once_its_predicate_holds(loop: DeterministicLoop):
    state: list[str] = []
    waiting = wait(loop, lambda: state)
    loop.run_ready()
    assert not waiting.done()
    state.append("approved")
    loop.run_ready()
    assert waiting.done()
    assert waiting.result() is None
    assert loop.conditions == []


def test_of_two_that_wait_for_one_thing_the_first_takes_it_before_the_second_is_asked(
    loop: DeterministicLoop,
):
    stock = ["last"]
    first, second = wait(loop, lambda: stock), wait(loop, lambda: stock)
    first.add_done_callback(lambda _: stock.pop())
    loop.run_ready()
    assert (first.done(), second.done()) == (True, False)


def test_without_conditions_no_predicate_is_asked(loop: DeterministicLoop):
    asked: list[int] = []
    _ = wait(loop, lambda: asked.append(1))
    loop.run_ready(conditions=False)
    assert asked == []


def test_the_waiter_gets_what_the_predicate_raises(loop: DeterministicLoop):
    waiting = wait(loop, lambda: 1 / 0)
    loop.run_ready()
    assert isinstance(waiting.exception(), ZeroDivisionError)
    assert loop.conditions == []


def test_a_predicate_that_tries_to_change_the_run_fails_the_task_and_not_only_the_wait(
    loop: DeterministicLoop,
):
    waiting = wait(loop, lambda: loop.call_later(5, print))
    loop.run_ready()
    assert not waiting.done()
    assert isinstance(loop.log.refusal, ReadOnlyContextError)
    assert "a wait_condition predicate tried to" in str(loop.log.refusal)
    assert loop.log.take() == []


def test_a_timeout_is_a_durable_timer_that_goes_when_the_condition_holds(loop: DeterministicLoop):
    state: list[str] = []
    _ = wait(loop, lambda: state, timeout=5)
    assert loop.log.take() == [TimerScheduled(1, START + 5_000_000)]
    state.append("approved")
    loop.run_ready()
    assert loop.log.take() == [TimerCancelled(1)]


def test_a_timeout_raises_unless_the_condition_holds_at_that_moment(loop: DeterministicLoop):
    state: list[str] = []
    late, just_in_time = wait(loop, lambda: False, timeout=5), wait(loop, lambda: state, timeout=5)
    state.append("approved")
    for command_id in (1, 2):
        loop.fire(command_id)
    loop.run_ready(conditions=False)
    assert isinstance(late.exception(), TimeoutError)
    assert just_in_time.result() is None


def test_a_cancelled_wait_asks_no_more_and_takes_its_timer_along(loop: DeterministicLoop):
    asked: list[int] = []
    waiting = wait(loop, lambda: asked.append(1), timeout=5)
    assert waiting.cancel()
    assert not waiting.cancel()
    loop.run_ready()
    assert asked == []
    assert loop.log.take() == []
