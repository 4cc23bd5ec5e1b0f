from __future__ import annotations

import asyncio
import gc
import logging
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.workflow.driver import CONVERTER, START, new_machine, result_of, started

from outlast import workflow
from outlast_workflow.api.children import execute_child
from outlast_workflow.api.context import current_machine
from outlast_workflow.api.log import logger
from outlast_workflow.data.failures import activity_timeout_failure, failure_of
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import defn, run
from outlast_workflow.errors import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    DurableCallError,
    InvalidOptionError,
    MissingCodeError,
    PayloadDecodeError,
    PayloadEncodeError,
    StructuralLimitError,
)
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    Event,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowReset,
)
from outlast_workflow.options.failure_types import FailureTypes
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.enums import RetryState, TimeoutKind
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso, to_datetime
from outlast_workflow.run.machine import WorkflowMachine


def begin(workflow_type: Any, *args: Any, **options: Any) -> tuple[WorkflowMachine, list[Event]]:
    fields = options.pop("fields", {})
    machine = new_machine(workflow_type, **options)
    return machine, go(machine, started(*args, **fields))


def go(machine: WorkflowMachine, *events: Event, at: int = START) -> list[Event]:
    return machine.run_workflow_task(events, at, history_events=len(events), history_bytes=100)


def completed(command_id: int, result: Any = None) -> ActivityCompleted:
    return ActivityCompleted(command_id, Payload.of(result), 1)


def failed(command_id: int) -> ActivityFailed:
    failure = failure_of(ApplicationError("broken", type="Broken"), CONVERTER)
    return ActivityFailed(command_id, failure, 3, RetryState.MAXIMUM_ATTEMPTS_REACHED)


def timed_out(command_id: int) -> ActivityTimedOut:
    failure = activity_timeout_failure(
        timeout_kind=TimeoutKind.HEARTBEAT,
        deadline_at=START,
        activity_type="a",
        activity_id=command_id,
        attempt=2,
    )
    return ActivityTimedOut(command_id, "heartbeat", iso(START), failure, 2, RetryState.TIMEOUT)


def failure_in(commands: list[Event]) -> dict[str, Any]:
    assert isinstance(commands[-1], WorkflowFailed)
    return commands[-1].failure


def kinds(commands: list[Event]) -> list[str]:
    return [command.type for command in commands]


class Charge:
    name = "charge"
    options = ActivityOptions(start_to_close_timeout=10, task_queue="billing")
    transactional = False

    @staticmethod
    def fn(order: str, amount: int = 1) -> datetime:
        raise NotImplementedError

    signature = CallSignature.of(fn)


charge: Any = Charge()
untyped: Any = workflow.execute_activity

# --- activities -------------------------------------------------------------------------------------------------------


def test_a_command_is_the_event_that_records_the_call():
    @defn
    async def order(name: str) -> Any:
        return await workflow.execute_activity(
            charge, name, 5, priority=2, retry_policy=RetryPolicy(max_attempts=3)
        )

    machine, commands = begin(order, "o-1")
    (command,) = commands
    assert isinstance(command, ActivityScheduled)
    assert (command.command_id, command.activity_type, command.task_queue) == (1, "charge", "billing")
    assert command.input.value == ["o-1", 5]
    assert command.priority == 2
    assert ActivityOptions.from_snapshot(command.options.value).start_to_close_timeout == 10
    assert ActivityOptions.from_snapshot(command.options.value).policy.max_attempts == 3
    (end,) = go(machine, completed(1, "2024-01-02T03:04:05Z"))
    assert isinstance(end, WorkflowCompleted)
    assert (
        end.result.value == "2024-01-02T03:04:05+00:00"
    )  # read as a datetime by the call's hint, and written again
    assert machine.terminal is end


def test_queue_and_priority_default_to_those_of_the_run():
    @defn
    async def order() -> None:
        await workflow.execute_activity("a", 1)

    _, (command,) = begin(order, fields={"workflow_id": "x"})
    assert isinstance(command, ActivityScheduled)
    assert (command.task_queue, command.priority) == ("default", 5)


