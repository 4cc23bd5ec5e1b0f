"""Repaired code is tried on a fork of a real workflow; once the trial is right, the workflow itself is repaired."""

from __future__ import annotations

import asyncio
import tempfile

from outlast import Client, RetryPolicy, Worker, WorkflowFailedError, activity, workflow

PRICES = {"tea": 4, "scones": 6}
fetched: list[str] = []


@activity.defn(start_to_close_timeout=30)
async def fetch_order(order_id: str) -> list[str]:
    fetched.append(order_id)
    return ["tea", "jam"]


@activity.defn(start_to_close_timeout=30, retry_policy=RetryPolicy(max_attempts=1))
async def price_of(item: str) -> int:
    return PRICES[item]


@workflow.defn
async def bill(order_id: str) -> int:
    """Adds up an order; an item without a price is the bug."""
    total = 0
    for item in await fetch_order(order_id):
        total += await price_of(item)
    return total


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Client.connect(f"sqlite:///{folder}/bills.db") as client,
            Worker(client, workflows=[bill], activities=[fetch_order, price_of]),
        ):
            original = await client.start(bill, "o-7", id="bill-7")
            try:
                await original.result()
            except WorkflowFailedError:
                PRICES["jam"] = 3  # the repair
            trial = await original.fork("last-successful", id="bill-7-trial", reason="is jam priced now?")
            print(f"the trial adds up to {await trial.result()}")
            await original.reset("last-successful", reason="the trial was right")
            print(f"the bill adds up to {await original.result()}, the order was fetched {len(fetched)} time")


if __name__ == "__main__":
    asyncio.run(main())
