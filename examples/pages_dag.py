"""A DAG in thirty lines: a page is fetched, its rows are parsed at once, and what is empty is not counted."""

from __future__ import annotations

import asyncio
import tempfile

from outlast import Client, Worker, activity
from outlast_dag import dag, each, or_else, step


@activity.defn
async def fetch(url: str) -> list[str]:
    return [] if "empty" in url else ["3 apples", "4 pears"]


@activity.defn
async def parse(row: str) -> int:
    return int(row.partition(" ")[0])


@activity.defn
async def count(numbers: list[int]) -> int:
    return sum(numbers)


@activity.defn
async def report(fruits: int, url: str) -> str:
    return f"{fruits} fruits on {url}"


@dag(timeout=600, strict=True)
def pages(url: str) -> str:
    rows = step(fetch, timeout=30)(url)
    numbers = each(parse, timeout=5, concurrency=10, max_items=50)(rows)
    fruits = step(count, timeout=5, skip_when=rows == [])(numbers)
    return step(report, timeout=10)(or_else(fruits, 0), url)


WORKFLOWS = [pages]
ACTIVITIES = [fetch, parse, count, report]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        print(await client.execute(pages, "fruit.example", id="pages-1"))
        print(await client.execute(pages, "empty.example", id="pages-2"))
    print("critical path:", pages.critical_path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/pages.db"))
