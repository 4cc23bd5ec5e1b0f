"""What type checkers must see of clients and handles, and must refuse; an ignore without need is an error.

Both checkers run over this file in `make check`: each line with ignores is a wrong argument that both must find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast import Client, WorkflowHandle, activity, workflow


@activity.defn(start_to_close_timeout=60)
async def pack(order: str, a: int, b: int, c: int, d: int, e: float) -> bytes:
    return b""


@workflow.defn
class Order:
    @workflow.run
    async def run(self, order: str, a: int, b: int, c: int, d: int, e: float) -> bytes:
        return await pack(order, a, b, c, d, e)

    @workflow.signal
    def approve(self, by: str, a: int, b: int, c: int, d: int, e: float) -> None: ...

    @workflow.signal
    async def stop(self) -> None: ...

    @workflow.query
    def price(self, currency: str) -> int:
        return 0

    @workflow.update
    async def charge(self, by: str, a: int, b: int, c: int, d: int, e: float) -> int:
        return 0

    @workflow.update
    def close(self) -> str:
        return ""


@workflow.defn
async def nothing() -> None: ...


if TYPE_CHECKING:
    from typing import assert_type

    async def calls(client: Client) -> None:
        handle = await client.start(Order.run, "o", 1, 2, 3, 4, 5.0, id="o")
        assert_type(handle, WorkflowHandle[bytes])
        assert_type(await handle.result(timeout=5), bytes)
        assert_type(await client.execute(nothing), None)
        assert_type(await handle.signal(Order.approve, "ada", 1, 2, 3, 4, 5.0), None)
        await handle.signal(Order.stop)
        await client.signal("o", Order.approve, "ada", 1, 2, 3, 4, 5.0)
        await client.signal_with_start(nothing, signal=Order.approve("ada", 1, 2, 3, 4, 5.0), id="o")
        assert_type(await handle.query(Order.price, "eur"), int)
        assert_type(await handle.execute_update(Order.charge, "ada", 1, 2, 3, 4, 5.0), int)
        assert_type(await handle.execute_update(Order.close), str)
        assert_type(await (await handle.start_update(Order.close)).result(), str)
        made = await client.update_with_start(nothing, update=Order.charge("ada", 1, 2, 3, 4, 5.0), id="o")
        assert_type(await made.result(), int)

        await client.start(Order.run, "o", 1, 2, 3, 4, "5")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.start(Order.run, "o", 1, 2, 3, 4)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.start(Order.run, "o", 1, 2, 3, 4, 5.0, 6)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.start(nothing, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.execute(Order.run, "o", 1, 2, 3, "4", 5.0)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.approve, "ada", 1, 2, 3, 4, "5")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.approve, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.stop, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.signal(Order.price, "eur")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await client.signal("o", Order.approve, "ada", 1, 2, 3, "4", 5.0)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        Order.approve("ada", 1, 2, 3, 4, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await handle.query(Order.price, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.query(Order.price)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.execute_update(Order.charge, "ada", 1, 2, 3, 4, "5")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.execute_update(Order.charge, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.execute_update(Order.close, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
        await handle.start_update(Order.charge, 5, 1, 2, 3, 4, 5.0)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        Order.charge("ada", 1, 2, 3, 4, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await pack("o", 1, 2, 3, 4, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_samples_are_workflows() -> None:
    assert [Order.approve.name, Order.charge.name, Order.price.name] == ["approve", "charge", "price"]