def test_options_of_the_call_go_before_the_declarations_and_the_workers():
    @defn
    async def order() -> None:
        calls = [
            workflow.start_activity(charge, "o", start_to_close_timeout=3),
            workflow.start_activity(
                charge, "o", options=ActivityOptions(heartbeat_timeout=1), start_to_close_timeout=4
            ),
        ]
        await asyncio.gather(*calls, workflow.execute_activity("other"))

    defaults = ActivityOptions(schedule_to_close_timeout=100, start_to_close_timeout=50)
    _, commands = begin(order, default_activity_options=defaults)
    given = [
        ActivityOptions.from_snapshot(c.options.value) for c in commands if isinstance(c, ActivityScheduled)
    ]
    assert [o.start_to_close_timeout for o in given] == [3, 4, 50]
    assert [o.heartbeat_timeout for o in given] == [None, 1, None]
    assert [o.schedule_to_close_timeout for o in given] == [100, 100, 100]


def test_errors_of_activities_arrive_as_themselves():
    @defn
    async def order() -> list[str]:
        seen = []
        for name in "ab":
            try:
                await workflow.execute_activity(name)
            except ActivityTimeoutError as error:
                seen.append(f"{error.timeout_kind} {error.attempt}")
            except ActivityError as error:
                cause: Any = error.__cause__
                seen.append(f"{type(cause).__name__} {cause.type} {error.retry_state}")
        return seen

    machine, _ = begin(order)
    go(machine, failed(1))
    (end,) = go(machine, timed_out(2))
    assert isinstance(end, WorkflowCompleted)
    assert end.result.value == ["ApplicationError Broken maximum_attempts_reached", "heartbeat 2"]


def test_an_uncaught_activity_error_fails_the_run():
    @defn
    async def order() -> None:
        await workflow.execute_activity("a")

    machine, _ = begin(order)
    (end,) = go(machine, timed_out(1))
    assert isinstance(end, WorkflowFailed)
    assert end.by is None
    assert (end.failure["category"], end.failure["type"]) == ("activity", "ActivityTimeoutError")


def test_an_exception_group_fails_the_run_as_its_first_exception():
    @defn
    async def order() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(workflow.execute_activity("a"))
            group.create_task(workflow.execute_activity("b"))

    machine, commands = begin(order)
    assert len(commands) == 2
    commands = go(machine, failed(1))
    assert kinds(commands) == ["ActivityCancelRequested", "WorkflowFailed"]
    assert failure_in(commands)["type"] == "ExceptionGroup"


def test_cancelling_an_activity_asks_it_to_stop_and_ignores_what_it_says():
    @defn
    async def order() -> str:
        handle = workflow.start_activity("a")
        await workflow.execute_activity("b")
        assert handle.cancel()
        assert handle.cancelled()
        assert not handle.cancel()
        await workflow.execute_activity("c")
        return "done"

    machine, _ = begin(order)
    commands = go(machine, completed(2))
    assert commands == [ActivityCancelRequested(1), commands[1]]
    assert go(machine, completed(1), ActivityCancelled(1)) == []
    assert kinds(go(machine, completed(3))) == ["WorkflowCompleted"]


def test_what_is_cancelled_before_it_was_sent_leaves_a_hole_in_the_numbers():
    @defn
    async def order() -> None:
        workflow.start_activity("a").cancel()
        task = asyncio.create_task(asyncio.sleep(5))
        await asyncio.sleep(0)
        task.cancel()
        await workflow.execute_activity("b")

    _, commands = begin(order)
    assert [command.signature() for command in commands] == [("ActivityScheduled", 3, "b")]


def test_an_activity_is_numbered_when_it_is_called_not_when_it_is_awaited():
    @defn
    async def order() -> None:
        second, first = workflow.execute_activity("x"), workflow.execute_activity("y")
        await first
        await second

    _, commands = begin(order)
    assert [command.signature()[1:] for command in commands] == [(1, "x"), (2, "y")]


def test_ten_thousand_activities_in_one_gather():
    @defn
    async def order(count: int) -> int:
        return sum(await asyncio.gather(*(workflow.execute_activity("a", i) for i in range(count))))

    machine, commands = begin(order, 10_000)
    assert [c.signature()[1] for c in commands] == list(range(1, 10_001))
    (end,) = go(machine, *(completed(i, 2) for i in reversed(range(1, 10_001))))
    assert isinstance(end, WorkflowCompleted)
    assert end.result.value == 20_000


# --- timers and time --------------------------------------------------------------------------------------------------


