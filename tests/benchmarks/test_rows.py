"""The floor writes what Outlast writes: the same columns, the same events, payloads of the same size."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from benchmarks.harness.databases import Databases, opened
from benchmarks.harness.floor import bare_commits, floor
from benchmarks.harness.workloads import orders, steps

OF_ITS_OWN = {"seed", "at", "through", "history_events", "history_bytes", "input", "result"}


def rows(url: str, table: str, order: str) -> list[dict[str, Any]]:
    with opened(url) as connection:
        return [
            dict(row._mapping)
            for row in connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY {order}")
        ]


def shapes(url: str) -> tuple[list[Any], ...]:
    """Which columns are set, and the status where there is one; which events, with which payload."""
    events = [
        (
            row["seq"],
            row["type"],
            {key: value for key, value in json.loads(row["payload"]).items() if not _own(key)},
        )
        for row in rows(url, "history_events", "run_id, seq")
    ]
    tables = (
        ("workflow_instances", "workflow_id"),
        ("workflow_runs", "run_id"),
        ("activity_executions", "run_id"),
    )
    return events, *(
        [
            {key: value if key == "status" else value is None for key, value in row.items()}
            for row in rows(url, *one)
        ]
        for one in tables
    )


def _own(key: str) -> bool:
    return key in OF_ITS_OWN or key.endswith("_id")


def payload_bytes(url: str) -> int:
    return sum(len(row["payload"]) for row in rows(url, "history_events", "run_id, seq"))


def test_a_workflow_of_the_floor_is_a_workflow(tmp_path: Path) -> None:
    with (
        Databases(tmp_path) as databases,
        databases.fresh("sqlite") as ours,
        databases.fresh("sqlite") as bare,
    ):
        asyncio.run(orders(ours, 3, 1))
        floor(bare, 3, 3)
        assert shapes(bare) == shapes(ours)
        assert abs(payload_bytes(bare) - payload_bytes(ours)) <= 0.05 * payload_bytes(ours)


def test_a_bare_step_is_a_step(tmp_path: Path) -> None:
    with (
        Databases(tmp_path) as databases,
        databases.fresh("sqlite") as ours,
        databases.fresh("sqlite") as bare,
    ):
        asyncio.run(steps(ours, 4))
        bare_commits(bare, 3)
        middle = [row for row in rows(ours, "history_events", "seq") if 3 < row["seq"] <= 12]
        stepped = rows(bare, "history_events", "seq")
        assert [row["type"] for row in stepped] == [row["type"] for row in middle]
        size, wanted = (sum(len(row["payload"]) for row in some) for some in (stepped, middle))
        assert abs(size - wanted) <= 0.05 * wanted
