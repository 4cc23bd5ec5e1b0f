"""Receiving messages: in order, each once, whatever ends a wait, and the same at every replay."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workflow.driver import START, new_machine, result_of, started

from outlast import workflow
from outlast.workflow import blocking
from outlast_workflow.errors import DurableCallError, InvalidOptionError, PayloadDecodeError
from outlast_workflow.history.events import (
    Event,
    SignalReceived,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowTaskCompleted,
)
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay, task_record

MINUTE = 60_000_000


def signal(name: str, *args: Any) -> SignalReceived:
    return SignalReceived(name, Payload.of(list(args)))


class Run:
    """One run and its history, as the engine keeps it."""

    def __init__(self, program: object, *args: Any) -> None:
        self.program = program
        self.history: list[Event] = [started(*args)]
        self.seen = 0
        self.machine = new_machine(program)
        self.now = START

    def send(self, *events: Event) -> list[Event]:
        """Append events and run one workflow task over all that is new."""
        self.history += events
        return self.task()

    @property
    def receiving(self) -> list[str] | None:
        """What the last record says that the code waits to receive."""
        return self.record.receiving

    def task(self) -> list[Event]:
        self.now += 1
        new, through = self.history[self.seen :], len(self.history)
        commands = self.machine.run_workflow_task(new, self.now, history_events=through, history_bytes=1)
        record = task_record(self.machine, commands, through=through, own=0, python=11)
        assert record is not None
        self.history += [record, *commands]
        self.seen = len(self.history)
        return commands

    @property
    def record(self) -> WorkflowTaskCompleted:
        return [one for one in self.history if isinstance(one, WorkflowTaskCompleted)][-1]

    def evict(self) -> None:
        """Replace the machine with one that has replayed the history."""
        self.machine = new_machine(self.program)
        rows = [(seq, event.type, event.to_json()) for seq, event in enumerate(self.history, 1)]
        replay(self.machine, rows)


@workflow.defn(name="program")
async def two() -> list[Any]:
    return [await workflow.receive("a"), await workflow.receive("a")]


@workflow.defn(name="program")
async def patient(timeout: float) -> Any:
    return await workflow.receive("a", timeout=timeout, default="nothing")


@workflow.defn(name="program")
async def strict() -> Any:
    return await workflow.receive("a", timeout=60)


def test_messages_come_in_order_whether_they_wait_or_are_waited_for():
    run = Run(two)
    run.send(signal("b", 0), signal("a", 1))
    assert run.record.buffered == {"b": 1}
    assert run.receiving == ["a"]
    run.send(signal("a", 2))
    assert result_of(run.machine) == [1, 2]
    assert not run.receiving
    assert run.record.buffered == {"b": 1}


def test_a_message_that_is_there_needs_no_timer():
    run = Run(patient, 60)
    (ended,) = run.send(signal("a", None))
    assert isinstance(ended, WorkflowCompleted)
    assert result_of(run.machine) is None  # None is a message, and no default


def test_a_timeout_is_a_durable_timer_that_says_what_for():
    run = Run(patient, 60)
    assert run.task() == [TimerScheduled(1, START + 1 + MINUTE, "receive a")]
    assert run.send(TimerFired(1, START + 1 + MINUTE))
    assert result_of(run.machine) == "nothing"


def test_the_timer_goes_when_the_message_comes():
    run = Run(patient, 60)
    run.task()
    cancelled, _ = run.send(signal("a", 7))
    assert cancelled == TimerCancelled(1)
    assert result_of(run.machine) == 7


@pytest.mark.parametrize("order", [1, -1])
def test_a_message_beside_the_timeout_is_received(order: int):
    run = Run(strict)
    run.task()
    run.send(*[TimerFired(1, START + 1 + MINUTE), signal("a", 7)][::order])
    assert result_of(run.machine) == 7


def test_without_a_default_the_timeout_raises():
    run = Run(strict)
    run.task()
    (ended,) = run.send(TimerFired(1, START + 1 + MINUTE))
    assert ended.type == "WorkflowFailed"


@pytest.mark.parametrize(("sent", "received"), [([], "nothing"), ([signal("a", 5)], 5)])
def test_a_timeout_of_zero_takes_only_what_is_there(sent: list[Event], received: Any):
    run = Run(patient, 0)
    (ended,) = run.send(*sent)
    assert isinstance(ended, WorkflowCompleted)
    assert result_of(run.machine) == received


def test_two_that_wait_are_served_in_the_order_of_their_calls_even_where_the_later_one_times_out():
    @workflow.defn(name="program")
    async def program() -> list[Any]:
        first = workflow.receive("a")
        second = workflow.receive("a", timeout=60, default="late")
        return [await second, await first]

    run = Run(program)
    run.task()
    run.send(TimerFired(1, START + 1 + MINUTE), signal("a", 1))
    assert result_of(run.machine) == ["late", 1]
    assert run.record.buffered is None


def test_a_wait_that_is_cancelled_beside_its_message_leaves_it_to_the_next():
    @workflow.defn(name="program")
    async def program() -> list[Any]:
        async def listen() -> Any:
            return await workflow.receive("a")

        listener = asyncio.create_task(listen())
        await workflow.sleep(60)
        listener.cancel()
        await asyncio.wait([listener])
        return [listener.cancelled(), await workflow.receive("a")]

    run = Run(program)
    run.task()
    # The code that the timer wakes cancels the listener before it can run.
    run.send(signal("a", 1), TimerFired(1, START + 1 + MINUTE))
    assert result_of(run.machine) == [True, 1]


def test_a_cancel_request_takes_no_message():
    @workflow.defn(name="program")
    async def program() -> Any:
        try:
            return await workflow.receive("a")
        except asyncio.CancelledError:
            return ["after all", await workflow.receive("a")]

    run = Run(program)
    run.task()
    run.send(WorkflowCancelRequested(), signal("a", 1))
    assert result_of(run.machine) == ["after all", 1]


def test_a_message_before_a_cancel_request_is_received_before_it():
    run = Run(two)
    run.task()
    commands = run.send(signal("a", 1), WorkflowCancelRequested())
    assert [one.type for one in commands] == ["WorkflowCancelled"]
    assert run.record.buffered is None


def test_handlers_and_receivers_take_from_different_names():
    @workflow.defn(name="program")
    class Program:
        @workflow.run
        async def run(self) -> Any:
            return await workflow.receive("a")

        @workflow.signal
        def a(self) -> None: ...

    @workflow.defn(name="program")
    class Dynamic:
        @workflow.run
        async def run(self) -> Any:
            return await workflow.receive("a")

        @workflow.signal(dynamic=True)
        def any(self, name: str, args: list[Any]) -> None: ...

    for program in (Program, Dynamic):
        with pytest.raises(DurableCallError, match="signal 'a' has a handler in program"):
            Run(program).task()


def test_a_handler_may_receive():
    @workflow.defn(name="program")
    class Program:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        @workflow.run
        async def run(self) -> Any:
            await workflow.wait_condition(lambda: len(self.heard) == 2)
            return self.heard

        @workflow.signal
        async def listen(self) -> None:
            self.heard.append(await workflow.receive("a"))

    run = Run(Program)
    run.send(signal("a", 1), signal("listen"), signal("listen"))
    run.send(signal("a", 2))
    assert result_of(run.machine) == [1, 2]


def test_plain_code_blocks():
    @workflow.defn(name="program")
    def program() -> list[Any]:
        return [blocking.receive("a"), blocking.receive("a", timeout=60, default=0, result_type=int)]

    run = Run(program)
    run.send(signal("a", "x"))
    assert run.receiving == ["a"]
    run.evict()
    run.send(TimerFired(1, START + 1 + MINUTE))
    assert result_of(run.machine) == ["x", 0]


@dataclass
class Status:
    step: int


@pytest.mark.parametrize(
    ("args", "result_type", "received"),
    [
        ((), None, None),
        ((), Status | None, None),
        (({"step": 3},), Status, Status(3)),
        (({"step": 3},), None, {"step": 3}),
        (({"$codec": "x", "data": ""},), None, {"$codec": "x", "data": ""}),
        ((3, {"step": 3}), None, [3, {"step": 3}]),
        ((3, {"step": 3}), tuple[int, Status], (3, Status(3))),
        (([1, 2],), list[int], [1, 2]),
    ],
)
def test_a_message_is_its_argument_or_a_list_of_several(args: Any, result_type: Any, received: Any):
    found: list[Any] = []

    @workflow.defn(name="program")
    async def program() -> None:
        found.append(await workflow.receive("a", result_type=result_type))

    Run(program).send(signal("a", *args))
    assert found == [received]


def test_a_message_of_another_type_fails_the_task_and_is_not_lost():
    run = Run(two)
    run.send(signal("a", 1))

    @workflow.defn(name="program")
    async def typed() -> list[Any]:
        return [await workflow.receive("a"), await workflow.receive("a", result_type=Status)]

    run.program = typed
    run.evict()
    history = list(run.history)
    with pytest.raises(
        PayloadDecodeError, match=r"signal 'a', number 2 .* cannot be received: .*Status"
    ) as raised:
        run.send(signal("a", "s3cret"))
    assert "s3cret" not in str(raised.value)
    run.history = [*history, signal("a", "s3cret")]
    run.program = two
    run.evict()
    run.task()
    assert result_of(run.machine) == [1, "s3cret"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: workflow.receive(""), "signal name must not be empty"),
        (lambda: workflow.receive(cast("Any", two)), "signal name must be text"),
        (lambda: workflow.receive("a", timeout=cast("Any", "soon")), "receive timeout must be a number"),
        (lambda: workflow.receive("a", default=None), "needs a timeout"),
    ],
)
def test_what_cannot_be_asked_for_fails_the_task(call: Any, said: str):
    @workflow.defn(name="program")
    async def program() -> None:
        await call()

    with pytest.raises(InvalidOptionError, match=said):
        Run(program).task()


def test_a_name_that_nobody_receives_is_logged_once_a_task(caplog: pytest.LogCaptureFixture):
    run = Run(two)
    with caplog.at_level(logging.WARNING, logger="outlast.workflow"):
        run.send(signal("a", 1), signal("b", 1), signal("b", 1))
        run.evict()
    (record,) = caplog.records
    assert "no handler for signal 'b'" in record.getMessage()


def test_what_was_not_received_moves_on_and_what_was_does_not():
    @workflow.defn(name="program")
    async def program() -> None:
        await workflow.receive("a")
        workflow.continue_as_new()

    run = Run(program)
    commands = run.send(signal("b", 1), signal("a", 2), signal("a", 3))
    assert isinstance(commands[-1], WorkflowContinuedAsNew)
    assert [event.name for event in run.machine.buffered] == ["b", "a"]
    assert run.record.buffered == {"a": 1, "b": 1}


# --- nothing is lost --------------------------------------------------------------------------------------------------


@workflow.defn(name="program")
class Storm:
    """Receivers that are cancelled at random: by each other, by timeouts, by the request to cancel."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.tasks: list[asyncio.Task[None]] = []

    @workflow.run
    async def run(self) -> None:
        while True:
            try:
                await workflow.wait_condition(lambda: False)
            except asyncio.CancelledError:
                for task in self.tasks:
                    task.cancel()

    async def listen(self, name: str, how: str) -> None:
        if how == "plain":
            message = await workflow.receive(name)
        elif how == "timeout":
            message = await workflow.receive(name, timeout=1, default=None)
        elif how == "wait_for":
            message = await asyncio.wait_for(workflow.receive(name), 1)
        else:
            message = await asyncio.create_task(self.inner(name))
        if message is not None:
            self.got.append(message)

    async def inner(self, name: str) -> Any:
        return await workflow.receive(name)

    @workflow.signal
    def start(self, name: str, how: str) -> None:
        self.tasks.append(asyncio.create_task(self.listen(name, how)))

    @workflow.signal
    def stop(self, which: int) -> None:
        if self.tasks:
            self.tasks[which % len(self.tasks)].cancel()

    @workflow.signal
    async def stop_later(self, which: int) -> None:
        await workflow.sleep(1)
        self.stop(which)


