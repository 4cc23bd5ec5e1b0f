"""An alert before a deadline: the order is told that its time runs out, and takes another way while there is time."""

import asyncio
import logging
import tempfile
from typing import Any

from outlast import Client, StartOptions, Worker, workflow


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.late = False

    @workflow.signal
    def running_late(self, alert: dict[str, Any]) -> None:
        self.late = True

    @workflow.run
    async def run(self, order_id: str) -> str:
        await workflow.wait_condition(lambda: self.late)  # the carrier never comes
        return "sent by courier"


async def main(url: str) -> None:
    options = StartOptions(execution_timeout=5).with_alerts(0.1, 0.8, signal="running_late")
    async with Client.connect(url) as client, Worker(client, workflows=[Order]):
        handle = await client.start(Order.run, "o-1", id="order-1", options=options)
        print(await handle.result())
        for alert in (await client.alerts.list()).alerts:
            print("told:", alert.text)


if __name__ == "__main__":
    logging.getLogger("outlast.alerts").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/late_order.db"))
