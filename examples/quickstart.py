"""An order that outlives its process. Run this file, kill it while the order sleeps, and run it again."""

import asyncio
import logging
import os

from outlast import Client, StartOptions, Worker, activity, workflow

NAP = 20  # seconds


@activity.defn(start_to_close_timeout=10)
async def charge(order_id: str, amount: int) -> str:
    activity.logger.info("charging %s for %s", amount, order_id)  # your code calls a payment service here
    return f"receipt-{order_id}-{amount}"


@activity.defn(start_to_close_timeout=60)
def ship(order_id: str) -> None:  # a plain function runs in a thread
    activity.logger.info("shipping %s", order_id)


@workflow.defn
class Order:
    @workflow.run
    async def run(self, order_id: str) -> str:
        receipt = await charge(order_id, 5)  # recorded: not run again once it has a result
        workflow.logger.info("charged; sleeping for %s seconds", NAP)  # silent when the code is replayed
        await asyncio.sleep(NAP)  # a durable timer: it fires even if the process was restarted
        await ship(order_id)
        return receipt


async def main() -> None:
    options = StartOptions.return_existing().with_execution_timeout(7200).with_run_timeout(3600)
    async with (
        Client.connect("sqlite:///quickstart.db") as client,
        # A killed worker's runs stay its own until its lease expires: 30 seconds, unless you say otherwise.
        Worker(client, workflows=[Order], activities=[charge, ship], lease_duration=3),
    ):
        handle = await client.start(Order.run, "o-1", id="order-1", options=options)
        print(
            f"order-1 {'continues' if handle.existed else 'has started'}; kill me with: kill -9 {os.getpid()}"
        )
        for timer in (await handle.describe()).pending_timers:
            print(f"it sleeps until {timer.fire_at.astimezone():%H:%M:%S}")
        print("order-1 is done:", await handle.result())


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("outlast").setLevel(logging.INFO)
    asyncio.run(main())
