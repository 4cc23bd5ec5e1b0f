"""Synchronous workflows: plain code that asks for what coroutines ask for, and ends as they end."""

from __future__ import annotations

import asyncio
import inspect
import traceback
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from greenlet import greenlet
from tests.workflow import driver
from tests.workflow.driver import START, Driver, new_machine, result_of, started
from tests.workflow.leftovers import left_behind
from tests.workflow.twins import TWINS, PlainSaga, charge, plain_steps, refund, steps

from outlast import workflow
from outlast_workflow.api import blocking
from outlast_workflow.api.blocking import BlockingHandle
from outlast_workflow.declare.definitions import PlainWorkflow, defn, run
from outlast_workflow.declare.handlers import signal
from outlast_workflow.errors import DurableCallError, WorkflowTaskError
from outlast_workflow.history.events import (
    ActivityCompleted,
    SignalReceived,
    TimerFired,
    TimerScheduled,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from outlast_workflow.loop.eviction import RunEvicted
from outlast_workflow.loop.greenlets import PlainCode
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay


def begin(code: Any, *args: Any) -> WorkflowMachine:
    """A machine after its first workflow task."""
    machine = new_machine(code)
    machine.run_workflow_task([started(*args)], START, history_events=1, history_bytes=1)
    return machine


def history(code: Any, seed: int, evict: float, *, cancel: bool) -> list[Any]:
    run = Driver(code, "o-1", seed=seed, evict=evict, cancel=cancel)
    run.run()
    return [(kind, text) for _, kind, text in run.rows]


# --- the same history -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("coroutines", "plain"), TWINS)
@pytest.mark.parametrize("cancel", [False, True], ids=["", "cancelled"])
@pytest.mark.parametrize("evict", [0, 1], ids=["cached", "always_replay"])
def test_plain_code_writes_the_history_of_its_twin_event_for_event(
    coroutines: Any, plain: Any, cancel: bool, evict: float
):
    for seed in range(25):
        assert history(plain, seed, evict, cancel=cancel) == history(coroutines, seed, evict, cancel=cancel)


@pytest.mark.parametrize(("recorded", "now"), [*TWINS, *((b, a) for a, b in TWINS)])
def test_what_one_twin_recorded_replays_on_the_other(recorded: Any, now: Any):
    for seed in range(10):
        drive = Driver(recorded, "o-1", seed=seed)
        drive.run()
        for length in drive.boundaries:
            machine = new_machine(now)
            replay(machine, drive.rows[:length])


def test_each_function_of_a_workflow_has_its_blocking_twin_or_needs_none():
    from outlast import workflow as face

    awaited = {
        "ChildWorkflowHandle",
        "ParentInfo",
        "ScheduleInfo",
        "UpdateInfo",
        "WorkflowInfo",
        "WorkflowStream",
    }
    declared = {"defn", "init", "query", "run", "signal", "update"}
    missing = set(face.__all__) - set(blocking.__all__) - awaited - declared - {"blocking", "unsafe"}
    assert not missing, "give them a twin in outlast_workflow/blocking.py, or export them there as they are"
    for name in set(face.__all__) & set(blocking.__all__):
        ours, theirs = getattr(blocking, name), getattr(face, name)
        if inspect.isfunction(ours) and name != "shield":
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), (
                name
            )


# --- at work ----------------------------------------------------------------------------------------------------------


def test_its_context_is_the_tasks():
    variable: ContextVar[str] = ContextVar("variable", default="outside")

    @defn
    def order() -> list[str]:
        seen = [variable.get()]
        token = variable.set("mine")
        blocking.sleep(1)
        seen.append(variable.get())
        seen.append(blocking.await_(look()))
        variable.reset(token)
        return [*seen, variable.get()]

    async def look() -> str:
        return variable.get()

    machine = begin(order)
    assert variable.get() == "outside"
    machine.run_workflow_task([TimerFired(1, START)], START, history_events=1, history_bytes=1)
    assert result_of(machine) == ["outside", "mine", "mine", "outside"]


def test_a_result_that_is_there_is_had_at_once_and_again():
    @defn
    def order() -> list[Any]:
        handle = blocking.start_activity("a")
        first = handle.result()
        assert handle.done()
        return [first, handle.result(), handle.result(timeout=5), handle.cancel(), handle.cancelled()]

    machine = begin(order)
    machine.run_workflow_task(
        [ActivityCompleted(1, Payload.of(7), 1)], START, history_events=1, history_bytes=1
    )
    assert result_of(machine) == [7, 7, 7, False, False]


def test_a_function_that_returns_a_coroutine_after_all_is_awaited():
    async def real() -> str:
        await workflow.sleep(1)
        return "done"

    def traced() -> Coroutine[Any, Any, str]:
        return real()

    machine = begin(defn(traced))
    machine.run_workflow_task([TimerFired(1, START)], START, history_events=1, history_bytes=1)
    assert result_of(machine) == "done"


