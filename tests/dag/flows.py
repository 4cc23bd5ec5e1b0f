"""DAGs that the tests of the command name."""

from __future__ import annotations

from outlast import activity
from outlast_dag import DagBuilder, dag, each, group, step


@activity.defn(start_to_close_timeout=30)
async def fetch(url: str) -> list[int]:
    return [len(url)]


@activity.defn(start_to_close_timeout=6)
async def parse(row: int) -> str:
    return str(row)


@activity.defn(start_to_close_timeout=5)
async def clean(rows: list[int]) -> None: ...


@dag(timeout=1800)
def nightly(url: str) -> list[str]:
    """Fetch, clean and parse."""
    rows = step(fetch)(url)
    with group("load"):
        step(clean, skip_when=rows[0] == 0)(rows)
        return each(parse, id="parse", max_items=10)(rows)


hasty = DagBuilder("hasty", timeout=20)
hasty.task("fetch", fetch)

unbounded = DagBuilder("unbounded")
unbounded.task("fetch", "http-fetch")
