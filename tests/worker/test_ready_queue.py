"""The ready queue keeps the order, lets the loop go round, and survives what fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from outlast.worker.runs.ready_queue import TURN_S, ReadyQueue


class Loop:
    """A loop that runs its callbacks when it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.later.append((delay, callback))

    def go_round(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> int:
        return 1_000_000

    def monotonic(self) -> float:
        return self.elapsed_s


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(loop: Any, clock: Any) -> ReadyQueue:
    return ReadyQueue(loop, clock)


def test_actions_run_in_order_and_not_before_the_loop_goes_round(queue: ReadyQueue, loop: Loop) -> None:
    done: list[int] = []
    for number in range(3):
        queue.enqueue(partial(done.append, number))
    assert done == []
    loop.go_round()
    assert done == [0, 1, 2]
    assert loop.soon == []


def test_the_loop_goes_round_when_the_turn_is_over(queue: ReadyQueue, loop: Loop, clock: Clock) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        clock.elapsed_s += TURN_S * 0.6

    for number in range(5):
        queue.enqueue(partial(work, number))
    loop.go_round()
    assert done == [0, 1]
    loop.go_round()
    assert done == [0, 1, 2, 3]
    loop.go_round()
    assert done == [0, 1, 2, 3, 4]
    assert loop.soon == []


def test_an_action_that_fails_is_logged_and_the_next_one_runs(
    queue: ReadyQueue, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []
    queue.enqueue(lambda: done.append(1 // 0))
    queue.enqueue(partial(done.append, 2))
    loop.go_round()
    assert done == [2]
    assert "ZeroDivisionError" in caplog.text


def test_what_an_action_enqueues_runs_behind_the_others(queue: ReadyQueue, loop: Loop) -> None:
    done: list[str] = []
    queue.enqueue(lambda: queue.enqueue(partial(done.append, "last")))
    queue.enqueue(partial(done.append, "first"))
    loop.go_round()
    assert done == ["first", "last"]


def test_what_is_due_is_called_at_once_and_the_rest_later(queue: ReadyQueue, loop: Loop) -> None:
    done: list[str] = []
    queue.call_at(1_000_000, partial(done.append, "due"))
    queue.call_at(3_500_000, partial(done.append, "later"))
    assert done == ["due"]
    assert [delay for delay, _ in loop.later] == [2.5]
