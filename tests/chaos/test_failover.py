"""High availability, really run: the primary is killed under load, its synchronous standby takes over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.chaos.judge import judge
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.chaos.processes import Crew
from tests.engine.process import until_so

from outlast import Client
from outlast.runtime.schema_check import ensure_schema
from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

pytestmark = pytest.mark.postgresql

REPLICATED: dict[str, object] = {"wal_level": "replica", "max_wal_senders": 4}


def results(ledger: Ledger) -> int:
    return sum(what == "result" for what, _, _ in ledger.entries())


def ledger_grows_by(ledger: Ledger, more: int) -> Callable[[], bool]:
    wanted = results(ledger) + more
    return lambda: results(ledger) >= wanted


async def test_a_primary_that_is_killed_under_load_takes_nothing_acknowledged_with_it(tmp_path: Path) -> None:
    with TemporaryPostgres(settings=REPLICATED) as primary:
        opened = Database(DatabaseUrl.parse(primary.create_database("orders")), Environment())
        ensure_schema(opened, migrate=True)
        opened.dispose()
        with TemporaryPostgres(standby_of=primary) as standby:
            primary.follow_synchronously()
            hosts = quote(f"{primary.folder},{standby.folder}", safe=",")
            url = f"postgresql://postgres@/orders?host={hosts}&target_session_attrs=read-write"
            await fail_over(url, primary, standby, tmp_path)


async def fail_over(url: str, primary: TemporaryPostgres, standby: TemporaryPostgres, folder: Path) -> None:
    ledger = Ledger(folder / "ledger")
    crew = Crew(url, folder, workers=2, watchdogs=1, lease_s=2)
    try:
        await crew.start()
        async with Client.connect(url) as client:
            load = Load(client, ledger, random.Random(1), 8, folder / "questions")
            working = asyncio.create_task(load.run())
            await until(ledger_grows_by(ledger, 15))
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(standby.promote)
            await until(ledger_grows_by(ledger, 15))
            load.stop()
            async with asyncio.timeout(60):
                await working
        assert await crew.stop() == []
    finally:
        crew.kill_all()
        ledger.close()
    with psycopg.connect(standby.url("orders")) as connection:
        assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
    database = Database(DatabaseUrl.parse(url), Environment())
    with database.reader() as reading:
        verdict = judge(reading, ledger, folder / "effects")
    database.dispose()
    assert verdict.wrong == []
    assert verdict.acknowledged["result"] == verdict.acknowledged["started"] >= 30


async def until(holds: Callable[[], bool]) -> None:
    async def ask() -> bool:
        return holds()

    await until_so(ask, within_s=90)
