"""A worker loads what its database and its workflows need, and nothing else: each process pays for it in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOT_FOR_SQLITE = {"alembic", "mako", "psycopg", "psycopg_binary", "pydantic", "pydantic_core"}

PROGRAM = """
import asyncio, sys
from dataclasses import dataclass
from typing import Any
from outlast import Client, Worker, activity, workflow

@dataclass
class Order:
    number: int

@activity.defn(start_to_close_timeout=60)
def charge(number: int | None) -> dict[str, Any]:
    return {"number": number}

@workflow.defn
class Plain:
    @workflow.run
    async def run(self, number: int) -> int:
        return (await charge(number))["number"]

    @workflow.signal
    def note(self, words: list[Any]) -> None:
        pass

@workflow.defn
class Typed(Plain):
    @workflow.signal
    def change(self, order: Order) -> None:
        pass

async def main(url, served):
    async with Client.connect(url) as client, Worker(client, workflows=[served], activities=[charge]):
        loaded = "pydantic" in sys.modules
        assert await client.execute(Plain if served is Plain else Typed, 7) == 7
        assert ("pydantic" in sys.modules) == loaded

asyncio.run(main(sys.argv[1], {"plain": Plain, "typed": Typed}[sys.argv[2]]))
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with its tables."""
    made = f"sqlite:///{tmp_path_factory.mktemp('footprint')}/orders.db"
    loaded_by_a_worker(made, "plain")
    return made


def loaded_by_a_worker(url: str, served: str) -> set[str]:
    """The modules that a process has loaded when it has run a workflow."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, served], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_a_worker_on_sqlite_loads_nothing_of_postgresql_no_migrations_and_no_pydantic(url: str) -> None:
    loaded = loaded_by_a_worker(url, "plain")
    assert {"outlast_store", "sqlalchemy"} <= packages(loaded)
    assert not NOT_FOR_SQLITE & packages(loaded)
    dialects = {name.split(".")[2] for name in loaded if name.startswith("sqlalchemy.dialects.")}
    assert "sqlite" in dialects
    assert "postgresql" not in dialects


def test_a_worker_whose_code_takes_more_than_plain_json_loads_pydantic_before_it_works(url: str) -> None:
    loaded = packages(loaded_by_a_worker(url, "typed"))
    assert NOT_FOR_SQLITE & loaded == {"pydantic", "pydantic_core"}


def test_the_worker_command_loads_no_tables_and_no_views() -> None:
    program = "import sys, outlast.cli.processes.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not {"outlast.cli.common.tables", "outlast.visibility.views", "rich.progress"} & modules
