from __future__ import annotations

import asyncio
import inspect
import pickle
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from outlast_activities.definitions import ActivityDefinition, definition_of, defn
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare import definitions as workflows
from outlast_workflow.errors import DurableCallError, InvalidOptionError, PayloadDecodeError
from outlast_workflow.history.events import ActivityScheduled, WorkflowStarted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, RetryPolicy
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import WorkflowMachine

START = 1_800_000_000_000_000


@defn(start_to_close_timeout=10, retry_policy=RetryPolicy(max_attempts=3))
async def charge(order_id: str, amount: int = 1) -> str:
    """Charge an order."""
    return f"{order_id}:{amount}"


@defn(start_to_close_timeout=timedelta(minutes=1))
def pack(order_id: str) -> int:
    return len(order_id)


class Payments:
    def __init__(self, account: str) -> None:
        self.account = account

    @defn(name="pay", start_to_close_timeout=5)
    async def pay(self, amount: int) -> str:
        return f"{self.account}:{amount}"


def called_in_a_workflow(call: Any) -> list[ActivityScheduled]:
    """The activities that a workflow asks for whose code is ``call``."""

    @workflows.defn
    async def run() -> None:
        call()
        await asyncio.Event().wait()

    machine = WorkflowMachine(
        workflows.definition_of(run), "run-1", converter=DataConverter(), limits=StructuralLimits()
    )
    started = WorkflowStarted("wf", "run", "default", Payload(b"[]"), "run-1", 1, 1, 7, 5)
    commands = machine.run_workflow_task([started], START, history_events=1, history_bytes=1)
    machine.evict()
    return [command for command in commands if isinstance(command, ActivityScheduled)]


# --- declaring -------------------------------------------------------------------------------------------------------


def test_bare_and_with_options():
    @defn
    async def bare(number: int) -> int:
        return number

    assert (bare.name, bare.is_async, bare.executor, bare.options) == (
        "bare",
        True,
        "thread",
        ActivityOptions(),
    )
    assert (pack.name, pack.is_async) == ("pack", False)
    assert charge.options.start_to_close_timeout == 10
    assert charge.signature.names == ("order_id", "amount")
    assert charge.result_hint is str
    assert defn(name="other")(bare.fn).name == "other"


def test_it_looks_like_its_function():
    assert charge.__name__ == "charge"
    assert inspect.unwrap(charge) is charge.fn
    assert list(inspect.signature(charge).parameters) == ["order_id", "amount"]
    assert repr(charge).startswith("<activity charge at ")


def test_hints_may_name_what_comes_later():
    @defn
    async def early(order: LaterOrder) -> LaterOrder:
        return order

    assert early.signature.hints == (LaterOrder,)


class LaterOrder: ...


async def _async_generator():
    yield 1


def _generator():
    yield 1


async def _keyword_only(*, number: int) -> None: ...


async def _async() -> None: ...


def _plain() -> None: ...


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        (_async_generator, {}, "is a generator"),
        (_generator, {}, "is a generator"),
        (_keyword_only, {}, "keyword-only parameter 'number'"),
        (charge, {}, "is an activity already"),
        (partial(_plain), {}, "goes on a function"),
        (Payments, {}, "goes on a function"),
        (len, {}, "goes on a function"),
        (staticmethod(_plain), {}, "above @activity.defn"),
        (classmethod(cast(Any, _plain)), {}, "not on a classmethod"),
        (_plain, {"name": ""}, "activity name must not be empty"),
        (_plain, {"executor": "fiber"}, "executor must be 'thread' or 'process'"),
        (_async, {"executor": "process"}, "only a plain def runs in a process"),
        (lambda: None, {"executor": "process", "name": "anonymous"}, "top of a module"),
        (lambda: None, {}, "a lambda needs a name"),
        (_plain, {"start_to_close_timeout": 0}, "start-to-close timeout must be positive"),
        (_plain, {"heartbeat_timeout": 9, "start_to_close_timeout": 3}, "heartbeat timeout"),
        (_plain, {"priority": 10}, "priority"),
    ],
)
def test_what_cannot_be_an_activity_is_refused_at_once(target: Any, options: dict[str, Any], says: str):
    with pytest.raises(InvalidOptionError, match=says):
        defn(**options)(target)


def test_definition_of_takes_activities_only():
    assert definition_of(charge) is charge
    with pytest.raises(InvalidOptionError, match=r"function _plain is not an activity: put @activity\.defn"):
        definition_of(_plain)
    with pytest.raises(InvalidOptionError, match=r"give it with its instance, as obj\.pay"):
        definition_of(Payments.pay)
    assert definition_of(Payments("a").pay).name == "pay"