def test_what_it_raises_ends_the_run_as_ever():
    @defn
    def order(how: str) -> None:
        blocking.sleep(0)
        if how == "again":
            blocking.continue_as_new(how)
        raise ValueError(how)

    machine = begin(order, "bad")
    assert isinstance(machine.terminal, WorkflowFailed)
    assert machine.terminal.failure["type"] == "ValueError"
    assert isinstance(begin(order, "again").terminal, WorkflowContinuedAsNew)


def test_a_cancellation_arrives_where_it_blocks():
    seen: list[str] = []

    @defn
    def order() -> None:
        try:
            blocking.sleep(100)
        except asyncio.CancelledError:
            seen.append(traceback.format_exc())
            raise

    machine = begin(order)
    machine.run_workflow_task([WorkflowCancelRequested("enough")], START, history_events=1, history_bytes=1)
    assert isinstance(machine.terminal, WorkflowCancelled)
    assert "blocking.sleep(100)" in seen[0]


def test_it_is_cancelled_before_its_first_step_too():
    @defn
    def order() -> None:
        raise AssertionError

    machine = new_machine(order)
    machine.run_workflow_task(
        [started(), WorkflowCancelRequested(None)], START, history_events=1, history_bytes=1
    )
    assert isinstance(machine.terminal, WorkflowFailed | WorkflowCancelled)


@defn
class Talker:
    def __init__(self) -> None:
        self.notes: list[str] = []

    @run
    def run(self) -> list[str]:
        blocking.wait_condition(lambda: len(self.notes) >= 3)
        blocking.wait_condition(blocking.all_handlers_finished)
        return self.notes

    @signal
    def note(self, text: str) -> None:
        self.notes.append(text)
        blocking.sleep(1)
        self.notes.append(f"{text} later")

    @signal
    async def coroutine(self, text: str) -> None:
        await workflow.sleep(1)
        self.notes.append(text)


def test_its_plain_handlers_may_block_and_its_coroutines_may_await():
    machine = begin(Talker)
    events = [SignalReceived("note", Payload.of(["a"])), SignalReceived("coroutine", Payload.of(["b"]))]
    commands = machine.run_workflow_task(events, START, history_events=1, history_bytes=1)
    assert [type(command) for command in commands] == [TimerScheduled, TimerScheduled]
    machine.run_workflow_task(
        [TimerFired(1, START), TimerFired(2, START)], START, history_events=1, history_bytes=1
    )
    assert result_of(machine) == ["a", "a later", "b"]


# --- where it is ------------------------------------------------------------------------------------------------------


def line_of(text: str) -> str:
    lines = inspect.getsource(inspect.getmodule(line_of) or pytest).splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if line.strip() == text)}"


@defn
def nested() -> None:
    def helper() -> None:
        blocking.sleep(44)

    helper()


@defn
def into_coroutines() -> None:
    async def helper() -> None:
        await workflow.sleep(45)

    blocking.await_(helper())


def test_it_waits_at_the_users_line():
    assert begin(nested).where() == line_of("blocking.sleep(44)")
    assert begin(into_coroutines).where() == line_of("await workflow.sleep(45)")


def test_a_command_that_differs_is_named_by_the_users_line():
    drive = Driver(steps, "o-1", seed=1)
    drive.run()

    @defn(name="steps")
    def other(order: str) -> None:
        blocking.sleep(55)

    machine = new_machine(other)
    with pytest.raises(WorkflowTaskError, match=line_of("blocking.sleep(55)").replace(".", r"\.")):
        replay(machine, drive.rows)


# --- in the wrong place -----------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: blocking.sleep(1),
    "wait_condition": lambda: blocking.wait_condition(lambda: True),
    "shield": lambda: blocking.shield(lambda: 1),
    "execute_activity": lambda: blocking.execute_activity("a"),
    "start_activity": lambda: blocking.start_activity("a"),
    "execute_child": lambda: blocking.execute_child("a"),
    "start_child": lambda: blocking.start_child("a"),
    "external": lambda: blocking.external("a").signal("b"),
    "await_": lambda: blocking.await_(asyncio.get_running_loop().create_future()),
    "charge.call": lambda: charge.call("o"),
}


@pytest.mark.parametrize("name", CALLS)
def test_blocking_in_a_coroutine_fails_the_task_and_says_what_to_do(name: str):
    @defn
    async def order() -> None:
        CALLS[name]()

    with pytest.raises(DurableCallError, match=rf"{name}.*blocks.*in an `async def`, use `(await )?[\w]+"):
        begin(order)
    assert driver.made[-1].log.entries == [], "nothing was asked for"


def test_a_handle_in_a_coroutine_says_so_too():
    @defn
    def order() -> None:
        handle = blocking.start_activity(charge, "o")

        async def waits() -> None:
            handle.result()

        blocking.await_(waits())

    with pytest.raises(DurableCallError, match=r"use `await handle\.future`"):
        begin(order)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "await_"])
def test_blocking_outside_of_a_workflow_says_so(name: str):
    with pytest.raises(DurableCallError, match="can only be called in a workflow"):
        CALLS[name]()


def test_a_predicate_may_not_block():
    @defn
    def order() -> None:
        blocking.wait_condition(lambda: blocking.sleep(1))

    with pytest.raises(WorkflowTaskError, match="it is read-only"):
        begin(order)


