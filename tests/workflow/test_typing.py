"""What type checkers must see and must refuse: `make check` runs this, where an ignore without need is an error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from outlast import workflow
from outlast_workflow.api.children import execute_child, start_child
from outlast_workflow.declare.definitions import definition_of, defn, run
from outlast_workflow.declare.handlers import signal
from outlast_workflow.run.activity_calls import ActivityFuture
from outlast_workflow.run.child_calls import ChildWorkflowHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@defn
class Order:
    @run
    async def run(self, order_id: str, amount: int) -> float:
        return 1.0

    @signal
    def approve(self, by: str, level: int) -> None: ...


@defn
async def nothing() -> None: ...


@defn(name="plain")
async def plain(order_id: str) -> bytes:
    return b""


async def charge(order_id: str, amount: int) -> float:
    """Stands for an activity, which is such a callable too."""
    return 1.0


def start(target: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
    """As a client types it."""
    raise NotImplementedError


if TYPE_CHECKING:
    from typing import assert_type

    assert_type(start(Order.run, "o", 5), float)
    assert_type(start(plain, "o"), bytes)
    start(Order.run, "o", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    start(Order.run, "o")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    start(plain, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    start(Order().run, "o", "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(Order, type[Order])
    definition_of(Order.run)

    async def awaiting() -> None:
        call = workflow.execute_activity(charge, "o", 5)
        _ = [assert_type(call, Coroutine[Any, Any, float])]
        named = workflow.execute_activity("charge", "o", result_type=int, priority=1)
        _ = [assert_type(named, Coroutine[Any, Any, int])]
        untyped = workflow.execute_activity("charge", "o")
        _ = [assert_type(untyped, Coroutine[Any, Any, Any])]
        assert_type(await workflow.execute_activity(charge, "o", 5), float)
        handle = workflow.start_activity(charge, "o", 5, priority=1)
        _ = [assert_type(handle, ActivityFuture[float])]
        assert_type(await handle, float)
        assert_type(handle.result(), float)
        await workflow.execute_activity(charge, "o", "5")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await workflow.execute_activity(charge, "o")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await workflow.execute_activity(charge, "o", 5, start_to_close="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        local = workflow.execute_local_activity(charge, "o", 5, start_to_close_timeout=5)
        _ = [assert_type(local, Coroutine[Any, Any, float])]
        await workflow.execute_local_activity(charge, "o")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await workflow.execute_local_activity(charge, "o", 5, task_queue="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        assert_type(await execute_child(Order.run, "o", 5, id="c"), float)
        assert_type(await execute_child(plain, "o"), bytes)
        assert_type(await execute_child(nothing), None)
        assert_type(await execute_child("Order", 1, 2, 3, result_type=int), int)
        child = start_child(Order.run, "o", 5, parent_close_policy="abandon")
        _ = [assert_type(child, ChildWorkflowHandle[float])]
        assert_type(await child.started(), str)
        assert_type(await child.signal(Order.approve, "ada", 3), None)
        await child.signal("approve", 1, 2, 3)
        await child.signal(Order.approve, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await child.signal(Order.approve, 5, 3)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await execute_child(Order.run, "o")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await execute_child(Order.run, "o", "5")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await execute_child(nothing, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await execute_child(Order.run, "o", 5, delay=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        await workflow.sleep("5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_samples_are_workflows():
    assert [definition_of(target).name for target in (Order, Order.run, plain)] == ["Order", "Order", "plain"]
