from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from outlast_activities import context as activity
from outlast_activities.attempts import CANCELLED, HANDED_BACK
from outlast_activities.definitions import defn
from outlast_workflow.environment import Environment
from outlast_workflow.errors import ApplicationError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import AttemptOutcome, FailureCategory


@dataclass
class Order:
    number: int


class Gate:
    """A handler waits here, and the test knows that it does."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


class ThreadGate:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(30)


async def reached(gate: ThreadGate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 30)


# --- results ---------------------------------------------------------------------------------------------------------


async def test_an_async_handler_returns_its_result(bench: Any) -> None:
    @defn
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    assert await bench.run(add, 1, 2) == 3
    assert bench.runner.free == 10
    assert not bench.runner.running


async def test_a_plain_handler_runs_in_a_thread(bench: Any) -> None:
    @defn
    def where() -> str:
        return threading.current_thread().name

    assert (await bench.run(where)).startswith("outlast-activity")


async def test_a_plain_handler_runs_in_place_where_there_are_no_threads(
    new_bench: Callable[..., Any],
) -> None:
    @defn
    def where() -> str:
        assert activity.in_activity()
        return threading.current_thread().name

    bench = new_bench(environment=Environment(threads=False))
    assert await bench.run(where) == threading.current_thread().name
    assert not activity.in_activity()


async def test_arguments_come_by_type_hint(bench: Any) -> None:
    @defn
    async def number(order: Order) -> Order:
        return Order(order.number + 1)

    assert await bench.run(number, Order(1)) == {"number": 2}


async def test_a_configured_method_runs_on_its_object(bench: Any) -> None:
    class Payments:
        def __init__(self, fee: int) -> None:
            self.fee = fee

        @defn
        async def charge(self, amount: int) -> int:
            return amount + self.fee

        @defn
        def refund(self, amount: int) -> int:
            return -amount - self.fee

    payments = Payments(3)
    assert await bench.run(payments.charge, 10) == 13
    assert await bench.run(payments.refund, 10) == -13


async def test_many_handlers_run_at_once(new_bench: Callable[..., Any]) -> None:
    @defn
    async def same(number: int) -> int:
        await asyncio.sleep(0)
        return number

    bench = new_bench(max_concurrent=1000)
    for number in range(1000):
        bench.start(same, number)
    assert sorted([await bench.end() for _ in range(1000)]) == list(range(1000))


# --- failures --------------------------------------------------------------------------------------------------------


@defn
async def raises_async() -> None:
    raise ValueError("no such order")


@defn
def raises() -> None:
    raise ValueError("no such order")


@pytest.mark.parametrize("definition", [raises_async, raises], ids=["async", "plain"])
async def test_an_exception_is_a_failed_attempt(bench: Any, definition: Any) -> None:
    end = await bench.run(definition)
    assert end.outcome is AttemptOutcome.FAILED
    assert (end.failure["type"], end.failure["message"]) == ("ValueError", "no such order")
    assert end.failure["category"] == "application"
    assert "raises" in end.failure["stack"]
    assert not end.failure.get("non_retryable")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_would_end_the_process_is_a_failed_attempt(bench: Any, kind: Any, is_async: bool) -> None:
    @defn(name="leaves")
    async def leaves_async() -> None:
        raise kind

    @defn
    def leaves() -> None:
        raise kind

    end = await bench.run(leaves_async if is_async else leaves)
    assert end.outcome is AttemptOutcome.FAILED
    assert end.failure["type"] == kind.__name__


async def test_an_application_error_says_how_to_go_on(bench: Any) -> None:
    @defn
    async def refuse() -> None:
        raise ApplicationError("no", 1, type="CardRefused", non_retryable=True)

    failure = (await bench.run(refuse)).failure
    assert failure["type"] == "CardRefused"
    assert failure["non_retryable"] is True
    assert failure["details"] == [1]


async def test_input_that_cannot_be_read_names_the_parameter_and_is_not_tried_again(bench: Any) -> None:
    @defn
    async def number(order: Order) -> None: ...

    failure = (await bench.run(number, "not an order")).failure
    assert failure["type"] == "PayloadDecodeError"
    assert "parameter 'order' of number()" in failure["message"]
    assert "not an order" not in failure["message"]
    assert failure["non_retryable"] is True
    assert failure["category"] == FailureCategory.APPLICATION


async def test_a_result_without_a_json_form_is_not_tried_again(bench: Any) -> None:
    @defn
    async def lock() -> Any:
        return threading.Lock()

    failure = (await bench.run(lock)).failure
    assert failure["type"] == "PayloadEncodeError"
    assert "the result of lock" in failure["message"]
    assert failure["non_retryable"] is True


@pytest.mark.parametrize(("size", "fits"), [(98, True), (99, False)])
async def test_a_result_over_the_payload_limit_is_not_tried_again(
    new_bench: Callable[..., Any], size: int, fits: bool
) -> None:
    @defn
    async def large() -> str:
        return "x" * size

    outcome = await new_bench(limits=StructuralLimits(payload_bytes=100)).run(large)
    if fits:
        assert outcome == "x" * size
    else:
        assert outcome.failure["category"] == "structural_limit"
        assert outcome.failure["non_retryable"] is True


async def test_a_hidden_coroutine_is_told_apart_from_a_result(bench: Any) -> None:
    async def inner() -> int:
        return 1

    @defn
    def outer() -> Any:
        return inner()

    assert "returned a coroutine" in (await bench.run(outer)).failure["message"]


async def test_an_unknown_type_is_handed_back(bench: Any) -> None:
    @defn
    async def gone() -> None: ...

    task = bench.task(gone)
    del bench.definitions["gone"]
    assert bench.runner.reserve()
    bench.runner.start(task)
    assert await bench.end() == HANDED_BACK
    assert bench.runner.free == 10


async def test_a_failure_leaves_nothing_to_the_garbage_collector(bench: Any) -> None:
    class Witness: ...

    class Trouble(Exception):
        witness: Witness

    @defn
    async def cyclic() -> None:
        witness = Witness()
        try:
            raise KeyError("inner")
        except KeyError as error:
            kept = Trouble("outer")
            kept.witness = witness
            raise kept from error

    @defn
    async def fine() -> None: ...

    await bench.run(cyclic)
    await bench.run(fine)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            await bench.run(cyclic)
            await bench.run(fine)
        await asyncio.sleep(0)
        assert not [one for one in gc.get_objects() if isinstance(one, Witness)]
    finally:
        gc.enable()


async def test_an_end_that_cannot_be_told_does_not_cost_the_slot(
    new_bench: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    @defn
    async def fine() -> None: ...

    bench = new_bench(max_concurrent=1)
    told = asyncio.Event()

    def refuse(task: Any, outcome: Any) -> None:
        told.set()
        raise RuntimeError("closed")

    bench.runner._on_end = refuse
    bench.start(fine)
    await told.wait()
    await asyncio.sleep(0)
    assert bench.runner.free == 1
    assert "could not be reported" in caplog.text


# --- context ---------------------------------------------------------------------------------------------------------

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


async def test_handlers_do_not_share_a_context(new_bench: Callable[..., Any]) -> None:
    MARK.set("worker")
    bench = new_bench()

    @defn
    async def touch() -> str:
        found = MARK.get()
        MARK.set("handler")
        return found

    @defn
    def touch_plain() -> str:
        found = MARK.get()
        MARK.set("handler")
        return found

    for definition in (touch, touch_plain, touch, touch_plain):
        assert await bench.run(definition) == "worker"


async def test_what_the_end_starts_does_not_inherit_the_handler(new_bench: Callable[..., Any]) -> None:
    seen: list[tuple[bool, str]] = []
    bench = new_bench()
    told = bench.runner._on_end

    def look(task: Any, outcome: Any) -> None:
        seen.append((activity.in_activity(), MARK.get()))
        asyncio.get_running_loop().call_soon(look_later, task, outcome)

    def look_later(task: Any, outcome: Any) -> None:
        seen.append((activity.in_activity(), MARK.get()))
        told(task, outcome)

    bench.runner._on_end = look

    @defn
    async def touch() -> None:
        MARK.set("handler")

    @defn
    def touch_plain() -> None:
        MARK.set("handler")

    await bench.run(touch)
    await bench.run(touch_plain)
    assert seen == [(False, "none")] * 4


# --- slots -----------------------------------------------------------------------------------------------------------


async def test_slots_are_taken_all_or_none(new_bench: Callable[..., Any]) -> None:
    runner = new_bench(max_concurrent=3).runner
    assert runner.reserve(2)
    assert not runner.reserve(2)
    assert runner.free == 1
    runner.free_slots(2)
    assert runner.reserve(3)
    assert not runner.reserve()


async def test_a_slot_is_free_before_the_end_is_told(new_bench: Callable[..., Any]) -> None:
    bench = new_bench(max_concurrent=1)
    free: list[int] = []
    told = bench.runner._on_end

    def look(task: Any, outcome: Any) -> None:
        free.append(bench.runner.free)
        told(task, outcome)

    bench.runner._on_end = look

    @defn
    async def fine() -> None: ...

    await bench.run(fine)
    assert free == [1]


# --- being told ------------------------------------------------------------------------------------------------------


async def test_a_cancelled_async_handler_may_clean_up_and_ends_cancelled(bench: Any) -> None:
    gate, cleaned = Gate(), []

    @defn
    async def work() -> None:
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(activity.is_cancelled())

    task = bench.start(work)
    await gate.reached.wait()
    assert bench.tell(task, "cancel_requested")
    assert bench.tell(task, "cancel_requested"), "a second request changes nothing"
    assert await bench.end() == CANCELLED
    assert cleaned == [True]


async def test_a_handler_that_swallows_its_cancellation_completes(bench: Any) -> None:
    gate = Gate()

    @defn
    async def stubborn() -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            pass
        return "done all the same"

    task = bench.start(stubborn)
    await gate.reached.wait()
    bench.tell(task, "cancel_requested")
    assert await bench.end() == "done all the same"


async def test_a_handler_that_fails_while_it_cleans_up_has_failed(bench: Any) -> None:
    gate = Gate()

    @defn
    async def clumsy() -> None:
        try:
            await gate.wait()
        finally:
            raise ValueError("the clean-up broke")

    task = bench.start(clumsy)
    await gate.reached.wait()
    bench.tell(task, "cancel_requested")
    end = await bench.end()
    assert end.failure["message"] == "the clean-up broke"


@pytest.mark.parametrize("reason", ["cancel_requested", "worker_shutdown"])
async def test_a_handler_told_before_it_began_never_begins(bench: Any, reason: str) -> None:
    begun = []

    @defn
    async def work() -> None:
        begun.append(1)

    task = bench.start(work)
    bench.tell(task, reason)
    assert await bench.end() == (CANCELLED if reason == "cancel_requested" else HANDED_BACK)
    assert not begun


@pytest.mark.parametrize("reason", ["lost", "timed_out"])
async def test_the_outcome_of_a_lost_attempt_is_nobodys(bench: Any, reason: str) -> None:
    gate = Gate()

    @defn
    async def work() -> None:
        await gate.wait()

    @defn
    async def fine() -> int:
        return 1

    task = bench.start(work)
    await gate.reached.wait()
    bench.tell(task, "cancel_requested")
    bench.tell(task, reason)
    assert await bench.run(fine) == 1
    assert bench.ends.empty()
    assert bench.runner.free == 10


@pytest.mark.parametrize("told_before", [False, True])
async def test_of_an_activity_that_is_closed_as_cancelled_only_a_failure_is_reported(
    bench: Any, told_before: bool
) -> None:
    gate = Gate()

    @defn
    async def work(how: str) -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            if how == "fails":
                raise ConnectionError("not undone") from None
            if how == "obeys":
                raise
        return "went on"

    for how in ("obeys", "goes on", "fails"):
        gate.reached.clear()
        task = bench.start(work, how)
        await gate.reached.wait()
        if told_before:
            bench.tell(task, "cancel_requested")
        assert bench.runner.request_stop(*task.key, "cancel_requested", closed=True)
    end = await bench.end()
    assert (end.outcome, end.failure["message"]) == (AttemptOutcome.FAILED, "not undone")
    assert bench.ends.empty()
    assert bench.runner.free == 10


async def test_a_new_attempt_may_run_beside_a_lost_one(bench: Any) -> None:
    gate = Gate()

    @defn
    async def work() -> int:
        attempt = activity.info().attempt
        if attempt == 1:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                await gate.wait()
        return attempt

    first = bench.start(work, activity_id=7, attempt=1)
    await gate.reached.wait()
    bench.tell(first, "lost")
    assert await bench.run(work, activity_id=7, attempt=2) == 2
    assert list(bench.runner.running) == [first.key]
    gate.opened.set()
    assert await bench.runner.drain(30) == []
    assert bench.ends.empty()


async def test_telling_what_does_not_run_here_does_nothing(bench: Any) -> None:
    assert not bench.runner.request_stop("run-9", 1, 1, "lost")


async def test_a_thread_finds_out_when_it_asks(bench: Any) -> None:
    gate = ThreadGate()

    @defn
    def polls() -> bool:
        gate.wait()
        return activity.is_cancelled()

    @defn
    def beats() -> None:
        gate.wait()
        activity.heartbeat()

    for definition in (polls, beats):
        task = bench.start(definition)
        await reached(gate)
        bench.tell(task, "cancel_requested")
        gate.opened.set()
        end = await bench.end()
        assert end == (True if definition is polls else CANCELLED)
        gate.reached.clear()
        gate.opened.clear()


async def test_what_waits_for_a_thread_ends_at_once_when_it_is_cancelled(
    new_bench: Callable[..., Any],
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    gate = ThreadGate()

    @defn
    def work() -> str:
        gate.wait()
        return "done"

    with ThreadPoolExecutor(1) as pool:
        bench = new_bench(thread_pool=pool)
        bench.start(work)
        await reached(gate)
        waiting = bench.start(work)
        bench.tell(waiting, "cancel_requested")
        assert await bench.end() == CANCELLED
        gate.opened.set()
        assert await bench.end() == "done"


# --- draining --------------------------------------------------------------------------------------------------------


async def test_draining_waits_for_what_ends_in_time(bench: Any) -> None:
    gate = Gate()

    @defn
    async def work() -> str:
        await gate.wait()
        return "done"

    bench.start(work)
    await gate.reached.wait()
    draining = asyncio.create_task(bench.runner.drain(30))
    await asyncio.sleep(0)
    assert bench.runner.free == 0
    assert not bench.runner.reserve()
    gate.opened.set()
    assert await draining == []
    assert await bench.end() == "done"


async def test_draining_nothing_is_done_at_once(bench: Any) -> None:
    assert await bench.runner.drain(3600) == []


async def test_async_handlers_are_cancelled_once_and_handed_back(bench: Any) -> None:
    gate, cancels = Gate(), []

    @defn
    async def cleans_up() -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancels.append(1)
            await asyncio.sleep(0)
            raise

    @defn
    async def swallows() -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancels.append(1)
        return "a half result"

    bench.start(cleans_up)
    bench.start(swallows)
    await gate.reached.wait()
    assert await bench.runner.drain(0) == []
    assert [await bench.end(), await bench.end()] == [HANDED_BACK, HANDED_BACK]
    assert len(cancels) == 2


async def test_a_thread_is_handed_back_when_it_returns_and_not_before(bench: Any) -> None:
    gate = ThreadGate()

    @defn
    def work() -> None:
        gate.wait()
        activity.heartbeat()

    task = bench.start(work)
    await reached(gate)
    assert await bench.runner.drain(0, cancel_grace_s=0) == [task]
    assert bench.ends.empty()
    gate.opened.set()
    assert await bench.end() == HANDED_BACK


async def test_a_thread_that_never_asked_keeps_its_result(bench: Any) -> None:
    gate = ThreadGate()

    @defn
    def work() -> str:
        gate.wait()
        return "done"

    bench.start(work)
    await reached(gate)
    await bench.runner.drain(0, cancel_grace_s=0)
    gate.opened.set()
    assert await bench.end() == "done"
