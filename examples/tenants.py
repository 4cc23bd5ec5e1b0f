"""A queue with a limit for each tenant: one who sends a thousand imports does not keep the others waiting."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter

from outlast import Client, StartOptions, Worker, WorkflowHandle, activity, workflow

QUEUE = "imports"

under_way: Counter[str] = Counter()
"""How many imports of each tenant are under way now."""
most: Counter[str] = Counter()
"""The most that were at any time."""
order: list[str] = []


@activity.defn(start_to_close_timeout=60)
async def copy(tenant: str, file: int) -> int:
    order.append(tenant)
    under_way[tenant] += 1
    most[tenant] = max(most[tenant], under_way[tenant])
    await asyncio.sleep(0.01)
    under_way[tenant] -= 1
    return file


@workflow.defn
async def import_file(tenant: str, file: int) -> int:
    return await copy(tenant, file)


WORKFLOWS = [import_file]
ACTIVITIES = [copy]


async def enqueue(client: Client, tenant: str, files: int) -> list[WorkflowHandle[int]]:
    """Start one workflow for each file. They stand in line until the queue has room for them."""
    options = StartOptions(queue=QUEUE, partition_key=tenant, execution_timeout=3600)
    return [
        await client.start(import_file, tenant, file, id=f"import/{tenant}/{file}", options=options)
        for file in range(files)
    ]


async def main(url: str) -> None:
    async with Client.connect(url) as client:
        await client.queues.define(QUEUE, if_exists="update", concurrency=5, partition_concurrency=2)
        # Nobody works yet, so the big tenant's files all stand in line before the small one's.
        handles = await enqueue(client, "big", 40) + await enqueue(client, "small", 4)
        async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
            await asyncio.gather(*(handle.result() for handle in handles))
        place = max(place for place, tenant in enumerate(order, 1) if tenant == "small")
        print("at most", max(most.values()), "of a tenant at a time")
        print("the small tenant was done among the first", "12" if place <= 12 else place, "of", len(order))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/tenants.db"))
