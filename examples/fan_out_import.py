"""An import that fans out: a few parts of a file at a time, and a part that fails does not fail the others."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field

from outlast import ActivityError, ApplicationError, Client, RetryPolicy, Worker, activity, workflow


@dataclass
class Report:
    rows: int = 0
    failed: list[int] = field(default_factory=list)


@activity.defn(start_to_close_timeout=60)
async def count_parts(source: str) -> int:
    return 20


@activity.defn(start_to_close_timeout=300, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.05))
async def import_part(source: str, part: int) -> int:
    """Import one part. It must be safe to run twice, because a worker may die between the work and its record."""
    if part == 13:
        raise ApplicationError(f"part {part} of {source} is not CSV", type="NotCsv", non_retryable=True)
    if part == 7 and activity.info().attempt == 1:
        raise ConnectionError("the source hung up")
    return 1_000


@workflow.defn
async def import_file(source: str, at_a_time: int = 5) -> Report:
    report = Report()
    slots = asyncio.Semaphore(at_a_time)

    async def one(part: int) -> None:
        async with slots:
            try:
                rows = await import_part(source, part)
                # Not `+= await …`, which reads the sum before it waits.
                report.rows += rows
            except ActivityError:
                report.failed.append(part)

    async with asyncio.TaskGroup() as group:
        for part in range(await count_parts(source)):
            _ = group.create_task(one(part))
    return report


WORKFLOWS = [import_file]
ACTIVITIES = [count_parts, import_part]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        print(await client.execute(import_file, "customers.csv", 5, id="import-1"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/imports.db"))
