"""Transactional activities in real time, on each database that has more than one connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.transactions import bank as programs
from tests.transactions.bank import Bank

from outlast import Client, Worker

Working = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["sqlite-file", "postgresql", "postgresql-async"])
def kind(request: pytest.FixtureRequest) -> str:
    """The databases and the kinds of code: a plain function, and on PostgreSQL an ``async`` one."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    """A fresh database."""
    found: str = request.getfixturevalue("sqlite_url" if kind == "sqlite-file" else "postgresql_url")
    return found


@pytest.fixture
def transfers(kind: str) -> str:
    """The activity's type."""
    return "transfer_async" if kind == "postgresql-async" else "transfer"


@pytest.fixture
def bank(url: str) -> Iterator[Bank]:
    """Its bank: Ada has 100, Bob nothing."""
    programs.runs.clear()
    programs.meddle.clear()
    made = Bank(url)
    made.open(ada=100, bob=0)
    yield made
    made.close()


@pytest.fixture
def working(url: str, bank: Bank, kind: str) -> Working:
    """Connects, and works."""

    @asynccontextmanager
    async def work(**options: Any) -> AsyncGenerator[Client]:
        activities: list[Any] = [programs.transfer]
        if kind != "sqlite-file":
            activities.append(programs.transfer_async)
        activities += options.pop("activities", [])
        workflows = [programs.pays, programs.says_hello, *options.pop("workflows", [])]
        async with (
            await Client.connect(url) as client,
            Worker(client, workflows=workflows, activities=activities, **options),
        ):
            yield client

    return work
