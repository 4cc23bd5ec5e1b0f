"""Every night at two in Zurich: an import that asks an API at most ten times a second with each API key."""

import asyncio

from outlast import Client, Cron, Queue, Rate, Schedule, StartOptions, Worker, activity, workflow


@activity.defn(queue="api", start_to_close_timeout=30)
async def fetch(api_key: str, page: int) -> int:
    return len(f"page {page}")  # your code asks the API here, and stores what it answers


@workflow.defn
async def import_orders(api_key: str, pages: int) -> int:
    call = fetch.with_options(partition_key=api_key)  # each key has a limit of its own
    return sum(await asyncio.gather(*(call(api_key, page) for page in range(pages))))


AT_TWO = Cron("0 2 * * *", time_zone="Europe/Zurich")
SIX_HOURS = StartOptions(execution_timeout=6 * 3600)  # then an import that is stuck ends
SCHEDULES = [
    Schedule(f"import-{key}", import_orders, key, 40, spec=AT_TWO, options=SIX_HOURS)
    for key in ("key-1", "key-2")
]


async def main(url: str = "sqlite:///imports.db") -> None:
    async with Client.connect(url) as client:
        await client.schedules.apply(SCHEDULES)
        api = Queue("api", partition_rate=Rate(10, per=1))
        async with Worker(client, workflows=[import_orders], activities=[fetch], queues=[api]):
            await asyncio.Event().wait()  # until the process is stopped


if __name__ == "__main__":
    asyncio.run(main())
