"""An order as a saga: if a step fails, the steps before it are undone in reverse."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from pydantic import BaseModel

from outlast import ActivityError, ApplicationError, Client, RetryPolicy, Worker, activity, workflow


class Order(BaseModel):
    id: str
    item: str
    amount: int
    address: str


ledger: list[str] = []
"""What was done, in order. A real program would call other systems."""


@activity.defn(start_to_close_timeout=10)
async def reserve(item: str) -> None:
    ledger.append(f"reserved {item}")


@activity.defn(start_to_close_timeout=10)
async def release(item: str) -> None:
    ledger.append(f"released {item}")


@activity.defn(start_to_close_timeout=10)
async def charge(order_id: str, amount: int) -> None:
    ledger.append(f"charged {amount} for {order_id}")


@activity.defn(start_to_close_timeout=10)
async def refund(order_id: str, amount: int) -> None:
    ledger.append(f"refunded {amount} for {order_id}")


@activity.defn(start_to_close_timeout=10, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.1))
async def ship(order_id: str, address: str) -> str:
    if not address:
        raise ApplicationError(f"order {order_id} has no address", type="NoAddress", non_retryable=True)
    ledger.append(f"shipped {order_id}")
    return f"parcel-{order_id}"


@workflow.defn
class PlaceOrder:
    @workflow.run
    async def run(self, order: Order) -> str:
        # The activities to call, with their arguments, if a later step fails.
        undo: list[tuple[Any, ...]] = []
        try:
            await reserve(order.item)
            undo.append((release, order.item))
            await charge(order.id, order.amount)
            undo.append((refund, order.id, order.amount))
            return await ship(order.id, order.address)
        except (ActivityError, asyncio.CancelledError):
            await workflow.shield(self.compensate(undo))
            raise

    async def compensate(self, undo: list[tuple[Any, ...]]) -> None:
        for step, *arguments in reversed(undo):
            await step(*arguments)


WORKFLOWS = [PlaceOrder]
ACTIVITIES = [reserve, release, charge, refund, ship]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        good = Order(id="o-1", item="lamp", amount=30, address="1 Main Street")
        print("shipped as", await client.execute(PlaceOrder.run, good, id="order-o-1"))
        bad = Order(id="o-2", item="chair", amount=80, address="")
        handle = await client.start(PlaceOrder.run, bad, id="order-o-2")
        try:
            await handle.result()
        except Exception as error:
            print("order o-2 was undone:", error)
    print(*ledger, sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/orders.db"))
