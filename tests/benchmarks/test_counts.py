"""What a workflow and an activity cost, in statements, rows and bytes: the same on every machine, so a rise is news.

Where one of these fails, something writes more than it did. If that is worth it, change the figure here and the cost
model in docs/performance.md; if a figure fell, lower it here, so that it stays low.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from benchmarks.harness.counting import Counter, Counts
from benchmarks.harness.databases import Databases
from benchmarks.harness.inputs import argument
from benchmarks.harness.workloads import engine, order, run_orders
from benchmarks.throughput.growth import Growth, measure_growth

from outlast import Client

WORKFLOWS = 20


@pytest.fixture
def databases(tmp_path: Path):
    with Databases(tmp_path) as opened:
        yield opened


@pytest.fixture
def lone(databases: Databases) -> Counts:
    """Workflows with one activity, one after the other."""

    async def run(url: str) -> Counts:
        async with engine(url) as client:
            await run_orders(client, 1, 1)
            with counter.counting() as counts:
                await run_orders(client, WORKFLOWS, 1)
        return counts

    with databases.fresh("sqlite") as url, Counter() as counter:
        return asyncio.run(run(url))


def test_a_lone_workflow_takes_two_commits(lone: Counts) -> None:
    assert lone.commits == 2 * WORKFLOWS


def test_a_lone_workflow_takes_so_many_statements(lone: Counts) -> None:
    assert lone.statements <= 13 * WORKFLOWS


def test_a_lone_workflow_writes_its_rows_and_no_more(lone: Counts) -> None:
    """Instance, run, activity, six events; the updates of run and activity; the journal's row, twice."""
    assert lone.rows == 13 * WORKFLOWS


def test_a_lone_workflow_sends_so_many_bytes(lone: Counts) -> None:
    assert lone.bytes <= 3_500 * WORKFLOWS


def test_a_lone_workflow_is_not_read_back(lone: Counts) -> None:
    assert lone.kinds["SELECT history_events"] == 0
    assert lone.kinds["SELECT workflow_instances"] == 0


@pytest.fixture(scope="module")
def growth(tmp_path_factory: pytest.TempPathFactory) -> Growth:
    """Ten activities at the beginning of a run, and ten after a thousand events."""
    with Databases(tmp_path_factory.mktemp("growth")) as databases:
        return measure_growth(databases, events=1_000, rounds=1)


def test_an_activity_is_one_commit(growth: Growth) -> None:
    assert growth.early.commits == growth.window


def test_an_activity_takes_so_many_statements(growth: Growth) -> None:
    assert growth.early.statements <= 7 * growth.window


def test_an_activity_writes_its_rows_and_no_more(growth: Growth) -> None:
    """Three events and the next activity; the updates of run and activity; the journal's row."""
    assert growth.early.rows == 7 * growth.window


def test_an_activity_sends_so_many_bytes(growth: Growth) -> None:
    assert growth.early.bytes <= 1_500 * growth.window


def test_an_activity_costs_the_same_late_in_a_history(growth: Growth) -> None:
    assert growth.late.written == growth.early.written
    assert growth.late.kinds["SELECT history_events"] == 0


def test_starts_share_a_commit_and_its_statements(databases: Databases) -> None:
    """A hundred starts that come together are one transaction of a few statements, not a hundred."""

    async def run(url: str) -> Counts:
        async with Client.connect(url) as client:
            with counter.counting() as counts:
                await asyncio.gather(*(client.start(order, argument(number)) for number in range(100)))
        return counts

    with databases.fresh("sqlite") as url, Counter() as counter:
        counts = asyncio.run(run(url))
    assert counts.commits == 1
    assert counts.rows == 3 * 100 + 1
    assert counts.statements <= 12