def test_sleeping_is_a_durable_timer_and_time_is_the_workflow_tasks():
    @defn
    async def order() -> list[Any]:
        loop = asyncio.get_running_loop()
        times = [loop.time(), workflow.now()]
        await asyncio.sleep(1.1)
        times += [loop.time(), workflow.now()]
        await workflow.sleep(timedelta(milliseconds=1))
        return [*times, loop.time()]

    machine, commands = begin(order)
    assert commands == [TimerScheduled(1, START + 1_100_000)]
    assert go(machine, TimerFired(1, START + 1_100_000), at=START + 5) == [
        TimerScheduled(2, START + 1_101_000)
    ]
    assert machine.time == START + 1_100_000
    (end,) = go(machine, TimerFired(2, START + 1_101_000), at=START + 9_000_000)
    assert isinstance(end, WorkflowCompleted)
    begun, later = to_datetime(START), to_datetime(START + 1_100_000)
    assert end.result.value == [0.0, begun.isoformat(), 1.1, later.isoformat(), 9.0]


def test_time_never_goes_back():
    @defn
    async def order() -> None:
        await workflow.execute_activity("a")
        await workflow.execute_activity("b")

    machine, _ = begin(order)
    go(machine, completed(1), at=START - 7)
    assert machine.time == START


@pytest.mark.parametrize("duration", [0, -3, -1.5, timedelta(0), timedelta(seconds=-1)])
def test_sleeping_no_time_needs_no_timer_but_gives_way(duration: Any):
    @defn
    async def order() -> list[str]:
        trace: list[str] = []

        async def other() -> None:
            trace.append("other")

        task = asyncio.create_task(other())
        await workflow.sleep(duration)
        trace.append("main")
        await task
        return trace

    machine, commands = begin(order)
    assert kinds(commands) == ["WorkflowCompleted"]
    assert result_of(machine) == ["other", "main"]


@pytest.mark.parametrize(
    "duration", [float("nan"), float("inf"), float("-inf"), "1", True, None, 1e12, 1e308, 10**400]
)
def test_sleeping_nonsense_fails_the_task(duration: Any):
    @defn
    async def order() -> None:
        try:
            await workflow.sleep(duration)
        except Exception:
            pass  # swallowing it does not help

    with pytest.raises(InvalidOptionError, match="sleep duration"):
        begin(order)


@pytest.mark.parametrize("duration", [float("nan"), float("inf"), float("-inf"), "1", 1e308, 10**400])
def test_a_condition_with_a_timeout_that_is_nonsense_fails_the_task(duration: Any):
    @defn
    async def order() -> None:
        with suppress(Exception):
            await workflow.wait_condition(lambda: False, timeout=duration)

    with pytest.raises(InvalidOptionError, match="wait_condition timeout"):
        begin(order)


async def _within(seconds: Any) -> None:
    async with asyncio.timeout(seconds):
        await asyncio.get_running_loop().create_future()