NAMES = st.sampled_from(["x", "y"])
STEPS = st.one_of(
    st.tuples(st.just("message"), NAMES),
    st.tuples(st.just("message"), NAMES),
    st.tuples(st.just("start"), NAMES, st.sampled_from(["plain", "timeout", "wait_for", "inner"])),
    st.tuples(st.just("stop"), st.integers(0, 9)),
    st.tuples(st.just("stop_later"), st.integers(0, 9)),
    st.tuples(st.just("fire"), st.integers(0, 9)),
    st.tuples(st.just("cancel")),
)


def events_of(
    step: Sequence[Any], run: Run, sent: dict[str, list[Any]], timers: dict[int, int]
) -> list[Event]:
    kind, *rest = step
    if kind == "message":
        (name,) = rest
        message = f"{name}{len(sent[name])}"
        sent[name].append(message)
        return [signal(name, message)]
    if kind == "fire":
        if not timers:
            return []
        command_id = sorted(timers)[rest[0] % len(timers)]
        return [TimerFired(command_id, timers.pop(command_id))]
    if kind == "cancel":
        return [WorkflowCancelRequested()]
    return [signal(kind, *rest)]


@settings(max_examples=300, deadline=None)
@given(tasks=st.lists(st.lists(STEPS, max_size=6), max_size=12), evicted=st.sets(st.integers(0, 11)))
def test_under_storms_of_cancellations_each_message_is_received_once_in_order_or_still_there(
    tasks: list[list[Any]], evicted: set[int]
):
    run = Run(Storm)
    run.task()
    sent: dict[str, list[Any]] = defaultdict(list)
    timers: dict[int, int] = {}
    for number, steps in enumerate(tasks):
        if number in evicted:
            run.evict()
        for command in run.send(*[event for step in steps for event in events_of(step, run, sent, timers)]):
            if isinstance(command, TimerScheduled):
                timers[command.command_id] = command.fire_at
            elif isinstance(command, TimerCancelled):
                timers.pop(command.command_id, None)
        check(run.machine, sent)
        record = run.record
        assert not set(record.receiving or ()) & set(record.buffered or ())
    got = received(run.machine)
    run.evict()
    check(run.machine, sent)
    assert received(run.machine) == got


def received(machine: WorkflowMachine) -> list[Any]:
    instance: Any = machine._instance
    return list(instance.got)


def check(machine: WorkflowMachine, sent: dict[str, list[Any]]) -> None:
    got = received(machine)
    unread = [event.input.value[0] for event in machine.buffered]
    for name, messages in sent.items():
        assert [one for one in [*got, *unread] if one[0] == name] == messages