# --- options ---------------------------------------------------------------------------------------------------------


def test_with_options_makes_a_variant():
    variant = charge.with_options(heartbeat_timeout=2, priority=1)
    assert isinstance(variant, ActivityDefinition)
    assert variant.options == charge.options.replace(heartbeat_timeout=2, priority=1)
    assert charge.options.heartbeat_timeout is None
    assert variant.fn is charge.fn
    assert variant.with_options(priority=2).options.heartbeat_timeout == 2
    with pytest.raises(InvalidOptionError, match="heartbeat timeout"):
        charge.with_options(heartbeat_timeout=11)


# --- calling outside a workflow --------------------------------------------------------------------------------------


async def test_outside_a_workflow_the_plain_function_runs():
    assert await charge("o-1", amount=5) == "o-1:5"
    assert await charge.with_options(priority=1)("o-1") == "o-1:1"
    assert await pack("o-1") == 3
    assert pack.fn("o-1") == 3
    assert await Payments("acme").pay(3) == "acme:3"


async def test_a_plain_function_runs_when_it_is_awaited():
    seen = []

    @defn
    def note(number: int) -> None:
        seen.append(number)

    call = note(1)
    assert seen == []
    await call
    assert seen == [1]


def test_a_method_without_its_instance_cannot_run():
    with pytest.raises(DurableCallError, match="call it on an instance"):
        _ = Payments.pay(3)


# --- calling in a workflow -------------------------------------------------------------------------------------------


def test_in_a_workflow_it_is_the_durable_call():
    (command,) = called_in_a_workflow(lambda: charge("o-1", 5))
    assert (command.activity_type, command.input.value) == ("charge", ["o-1", 5])
    assert command.options == charge.options.snapshot


def test_plain_functions_methods_and_variants_are_called_alike():
    def calls():
        return [
            pack("o-1"),
            Payments.pay(3),
            Payments("acme").pay(4),
            charge.with_options(priority=1, task_queue="fast")("o-2"),
        ]

    commands = called_in_a_workflow(calls)
    assert [(one.activity_type, one.input.value) for one in commands] == [
        ("pack", ["o-1"]),
        ("pay", [3]),
        ("pay", [4]),
        ("charge", ["o-2"]),
    ]
    assert (commands[3].priority, commands[3].task_queue) == (1, "fast")


@defn(start_to_close_timeout=1)
async def many(a: int, b: int = 2, c: int = 3, *rest: int) -> None: ...


untyped_many: Any = many
untyped_charge: Any = charge


@pytest.mark.parametrize(
    ("call", "recorded"),
    [
        (lambda: many(a=1), [1]),
        (lambda: many(1, c=9), [1, 2, 9]),
        (lambda: many(b=5, a=1), [1, 5]),
        (lambda: many(1, 2, 3, 4), [1, 2, 3, 4]),
    ],
)
def test_arguments_by_name_are_recorded_by_position(call: Any, recorded: list[int]):
    (command,) = called_in_a_workflow(call)
    assert command.input.value == recorded


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: untyped_many(b=1), "without its argument 'a'"),
        (lambda: untyped_many(1, a=1), "'a' of many.. was given twice"),
        (lambda: untyped_many(1, z=1), "'z' of many.. cannot be given by name"),
        (lambda: untyped_charge(), "takes 1 to 2 arguments"),
    ],
)
def test_a_call_that_does_not_fit_fails_the_task(call: Any, says: str):
    with pytest.raises(DurableCallError, match=says):
        called_in_a_workflow(call)


def test_a_call_that_does_not_fit_fails_the_task_even_if_it_is_caught():
    def swallow():
        try:
            untyped_many(b=1)
        except Exception:
            return

    with pytest.raises(DurableCallError, match="without its argument 'a'"):
        called_in_a_workflow(swallow)


# --- travelling ------------------------------------------------------------------------------------------------------


def test_it_is_pickled_by_name(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pickled_jobs.py").write_text(
        "from outlast_activities.definitions import defn\n"
        "@defn(name='other', priority=3)\n"
        "def job(number: int) -> int:\n"
        "    return number\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import pickled_jobs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

    variant = pickle.loads(pickle.dumps(pickled_jobs.job.with_options(priority=1)))
    assert (variant.name, variant.fn, variant.options.priority) == ("other", pickled_jobs.job.fn, 1)


def test_decoding_uses_the_signature():
    with pytest.raises(PayloadDecodeError, match="parameter 'amount' of charge"):
        DataConverter().decode_args(Payload.of(["o-1", "much"]), charge.signature)
