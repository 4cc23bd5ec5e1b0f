"""Documents are started by their own schedules."""

from __future__ import annotations

import asyncio

import pytest
from tests.serverless.cases import whole

from outlast.errors import InvalidOptionError, ScheduleNotFoundError, UnsupportedTaskError
from outlast.testing import TestEnvironment
from outlast_serverless import Document, Runtime

TASKS = "do: [{s: {set: {v: 1}}}]"


def make(schedule: str, version: str = "0.1.0") -> Document:
    text = whole(f"{schedule}\n{TASKS}")
    return Document.parse(text.replace("version: '0.1.0'", f"version: '{version}'"))


async def test_every_counts_from_when_it_was_scheduled(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await asyncio.sleep(7)
        await runtime.register(make("timeout: {after: PT5S}\nschedule: {every: PT1M}"))
        handle = await runtime.schedule("n/a")
        assert handle.schedule_id == "serverless:n/a"
        await asyncio.sleep(59)
        assert await env.client.count(workflow_type="serverless:n/a") == 0
        await asyncio.sleep(122)
        runs = [one async for one in env.client.list(workflow_type="serverless:n/a")]
        assert [one.status for one in runs] == ["completed"] * 3
        assert await runtime.run(runs[0].workflow_id).result() == {"v": 1}
        await runtime.register(make("schedule: {every: PT10S}", "0.2.0"))
        await runtime.schedule("n/a")
        await asyncio.sleep(31)
        assert await env.client.count(workflow_type="serverless:n/a") == 6
        await runtime.unschedule("n/a")
        await asyncio.sleep(100)
        assert await env.client.count(workflow_type="serverless:n/a") == 6
        with pytest.raises(ScheduleNotFoundError):
            await runtime.unschedule("n/a")


async def test_a_cron_text_is_read_in_the_documents_time_zone(sqlite_url: str) -> None:
    text = whole(f"schedule: {{cron: '0 9 * * *'}}\n{TASKS}").replace(
        "version: '0.1.0'", "version: '0.1.0', metadata: {outlast: {timezone: Europe/Zurich}}"
    )
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        described = await (await runtime.schedule(Document.parse(text))).describe()
        assert "Europe/Zurich" in str(described.specs)


async def test_what_cannot_be_scheduled(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        with pytest.raises(InvalidOptionError, match="has no `schedule`"):
            await runtime.schedule(make(""))
        with pytest.raises(UnsupportedTaskError, match="`after` cannot be kept yet"):
            await runtime.schedule(make("schedule: {after: PT1M}"))
        with pytest.raises(UnsupportedTaskError, match="`on` cannot be kept yet"):
            await runtime.schedule(make("schedule: {on: {one: {with: {type: x}}}}"))
