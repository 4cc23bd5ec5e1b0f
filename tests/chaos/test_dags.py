"""A DAG of every kind of nodes ends as it would have, although its worker is killed whenever its history has grown."""

from __future__ import annotations

import pytest
from tests.chaos.dags import killed_at_commits
from tests.chaos.transfers import prepared

from outlast.testing.postgres import TemporaryPostgres


async def test_every_kind_of_node_outlives_its_worker(sqlite_url: str) -> None:
    wrong, kills = await killed_at_commits(sqlite_url, every=10)
    assert not wrong
    assert kills >= 3


@pytest.mark.nightly
async def test_every_kind_of_node_outlives_a_worker_at_each_commit_on_sqlite(sqlite_url: str) -> None:
    wrong, kills = await killed_at_commits(sqlite_url, every=1)
    assert not wrong
    assert kills >= 8


@pytest.mark.nightly
@pytest.mark.postgresql
async def test_every_kind_of_node_outlives_a_worker_at_each_commit_on_postgresql() -> None:
    with TemporaryPostgres() as server:
        url = server.create_database("dags")
        prepared(url)
        wrong, kills = await killed_at_commits(url, every=1)
    assert not wrong
    assert kills >= 8