def test_a_wrong_timeout_fails_the_task():
    @defn
    def order() -> None:
        blocking.start_activity("a").result(timeout=float("nan"))

    with pytest.raises(ValueError, match="result timeout"):
        begin(order)


# --- leaving memory ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_to_the_garbage_collector(no_collector: None):
    @defn
    class Order:
        @run
        def run(self) -> None:
            handle = blocking.start_activity(charge, "o")
            try:
                blocking.shield(handle.result)
            finally:
                blocking.sleep(1)

        @signal
        def note(self) -> None:
            blocking.wait_condition(lambda: False)

    machine = begin(Order)
    machine.run_workflow_task(
        [SignalReceived("note", Payload.of([]))], START, history_events=1, history_bytes=1
    )
    assert len([thing for thing in left_behind() if isinstance(thing, PlainCode)]) == 3
    loop = weakref.ref(machine.loop)
    machine.evict()
    driver.made.clear()
    del machine
    assert left_behind() == []
    assert loop() is None


def test_a_run_that_ended_leaves_nothing_either(no_collector: None):
    for seed in range(20):
        Driver(PlainSaga, "o-1", seed=seed, cancel=bool(seed % 2)).run()
    driver.made.clear()
    assert [thing for thing in left_behind() if not isinstance(thing, PlainCode) and not thing.done()] == []
    assert [thing for thing in left_behind() if isinstance(thing, PlainCode)] == []


def test_eviction_runs_finally_blocks_and_asks_for_nothing():
    seen: list[Any] = []

    @defn
    def order() -> None:
        try:
            blocking.sleep(1)
        except Exception:
            seen.append("except Exception")
        except asyncio.CancelledError:
            seen.append("except CancelledError")
        finally:
            seen.append(blocking.in_workflow())
            try:
                charge.call("undo")
            finally:
                seen.append("cut short")
                blocking.sleep(1)
                seen.append("never")

    machine = begin(order)
    machine.evict()
    assert seen == [True, "cut short"]
    assert machine.log.entries == []


def test_code_that_swallows_its_eviction_is_given_up_and_named(caplog: pytest.LogCaptureFixture):
    @defn
    def order() -> None:
        for _ in range(1000):
            try:
                blocking.sleep(1)
            except BaseException:
                pass

    begin(order).evict()
    assert "swallows BaseException" in caplog.text
    # A greenlet can't be dropped half-way: this one stays for as long as it likes.
    for thing in left_behind():
        while isinstance(thing, PlainCode) and not thing.dead:
            thing.throw(RunEvicted)


def test_it_runs_below_any_greenlet_of_the_caller():
    """Whoever activates it may do so from a greenlet, and the next time from another."""

    @defn
    def order() -> str:
        blocking.sleep(1)
        return "done"

    machine = new_machine(order)

    def step(events: list[Any]) -> Any:
        return machine.run_workflow_task(events, START, history_events=1, history_bytes=1)

    first = greenlet(step)
    assert [type(command) for command in first.switch([started()])] == [TimerScheduled]
    greenlet(step).switch([TimerFired(1, START)])
    assert result_of(machine) == "done"


# --- what type checkers see -------------------------------------------------------------------------------------------


@defn
class Typed:
    @run
    def run(self, order: str, amount: int) -> float:
        return 1.0


@defn(name="typed")
def typed(order: str) -> bytes:
    return b""


async def coroutine(order: str) -> float:
    return 1.0


if TYPE_CHECKING:
    from typing import assert_type

    from tests.workflow.test_typing import start

    assert_type(Typed().run("o", 5), float)
    assert_type(start(Typed.run, "o", 5), float)
    assert_type(start(typed, "o"), bytes)
    assert_type(typed.definition.name, str)
    start(Typed.run, "o", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    start(typed, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def calling() -> None:
        assert_type(charge.call("o", 5), list[Any])
        assert_type(refund.call("o"), list[Any])
        assert_type(refund.with_options(priority=1).call(order="o"), list[Any])
        charge.call("o", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        charge.call()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        assert_type(blocking.sleep(1), None)
        assert_type(blocking.execute_activity(coroutine, "o"), float)
        assert_type(blocking.execute_activity(refund, "o", priority=1), list[Any])
        assert_type(blocking.execute_activity("charge", "o", result_type=int), int)
        assert_type(blocking.start_activity(coroutine, "o"), BlockingHandle[float])
        assert_type(blocking.start_activity(coroutine, "o").result(timeout=5), float)
        assert_type(blocking.execute_child(Typed.run, "o", 5), float)
        assert_type(blocking.execute_child(typed, "o", id="x"), bytes)
        assert_type(blocking.start_child(typed, "o").result(), bytes)
        assert_type(blocking.shield(refund.call, "o"), list[Any])
        assert_type(blocking.await_(coroutine("o")), float)
        blocking.execute_activity(coroutine, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        blocking.shield(refund.call, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        blocking.sleep("5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_samples_are_workflows():
    assert isinstance(typed, PlainWorkflow)
    assert isinstance(plain_steps, PlainWorkflow)
