"""What a page of what fires when costs, by how much lies ahead: ``python -m benchmarks.upcoming``.

A million rows are open: runs, two activities and two timers of each, and an armed alert for each run beside them. They
fall due at many instants, and then all at one, as where everybody sleeps until midnight.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import product
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.databases import BACKENDS, Databases, opened
from benchmarks.harness.measuring import percentile
from benchmarks.watchdog.idle import fill
from outlast import Client

ASKED: dict[str, dict[str, Any]] = {
    "the first page": {},
    "a page amid them": {"amid": True},
    "alerts only": {"kinds": ["alert"]},
    "a type that nothing has": {"workflow_type": "Nobody"},
}
TIMES = 50
AT = 2_000_000_000_000_000


async def measure(url: str, given: dict[str, Any]) -> list[float]:
    """Return how long each of some pages took, in milliseconds.

    Args:
        url: The database.
        given: What is asked.
    """
    options = dict(given)
    async with Client.connect(url) as client:
        if options.pop("amid", False):
            options["cursor"] = (await client.upcoming(1000)).cursor
        took: list[float] = []
        for _ in range(TIMES + 5):
            begin = time.perf_counter()
            await client.upcoming(50, **options)
            took.append((time.perf_counter() - begin) * 1000)
        return took[5:]


def arm(url: str) -> None:
    """Arm an alert of each run, a second ahead of its deadline."""
    with opened(url) as connection:
        connection.exec_driver_sql(
            "INSERT INTO alert_timers SELECT run_id, 0, 'run', '-1s', 0, next_deadline_at - 1000000, "
            "next_deadline_at FROM workflow_runs WHERE next_deadline_at IS NOT NULL"
        )
        connection.exec_driver_sql("ANALYZE")


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="Deadlines and timers that are open.")
    rows: int = parser.parse_args().rows
    table = Table("database", "instants", "what", "median ms", "95 % ms")
    with Databases() as databases:
        for backend, instants in product(BACKENDS, ("many", "one")):
            with databases.fresh(backend) as url:
                fill(url, rows, at=AT if instants == "one" else None)
                arm(url)
                for what, given in ASKED.items():
                    took = asyncio.run(measure(url, given))
                    figures = [f"{percentile(took, share):.1f}" for share in (0.5, 0.95)]
                    table.add_row(backend, instants, what, *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
