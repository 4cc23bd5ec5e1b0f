"""The order saga as a DAG: each step names what undoes it, and the run keeps a minute to do so before its deadline."""

from __future__ import annotations

import asyncio
import tempfile

from outlast import ApplicationError, Client, Worker, activity
from outlast.errors import WorkflowFailedError
from outlast_dag import NodeFailure, dag, step

ledger: list[str] = []
"""What was done, in order. A real program would call other systems."""


@activity.defn
async def book(item: str) -> str:
    ledger.append(f"booked {item}")
    return f"booking of {item}"


@activity.defn
async def release(booking: str) -> None:
    ledger.append(f"released {booking}")


@activity.defn
async def charge(amount: int) -> str:
    ledger.append(f"charged {amount}")
    return f"payment of {amount}"


@activity.defn
async def refund(payment: str) -> None:
    ledger.append(f"refunded {payment}")


@activity.defn
async def ship(item: str, address: str) -> str:
    if not address:
        raise ApplicationError("there is no address", type="NoAddress", non_retryable=True)
    return f"parcel to {address}"


@activity.defn
async def hold(failure: NodeFailure, item: str) -> str:
    if "chair" in item:
        raise ApplicationError("chairs cannot be held", type="TooLarge", non_retryable=True)
    return f"{item} waits at the counter: {failure.message}"


@dag(timeout=600, reserve=70)
def order(item: str, amount: int, address: str) -> str:
    booking = step(book, timeout=10, compensate=lambda booking: step(release, timeout=10)(booking))(item)
    payment = step(
        charge, timeout=10, after=[booking], compensate=lambda payment: step(refund, timeout=10)(payment)
    )(amount)
    return step(
        ship, timeout=60, after=[payment], on_failure=lambda failure: step(hold, timeout=10)(failure, item)
    )(item, address)


WORKFLOWS = [order]
ACTIVITIES = [book, release, charge, refund, ship, hold]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        print(await client.execute(order, "lamp", 30, "1 Main Street", id="order-1"))
        print(await client.execute(order, "vase", 20, "", id="order-2"))
        try:
            await client.execute(order, "chair", 80, "", id="order-3")
        except WorkflowFailedError as error:
            print("order-3 was undone:", error.__cause__)
        async for run in client.list(where={"outlast_dag_outcome": "compensated"}):
            print("compensated:", run.workflow_id)
    print(*ledger, sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/orders.db"))
