"""A report for each region, every night at two in the region's own time zone, never two of one region at a time.

The schedules are declared beside the workflow and applied when the program starts. Started a second time, `apply`
finds them there and changes nothing.
"""

from __future__ import annotations

import asyncio
import tempfile

from outlast import Client, Cron, Every, Schedule, StartOptions, Worker, activity, workflow


@activity.defn(start_to_close_timeout=60)
async def sales_of(region: str, day: str) -> int:
    return sum(map(ord, region + day)) % 1_000


@workflow.defn
async def report(region: str) -> str:
    slot = workflow.info().schedule
    day = (slot.scheduled_at if slot is not None else workflow.now()).isoformat()
    before = workflow.last_result(str)
    sales = await workflow.execute_activity(sales_of, region, day)
    return f"{region} {day}: {sales}, before {before.split()[2] if before else 'none,'}"


WORKFLOWS = [report]
ACTIVITIES = [sales_of]
ZONES = {"eu": "Europe/Zurich", "us": "America/New_York", "nz": "Pacific/Auckland"}

SCHEDULES = [
    Schedule(
        f"report-{region}",
        report,
        region,
        spec=Cron("0 2 * * *", time_zone=zone),
        options=StartOptions(execution_timeout=3600),
    )
    for region, zone in ZONES.items()
]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        # One more that does not wait for the night, so that there is something to see.
        soon = Schedule("report-now", report, "eu", spec=Every(1), max_runs=2)
        await client.schedules.apply([*SCHEDULES, soon])
        async for schedule in client.schedules.list(next=1):
            print(schedule.schedule_id, schedule.when, *schedule.next_slots)
        await asyncio.sleep(2.5)
        async for run in client.list(schedule="report-now", order="oldest"):
            print(await client.handle(run.workflow_id).result())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/reports.db"))