WAITS: dict[str, Callable[[Any], Any]] = {
    "asyncio.sleep": asyncio.sleep,
    "asyncio.timeout": _within,
    "asyncio.wait_for": lambda seconds: asyncio.wait_for(asyncio.get_running_loop().create_future(), seconds),
    "asyncio.wait": lambda seconds: asyncio.wait(
        [asyncio.get_running_loop().create_future()], timeout=seconds
    ),
    "loop.call_later": lambda seconds: asyncio.sleep(
        0, asyncio.get_running_loop().call_later(seconds, print)
    ),
    "loop.call_at": lambda seconds: asyncio.sleep(0, asyncio.get_running_loop().call_at(seconds, print)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_waiting_for_what_is_no_number_fails_the_task(wait: str):
    @defn
    async def order() -> None:
        await WAITS[wait](float("nan"))

    # Since 3.13 asyncio.sleep itself refuses it, before the loop sees it.
    if wait == "asyncio.sleep" and sys.version_info >= (3, 13):
        _, (end,) = begin(order)
        assert isinstance(end, WorkflowFailed)
        return
    with pytest.raises(InvalidOptionError, match="must be a number of seconds, not nan"):
        begin(order)


@pytest.mark.parametrize("how", ["loop.call_later", "loop.call_at"])
def test_a_callback_at_minus_infinity_fails_the_task(how: str):
    @defn
    async def order() -> None:
        await WAITS[how](float("-inf"))

    with pytest.raises(InvalidOptionError, match="not -inf"):
        begin(order)


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("seconds", [1e308, 10**300, math.inf, 1e18])
def test_a_wait_beyond_all_years_never_ends_and_has_no_timer(wait: str, seconds: float):
    @defn
    async def order() -> None:
        await WAITS[wait](seconds)
        await asyncio.get_running_loop().create_future()

    _, commands = begin(order)
    assert commands == []


@pytest.mark.parametrize("wait", ["asyncio.sleep", "loop.call_later", "loop.call_at"])
@pytest.mark.parametrize("seconds", [-1e308, -(10**300), -1e18, -1])
def test_a_wait_that_is_long_over_ends_at_once(wait: str, seconds: float):
    @defn
    async def order() -> str:
        await WAITS[wait](seconds)
        return "done"

    machine, commands = begin(order)
    assert kinds(commands) == ["WorkflowCompleted"]
    assert result_of(machine) == "done"


def test_a_timer_taken_back_is_recorded_only_if_it_was_sent():
    @defn
    async def order() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        async with asyncio.timeout(6):
            await workflow.execute_activity("a")

    machine, commands = begin(order)
    assert [c.signature()[:2] for c in commands] == [("TimerScheduled", 2), ("ActivityScheduled", 3)]
    assert go(machine, completed(3))[:1] == [TimerCancelled(2)]


def test_a_timeout_gives_the_activity_up():
    @defn
    async def order() -> str:
        try:
            await asyncio.wait_for(workflow.execute_activity("a"), 1)
        except TimeoutError:
            return "too slow"
        return "in time"

    machine, commands = begin(order)
    assert sorted(kinds(commands)) == ["ActivityScheduled", "TimerScheduled"]
    timer = next(c for c in commands if isinstance(c, TimerScheduled))
    commands = go(machine, TimerFired(timer.command_id, timer.fire_at))
    assert kinds(commands) == ["ActivityCancelRequested", "WorkflowCompleted"]


@pytest.mark.parametrize("never", [float("inf"), 1e18])
def test_waiting_for_ever_needs_no_timer(never: float):
    @defn
    async def order() -> None:
        async with asyncio.timeout(never):
            await workflow.execute_activity("a")

    _, commands = begin(order)
    assert kinds(commands) == ["ActivityScheduled"]


def test_a_timer_that_fired_and_was_cancelled_in_one_workflow_task_is_not_cancelled_again():
    @defn
    async def order() -> str:
        sleeper = asyncio.create_task(asyncio.sleep(1))
        await workflow.execute_activity("a")
        sleeper.cancel()
        await asyncio.wait([sleeper])
        return "cancelled" if sleeper.cancelled() else "slept"

    machine, _ = begin(order)
    commands = go(machine, completed(1), TimerFired(2, START + 1_000_000))
    assert kinds(commands) == ["WorkflowCompleted"]


# --- how runs end -----------------------------------------------------------------------------------------------------


def test_any_exception_that_leaves_run_fails_the_run():
    @defn
    async def order() -> None:
        raise KeyError("k")

    _, (end,) = begin(order)
    assert isinstance(end, WorkflowFailed)
    assert (end.failure["category"], end.failure["type"], end.by) == ("application", "KeyError", None)
    assert "test_machine.py" in end.failure["stack"]


def test_a_worker_may_make_exceptions_fail_the_task_instead():
    @defn
    async def order() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        begin(order, failure_types=FailureTypes(task=[KeyError]))


def test_a_result_that_cannot_be_written_fails_the_task():
    @defn
    async def order() -> Any:
        return object()

    with pytest.raises(PayloadEncodeError, match="the result of workflow order"):
        begin(order)


def test_commands_of_what_still_runs_come_before_the_terminal_one():
    @defn
    async def order() -> None:
        async def background() -> None:
            await asyncio.sleep(0)
            await workflow.execute_activity("late")

        task = asyncio.create_task(background())
        del task

    _, commands = begin(order)
    assert kinds(commands) == ["ActivityScheduled", "WorkflowCompleted"]


def test_continue_as_new_is_control_flow():
    @defn(name="loop")
    async def order(n: int) -> None:
        try:
            await asyncio.gather(workflow.execute_activity("a"))
        except Exception:  # does not catch what follows
            pass
        try:
            workflow.continue_as_new(
                n + 1, task_queue="other", run_timeout=timedelta(minutes=1), memo={"k": 1}
            )
        except Exception as error:
            raise AssertionError from error

    machine, _ = begin(order, 1)
    (end,) = go(machine, completed(1))
    assert isinstance(end, WorkflowContinuedAsNew)
    assert (end.workflow_type, end.input.value, end.task_queue, end.run_timeout_seconds) == (
        "loop",
        [2],
        "other",
        60,
    )
    assert end.memo is not None
    assert end.memo.value == {"k": 1}


@pytest.mark.parametrize(
    "call", [lambda: workflow.continue_as_new(), lambda: workflow.continue_as_new(1, run_timeout=0)]
)
def test_a_wrong_continue_as_new_fails_the_task(call: Any):
    @defn
    async def order(n: int) -> None:
        call()

    with pytest.raises((DurableCallError, InvalidOptionError)):
        begin(order, 1)


# --- cancellation -----------------------------------------------------------------------------------------------------


def test_a_cancel_request_arrives_as_cancelled_error():
    @defn
    async def order() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await workflow.execute_activity("undo")
            raise
        return "slept"

    machine, _ = begin(order)
    assert kinds(go(machine, WorkflowCancelRequested("enough"))) == ["TimerCancelled", "ActivityScheduled"]
    assert go(machine, completed(2)) == [WorkflowCancelled("enough")]


def test_a_cancel_request_in_the_first_workflow_task_lets_the_code_begin():
    @defn
    async def order() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "cleaned up"
        return "slept"

    machine = new_machine(order)
    commands = go(machine, started(), WorkflowCancelRequested())
    assert kinds(commands) == ["WorkflowCompleted"]
    assert result_of(machine) == "cleaned up"


@pytest.mark.parametrize("result_first", [True, False])
def test_result_and_cancel_in_one_batch_count_in_order_of_arrival(result_first: bool):
    @defn
    async def order() -> str:
        try:
            await asyncio.gather(workflow.execute_activity("a"))
        except asyncio.CancelledError:
            return "cancelled"
        return "completed"

    machine, _ = begin(order)
    events: list[Event] = [completed(1), WorkflowCancelRequested()]
    commands = go(machine, *(events if result_first else reversed(events)))
    assert result_of(machine) == ("completed" if result_first else "cancelled")
    assert kinds(commands[:-1]) == ([] if result_first else ["ActivityCancelRequested"])


def test_an_own_cancelled_error_without_a_request_fails_the_run():
    @defn
    async def order() -> None:
        raise asyncio.CancelledError

    _, (end,) = begin(order)
    assert isinstance(end, WorkflowFailed)
    assert end.failure["category"] == "cancelled"


# --- what fails the task ----------------------------------------------------------------------------------------------


def test_an_input_that_cannot_be_read_names_the_parameter():
    @defn
    async def order(amount: int) -> None: ...

    with pytest.raises(PayloadDecodeError, match="amount"):
        begin(order, "many")


def test_a_result_that_cannot_be_read_names_the_activity():
    @defn
    async def order() -> None:
        await workflow.execute_activity(charge, "o")

    machine, _ = begin(order)
    with pytest.raises(PayloadDecodeError, match="the result of charge"):
        go(machine, completed(1, [1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: workflow.execute_activity(charge), r"takes 1 to 2 arguments"),
        (lambda: workflow.execute_activity(charge, object()), "cannot be written as JSON"),
        (
            lambda: workflow.execute_activity(charge, "o", start_to_close_timeout=-1),
            "start to close timeout|start-to",
        ),
        (lambda: untyped(charge, "o", colour="red"), "colour"),
        (lambda: untyped(len, "o"), "is not an activity"),
        (
            lambda: workflow.execute_activity("unbounded"),
            "nothing bounds how long activity unbounded may take",
        ),
    ],
)
def test_a_wrong_durable_call_fails_the_task_even_if_it_is_swallowed(call: Any, message: str):
    @defn
    async def order() -> None:
        try:
            await call()
        except Exception:
            pass
        await workflow.execute_activity(charge, "o")

    with pytest.raises((DurableCallError, InvalidOptionError, PayloadEncodeError), match=message):
        begin(order, default_activity_options=None)


def test_a_deadline_of_the_run_bounds_its_activities():
    @defn
    async def order() -> None:
        await workflow.execute_activity("a")

    fields = {"run_deadline_at": iso(START + 10)}
    _, commands = begin(order, default_activity_options=None, fields=fields)
    assert kinds(commands) == ["ActivityScheduled"]


def test_a_callback_that_raises_fails_the_task():
    @defn
    async def order() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        begin(order)


def test_an_event_of_a_later_version_fails_the_task():
    @defn
    async def order() -> None:
        await asyncio.sleep(1)

    machine, _ = begin(order)
    with pytest.raises(MissingCodeError, match="WorkflowReset"):
        go(machine, WorkflowReset("run-2"))


def test_code_that_swallows_a_refusal_gets_no_further_than_its_next_await():
    reached: list[str] = []

    @defn
    async def order() -> None:
        try:
            await workflow.execute_activity(untyped)
        except Exception:
            reached.append("swallowed")
        while True:  # would never end
            await asyncio.sleep(0)
            reached.append("went on")
            assert len(reached) < 5

    with pytest.raises(DurableCallError):
        begin(order)
    assert reached == ["swallowed"]


def test_an_interrupted_workflow_task_fails_whatever_its_code_swallows():
    class Blocked(Exception): ...

    @defn
    async def order() -> None:
        try:
            current_machine().interrupt(Blocked())  # a monitor does, and raises it here
            raise Blocked
        except Exception:
            await asyncio.sleep(0)

    with pytest.raises(Blocked):
        begin(order)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (StructuralLimits(pending_activities=3), "pending_activities"),
        (StructuralLimits(commands_per_workflow_task=3), "commands_per_workflow_task"),
        (StructuralLimits(payload_bytes=100), "payload_bytes"),
    ],
)
def test_a_run_past_a_limit_fails_by_the_engines_word(limits: StructuralLimits, kind: str):
    @defn
    async def order() -> None:
        calls = [workflow.execute_activity("a", "x" * 30 * n) for n in range(1, 5)]
        with pytest.raises(StructuralLimitError):
            await asyncio.gather(*calls)

    machine, commands = begin(order, limits=limits)
    (end,) = commands
    assert isinstance(end, WorkflowFailed)
    assert end.by == "structural_limit"
    assert (end.failure["category"], end.failure["kind"]) == ("structural_limit", kind)
    assert machine.terminal is end


