"""Processes that write orders and their workflows in one transaction are killed at any moment: both, or neither."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.chaos.outbox_writer import Noted

from outlast import Client, Worker

ROOT = Path(__file__).parents[2]
AT_ONCE = 2


def write(url: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chaos.outbox_writer", url, name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill(writer: subprocess.Popen[str]) -> list[str]:
    """Kill a process; return what it had said and nobody had read."""
    writer.kill()
    said, _ = writer.communicate()
    # The last line may be cut off in the middle.
    return said.split("\n")[:-1]


def campaign(url: str, kills: int) -> list[str]:
    """Kill so many writers, each some lines after it has begun; return what all of them have said."""
    rng, said = random.Random(7), list[str]()
    writers = [write(url, f"o{number}") for number in range(AT_ONCE)]
    try:
        for number in range(AT_ONCE, AT_ONCE + kills):
            writer = writers.pop(0)
            assert writer.stdout is not None
            said += [writer.stdout.readline().strip() for _ in range(rng.randint(1, 6))]
            said += kill(writer)
            if number < kills:
                writers.append(write(url, f"o{number}"))
            if not writers:
                break
    finally:
        for writer in writers:
            said += kill(writer)
    return said


@pytest.mark.parametrize("kills", [6, pytest.param(1000, marks=pytest.mark.nightly)])
async def test_a_commit_starts_once_and_a_rollback_leaves_nothing(shared_url: str, kills: int) -> None:
    engine = create_engine(shared_url.replace("postgresql://", "postgresql+psycopg://"))
    async with Client.connect(shared_url) as client:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id TEXT PRIMARY KEY)"))
        said = campaign(shared_url, kills)
        await client.outbox.drain()
        assert await client.outbox.list() == []
        with engine.connect() as connection:
            orders = {row[0] for row in connection.execute(text("SELECT id FROM orders"))}
        started = [run.workflow_id async for run in client.list()]
        # Each order has one workflow with one run, and no workflow is without its order.
        assert sorted(started) == sorted(orders)
        committed = {line.split()[1] for line in said if line.startswith("committed ")}
        rolled_back = {line.split()[1] for line in said if line.startswith("rolled-back ")}
        assert committed <= orders
        assert not rolled_back & orders
        assert committed
        async with Worker(client, workflows=[Noted]):
            for order in sorted(orders):
                # The signals came once, in order, and after the start.
                assert await client.handle(order).result() == [order, "a", "b"]
    engine.dispose()
