"""DAGs that the tests of running use, and their activities."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from outlast import ApplicationError, activity
from outlast_dag import DagBuilder, dag, each, step

calls: list[Any] = []
broken: dict[str, int] = {}
"""How often an activity fails yet, by its argument."""


@dataclass
class Page:
    url: str
    rows: list[int]


@activity.defn(start_to_close_timeout=10)
async def fetch(url: str) -> Page:
    calls.append(("fetch", url))
    if broken.get(url, 0) > 0:
        broken[url] -= 1
        raise ApplicationError(f"{url} is down", type="Down")
    return Page(url, [1, 2, 3, 4])


@activity.defn(start_to_close_timeout=10)
async def parse(row: int) -> int:
    calls.append(("parse", row))
    if broken.get(f"row {row}", 0) > 0:
        raise ApplicationError(f"row {row} is broken", type="Bad", non_retryable=True)
    return row * 10


@activity.defn(start_to_close_timeout=10)
async def total(rows: list[int], name: str = "") -> int:
    calls.append(("total", rows, name))
    return sum(rows)


@activity.defn(start_to_close_timeout=1000)
async def slowly(name: str) -> str:
    calls.append(("begins", name))
    try:
        await asyncio.sleep(50)
    except asyncio.CancelledError:
        calls.append(("stopped", name))
        raise
    calls.append(("done", name))
    return name


@activity.defn(start_to_close_timeout=10)
async def note(words: Any = None) -> str:
    calls.append(("note", words))
    return "noted"


ACTIVITIES = [fetch, parse, total, slowly, note]


@dag(version="1", timeout=600)
def pipeline(url: str) -> int:
    page = step(fetch)(url)
    rows = each(parse, concurrency=2, max_items=100)(page.rows)
    return step(total)(rows, page.url)


@dag(timeout=600)
def with_skips(url: str) -> str:
    page = step(fetch)(url)
    step(note, id="never", skip_when=page.url == "https://a")(page.rows)
    return step(note, id="always")(page.rows[0])


def waiting(name: str = "waiting", *, failure: Any = "fail_fast") -> Any:
    """Two slow steps beside one that fails, and a step for failures behind it."""
    flow = DagBuilder(name, timeout=600, failure=failure)
    flow.task("left", slowly, "left")
    flow.task("right", slowly, "right")
    failing = flow.task("failing", fetch, "https://down").with_retry(1)
    flow.task("told", note, "it failed").after(failing).trigger("one_failed")
    flow.task("behind", note, "never").after(failing)
    return flow.build()


fails_fast = waiting()
fails_late = waiting("fails_late", failure="finish")
DAGS = [pipeline, with_skips, fails_fast, fails_late]