def test_what_is_at_its_limit_is_not_past_it():
    @defn
    async def order() -> None:
        await asyncio.gather(*(workflow.execute_activity("a") for _ in range(3)))

    _, commands = begin(order, limits=StructuralLimits(pending_activities=3, commands_per_workflow_task=3))
    assert len(commands) == 3


def test_too_many_timers_fail_the_run():
    @defn
    async def order() -> None:
        await asyncio.gather(*(asyncio.sleep(n) for n in range(1, 5)))

    _, commands = begin(order, limits=StructuralLimits(pending_timers=3))
    assert failure_in(commands)["kind"] == "pending_timers"


def test_a_result_over_the_payload_limit_fails_the_run():
    @defn
    async def order() -> str:
        return "x" * 1000

    _, (end,) = begin(order, limits=StructuralLimits(payload_bytes=1001))
    assert isinstance(end, WorkflowFailed)
    assert end.failure["type"] == "StructuralLimitError"


# --- what the code may ask --------------------------------------------------------------------------------------------


def test_info_tells_what_the_run_began_with_and_this_workflow_tasks_history():
    @defn
    async def order() -> None:
        info = workflow.info()
        assert (info.workflow_id, info.run_id, info.workflow_type, info.task_queue) == (
            "w",
            "run-1",
            "program",
            "default",
        )
        assert (info.attempt, info.run_number, info.priority) == (1, 1, 5)
        assert info.first_run_id == "run-1"
        assert info.previous_run_id is None
        assert info.start_time == to_datetime(START)
        assert info.run_deadline_at == to_datetime(START + 60_000_000)
        assert info.execution_deadline_at is None
        assert (info.run_timeout_seconds, info.execution_timeout_seconds) == (60, None)
        assert info.memo == {"k": "v"}
        assert (info.history_events, info.history_bytes, info.continue_as_new_suggested) == (1, 100, False)
        assert workflow.time_remaining() == timedelta(seconds=60)
        assert workflow.now() == to_datetime(START)
        await workflow.execute_activity("a")
        assert workflow.info().continue_as_new_suggested

    fields = {
        "workflow_id": "w",
        "run_deadline_at": iso(START + 60_000_000),
        "run_timeout_seconds": 60,
        "memo": Payload.of({"k": "v"}),
    }
    machine, _ = begin(order, fields=fields)
    (end,) = machine.run_workflow_task([completed(1)], START, history_events=4096, history_bytes=0)
    assert isinstance(end, WorkflowCompleted), end


