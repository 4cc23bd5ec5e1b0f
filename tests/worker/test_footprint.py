"""A worker loads what its database and its workflows need, and nothing else: each process pays for it in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOT_FOR_SQLITE = {"alembic", "mako", "psycopg", "psycopg_binary"}

PROGRAM = """
import asyncio, sys
from outlast import Client, Worker, workflow

@workflow.defn
async def echo(number: int) -> int:
    return number

async def main(url):
    async with Client.connect(url) as client, Worker(client, workflows=[echo]):
        assert await client.execute(echo, 7) == 7

asyncio.run(main(sys.argv[1]))
print(*sys.modules)
"""


def loaded_by_a_worker(url: str) -> set[str]:
    """The packages and modules of a process that has run a workflow."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_worker_on_sqlite_loads_neither_the_driver_of_postgresql_nor_the_migrations(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    loaded_by_a_worker(url)  # makes the tables
    packages = {name.partition(".")[0] for name in loaded_by_a_worker(url)}
    assert {"outlast_store", "sqlalchemy"} <= packages
    assert not NOT_FOR_SQLITE & packages
