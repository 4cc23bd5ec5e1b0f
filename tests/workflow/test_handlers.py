"""Handlers are declared once and typed without ``self``; mistakes are found when the class is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from outlast_workflow.declare.definitions import definition_of, defn, run
from outlast_workflow.declare.handlers import (
    QueryCall,
    SignalCall,
    UpdateCall,
    call_of,
    init,
    query,
    signal,
    update,
)
from outlast_workflow.errors import DurableCallError, InvalidOptionError

if TYPE_CHECKING:
    from outlast.client.client import Client
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.client.workflows.update_handle import UpdateHandle


@defn
class Order:
    @init
    def __init__(self, order_id: str) -> None:
        self.order_id = order_id
        self.price = 1

    @run
    async def run(self, order_id: str) -> str:
        return order_id

    @signal
    async def approve(self, by: str, level: int = 1) -> None: ...

    @signal(name="note")
    def take_note(self, text: str) -> None: ...

    @query
    def status(self) -> str:
        return "open"

    @update
    async def set_price(self, price: int) -> float:
        self.price = price
        return 1.0

    @set_price.validator
    def check_price(self, price: int) -> None: ...


def test_a_class_shows_calls_and_an_instance_its_methods() -> None:
    call = Order.approve("ada", level=2)
    assert (type(call), call.name, call.args) == (SignalCall, "approve", ("ada", 2))
    assert Order.take_note("x").name == "note"
    assert type(Order.status()) is QueryCall
    assert type(Order.set_price(1)) is UpdateCall
    assert Order("o").status() == "open"
    handlers = definition_of(Order).handlers
    assert (set(handlers.signals), set(handlers.queries), set(handlers.updates)) == (
        {"approve", "note"}, {"status"}, {"set_price"},
    )  # fmt: skip
    assert handlers.updates["set_price"].validator is not None
    assert "ada" not in repr(call)


async def test_the_plain_call_gives_the_constructor_its_input() -> None:
    assert await Order.run("o-1") == "o-1"
    assert await Order.run(order_id="o-2") == "o-2"


def test_a_call_has_the_right_number_of_arguments() -> None:
    with pytest.raises(DurableCallError, match="takes 1 to 2 arguments"):
        call_of(SignalCall, Order.approve, ())
    with pytest.raises(InvalidOptionError, match="is not a signal"):
        call_of(SignalCall, Order.status, ())
    with pytest.raises(InvalidOptionError, match="is not an update"):
        call_of(UpdateCall, Order.run, ("o",))


def declare(**members: Any) -> Any:
    async def main(self: Any) -> None: ...

    return defn(type("Made", (), {"main": run(main), **members}))


def handler(self: Any) -> None: ...


async def waiting(self: Any) -> None: ...


def yielding(self: Any) -> Any:
    yield


def taking(self: Any, number: int) -> None: ...


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: declare(a=signal(name="s")(handler), b=signal(name="s")(handler)), "two handlers named"),
        (lambda: declare(a=signal(dynamic=True)(handler)), "must take"),
        (lambda: declare(a=query(waiting)), "plain `def`"),
        (lambda: signal(yielding), "must return, not yield"),
        (lambda: signal(5), "goes on a method"),  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue,reportArgumentType]
        (lambda: signal(name=""), "signal name"),
        (lambda: signal(name="a", dynamic=True), "not both"),  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue,reportArgumentType]
        (lambda: init(handler), "goes on __init__"),
        (lambda: defn(type("Sub", (Order,), {"approve": handler})), "overrides a signal handler"),
        (lambda: update(handler).validator(waiting), "plain `def`"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: declare(__init__=_init_with_more()), "must take what the run method takes"),
    ],
)
def test_mistakes_are_found_at_once(make: Any, says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        make()


def _init_with_more() -> Any:
    def __init__(self: Any, more: int) -> None: ...

    return init(__init__)


if TYPE_CHECKING:
    from typing import assert_type

    async def typed(client: Client, handle: WorkflowHandle[str]) -> None:
        await handle.signal(Order.approve, "ada", 2)
        await handle.signal(Order.take_note, "x")
        await handle.signal(Order.approve("ada"), request_id="k")
        await handle.signal("approve", 1, 2, 3)
        await client.signal("o", Order.take_note, "x", request_id="k")
        await handle.signal(Order.take_note, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.take_note)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.status)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.signal("o", Order.take_note, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        Order.approve(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        started = await client.signal_with_start(Order.run, "o", signal=Order.approve("ada"), id="o")
        assert_type(started, WorkflowHandle[str])

    async def typed_answers(client: Client, handle: WorkflowHandle[str]) -> None:
        assert_type(await handle.query(Order.status), str)
        assert_type(await handle.query(Order.status(), timeout=5), str)
        assert_type(await handle.query("status", result_type=int), int)
        assert_type(await handle.execute_update(Order.set_price, 5), float)
        assert_type(await handle.execute_update(Order.set_price(5), id="k"), float)
        assert_type(await handle.execute_update("set_price", 5, result_type=int), int)
        assert_type(await handle.start_update(Order.set_price, 5, wait_for="completed"), UpdateHandle[float])
        assert_type(await (await handle.start_update(Order.set_price, 5)).result(), float)
        made = await client.update_with_start(Order.run, "o", update=Order.set_price(5), id="o")
        assert_type(made, UpdateHandle[float])
        await handle.query(Order.status, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.query(Order.set_price, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.execute_update(Order.set_price, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.execute_update(Order.set_price)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.start_update(Order.approve, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.start_update(Order.set_price, 5, wait_for="begun")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