def test_there_is_no_time_remaining_without_a_deadline():
    @defn
    async def order() -> None:
        assert workflow.time_remaining() is None

    _, (end,) = begin(order)
    assert isinstance(end, WorkflowCompleted)


def test_randomness_is_the_seeds():
    @defn
    async def order() -> list[Any]:
        return [str(workflow.uuid4()), workflow.random().random(), workflow.uuid4().version]

    results = [result_of(begin(order, fields={"seed": seed})[0]) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert results[0][2] == 4


def test_outside_a_workflow_the_functions_say_so():
    assert not workflow.in_workflow()
    for call in (
        workflow.now,
        workflow.info,
        lambda: workflow.execute_activity("a"),
        lambda: workflow.sleep(1),
    ):
        with pytest.raises(DurableCallError, match="only be called in a workflow"):
            call()


def test_the_logger_names_the_run_and_is_silent_in_replay(caplog: pytest.LogCaptureFixture):
    @defn
    async def order() -> None:
        assert workflow.in_workflow()
        logger.info("hello", extra={"more": 1})
        await asyncio.sleep(1)

    with caplog.at_level(logging.INFO, "outlast.workflow"):
        begin(order)
        (record,) = caplog.records
        assert [record.__dict__[name] for name in ("workflow_id", "run_id", "more")] == ["w-1", "run-1", 1]
        machine = new_machine(order)
        machine.replaying = True
        go(machine, started())
        assert len(caplog.records) == 1
        logger.info("outside")
        assert len(caplog.records) == 2


def test_what_a_task_raises_unseen_is_logged(caplog: pytest.LogCaptureFixture):
    @defn
    async def order() -> None:
        async def background() -> None:
            raise KeyError("lost")

        task = asyncio.create_task(background())
        await asyncio.sleep(0)
        del task
        await asyncio.sleep(1)

    with caplog.at_level(logging.ERROR, "outlast.workflow"):
        machine, _ = begin(order)
        machine.loop.tasks.clear()
        gc.collect()
    assert "never retrieved" in caplog.text


def test_the_outer_loop_and_hooks_are_put_back():
    @defn
    async def order() -> None:
        await asyncio.sleep(1)

    async def outside() -> None:
        loop = asyncio.get_running_loop()
        machine, _ = begin(order)
        assert asyncio.get_running_loop() is loop
        machine.evict()
        assert asyncio.get_running_loop() is loop

    asyncio.run(outside())


def test_each_run_has_a_context_of_its_own():
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="unset")

    @defn
    class Order:
        @run
        async def run(self, name: str) -> str:
            seen = variable.get()
            variable.set(name)
            await asyncio.sleep(1)
            return f"{seen} {variable.get()}"

    variable.set("the worker's")
    one, two = begin(Order, "one")[0], begin(Order, "two")[0]
    for machine, expected in ((one, "unset one"), (two, "unset two")):
        go(machine, TimerFired(1, START + 1_000_000))
        assert result_of(machine) == expected
    assert variable.get() == "the worker's"


@defn
async def continues_wrongly(number: int) -> None:
    workflow.continue_as_new("one")


@defn
async def has_a_wrong_child(number: int) -> None:
    wrong: Any = "one"
    await execute_child(continues_wrongly, wrong)


@pytest.mark.parametrize("program", [continues_wrongly, has_a_wrong_child])
def test_what_the_next_run_or_a_child_could_not_read_fails_the_task_while_it_can_be_mended(program):
    machine = new_machine(program)
    with pytest.raises(DurableCallError, match=r"'number' .* cannot be read as int"):
        machine.run_workflow_task([started(1)], START, history_events=1, history_bytes=1)
