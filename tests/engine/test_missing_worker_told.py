"""An activity that was not begun in time says whether any worker could have begun it."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import activity, workflow
from outlast.errors import ActivityTimeoutError
from outlast.testing import TestEnvironment

POLLED = "workers poll task queue 'default', but none of them knows"


@activity.defn(start_to_close_timeout=10)
async def fine() -> int:
    return 1


@workflow.defn
async def calls(name: str, options: dict[str, Any]) -> list[str | None]:
    call: Any = workflow.execute_activity
    try:
        await call(name, **options)
    except ActivityTimeoutError as error:
        return [error.timeout_kind, error.lack, str(error)]
    return []


@pytest.mark.parametrize("timeout", ["schedule_to_start", "schedule_to_close"])
@pytest.mark.parametrize(
    ("name", "queue", "told"),
    [
        ("nobody", "default", f"{POLLED} activity 'nobody' (known: fine)"),
        ("fine", "slow", "no live worker polls task queue 'slow' of activity 'fine' (polled: default)"),
    ],
)
async def test_a_timeout_names_the_worker_that_was_missing(
    timeout: str, name: str, queue: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with TestEnvironment(workflows=[calls], activities=[fine]) as env:
        options = {"task_queue": queue, "schedule_to_close_timeout": 60, f"{timeout}_timeout": 30}
        handle = await env.client.start(calls, name, options, id="c")
        kind, lack, text = await handle.result()
        assert (kind, lack) == (timeout, told)
        assert text is not None
        assert f" passed at 2026-01-01T00:00:30+00:00; {told} (attempt " in text
        failures = (await handle.describe()).failures
        assert told in failures[0].message
        assert told in caplog.text


async def test_a_timeout_of_an_attempt_that_ran_names_no_worker() -> None:
    @activity.defn(name="slow", schedule_to_close_timeout=20)
    async def slow() -> None:
        import asyncio

        await asyncio.sleep(90)

    async with TestEnvironment(workflows=[calls], activities=[slow]) as env:
        kind, lack, _ = await env.client.execute(calls, "slow", {"schedule_to_close_timeout": 20})
        assert (kind, lack) == ("schedule_to_close", None)
