"""Journals of processes that are long gone are forgotten; those of the living stay, or come back."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import workflow
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_store.database.sql_text import fetch
from outlast_store.transitions import dead_journals
from outlast_watchdog.watchdog import TaskWatchdog


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@workflow.defn
async def nothing() -> int:
    return 1


async def test_a_row_goes_that_is_a_day_old_and_has_not_changed_for_an_hour() -> None:
    async with TestEnvironment() as env:
        runtime, ids = env.client.runtime, env.client.runtime.environment.ids
        dead, busy = ids.next(), ids.next()
        await env.sleep(90_000)
        young = ids.next()
        connection = runtime.journal.committer.connect()
        for journal_id in (dead, busy, young):
            connection.exec_driver_sql("INSERT INTO journals VALUES (?, 1)", (journal_id,))
        watchdog = TaskWatchdog(env.client)
        own = runtime.journal.committer.journal_id

        async def left() -> set[str]:
            await env.sleep(3600)
            await watchdog.run_pass()
            return {row[0] for row in await runtime.read(fetch, "SELECT journal_id FROM journals")}

        assert await left() == {own, dead, busy, young}
        connection.exec_driver_sql("UPDATE journals SET batch_no = 2 WHERE journal_id = ?", (busy,))
        assert await left() == {own, busy, young}
        assert await left() == {own, young}


async def test_what_has_written_meanwhile_is_not_forgotten() -> None:
    async with TestEnvironment(workflows=[nothing]) as env:
        runtime = env.client.runtime
        connection = runtime.journal.committer.connect()
        connection.exec_driver_sql("INSERT INTO journals VALUES ('j', 2)")
        assert await runtime.journal.apply(dead_journals.ForgetJournals([("j", 1)])) == 0
        assert await runtime.journal.apply(dead_journals.ForgetJournals([("j", 2), ("k", 1)])) == 1
        assert await env.client.execute(nothing, id="w") == 1
