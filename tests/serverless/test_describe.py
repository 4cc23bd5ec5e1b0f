"""Where a run stands is told of every kind that can wait, with no worker alive: pointer, and until when."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from tests.serverless.cases import whole

from outlast.testing import TestEnvironment
from outlast_activities.definitions import definition_of
from outlast_serverless import Document, OpenTask, Runtime

RETRY = "catch: {retry: {delay: PT1M, limit: {duration: PT1H, attempt: {count: 3, duration: PT5M}}}}"
WAITING: dict[str, tuple[str, list[str]]] = {
    "wait": ("- t: {wait: PT1H}", ["/do/0/t wait 0 3600"]),
    "timeout": (
        "- t: {do: [{w: {wait: PT1H}}], timeout: {after: PT1M}}",
        ["/do/0/t timeout 0 60", "/do/0/t/do/0/w wait 0 3600"],
    ),
    "listen": (
        "- t: {listen: {to: {one: {with: {type: x}}}}, timeout: {after: PT1M}}",
        ["/do/0/t listen 0 -", "/do/0/t timeout 0 60"],
    ),
    "backoff": (
        "- t: {try: [{r: {raise: {error: {type: 'https://e/e', status: 500}}}}], " + RETRY + "}",
        ["/do/0/t backoff 0 60", "/do/0/t retry 0 3600"],
    ),
    "attempt": (
        "- t: {try: [{w: {wait: PT2H}}], " + RETRY + "}",
        ["/do/0/t attempt 0 300", "/do/0/t retry 0 3600", "/do/0/t/try/0/w wait 0 7200"],
    ),
    "call": (
        "- t: {call: http, with: {method: get, endpoint: 'http://x.y'}, timeout: {after: PT5M}}",
        ["/do/0/t call 0 300"],
    ),
    "call_without_limit": (
        "- t: {call: http, with: {method: get, endpoint: 'http://x.y'}}",
        ["/do/0/t call 0 -"],
    ),
    "run": ("- t: {run: {shell: {command: ls}}, timeout: {after: PT5M}}", ["/do/0/t run 0 300"]),
    "subflow": (
        "- t: {run: {workflow: {namespace: n, name: sub, version: '0.1.0'}}, timeout: {after: PT2M}}",
        ["/do/0/t run 0 600", "/do/0/t timeout 0 120"],
    ),
    "function": (
        "use: {functions: {f: {wait: PT1H}}}\ndo: [{t: {call: f, timeout: {after: PT2M}}}]",
        ["/do/0/t timeout 0 120", "/use/functions/f#call=/do/0/t wait 0 3600"],
    ),
    "suspended": (
        "- w: {wait: PT1S}\n- t: {for: {in: '[1]'}, do: [{s: {set: {v: 1}}}]}",
        ["/do/1/t suspended 1 -"],
    ),
    "suspended_branches": (
        "- f: {fork: {branches: [{a: {do: [{w: {wait: PT1S}}, {s: {set: {v: 1}}}]}}, {b: {wait: PT1H}}]}}",
        ["/do/0/f/fork/branches/0/a/do/1/s suspended 1 -", "/do/0/f/fork/branches/1/b wait 0 3600"],
    ),
}


def line(task: OpenTask, began: datetime) -> str:
    def seconds(instant: datetime | None) -> str:
        return "-" if instant is None else f"{(instant - began).total_seconds():.0f}"

    pointer = f"{task.pointer}#{task.execution}" if task.execution else task.pointer
    return f"{pointer} {task.kind} {seconds(task.since)} {seconds(task.deadline_at)}"


async def test_what_waits_is_told_with_its_deadline(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        sub = whole("timeout: {after: PT10M}\ndo: [{w: {wait: PT1H}}]").replace("name: a", "name: sub")
        await runtime.register(Document.parse(sub))
        # Nobody makes calls here, so those that are asked for stay open.
        calling = {"serverless.http", "serverless.shell"}
        activities = [one for one in runtime.activities if definition_of(one).name not in calling]
        runs = {}
        async with env.new_worker(workflows=runtime.workflows, activities=activities):
            for name, (text, _) in WAITING.items():
                runs[name] = await runtime.start(Document.parse(whole(text)), id=name)
                if name.startswith("suspended"):
                    await asyncio.sleep(0.1)
                    await runs[name].suspend()
            await asyncio.sleep(5)
        found = {}
        for name, run in runs.items():
            state = await run.describe()
            began = (await run.handle.describe()).run.started_at
            assert began is not None
            found[name] = [line(task, began) for task in state.open]
        assert found == {name: lines for name, (_, lines) in WAITING.items()}
        phases = {name: (await run.describe()).phase for name, run in runs.items()}
        assert {name for name, phase in phases.items() if phase == "running"} == {
            "call",
            "call_without_limit",
            "run",
            "subflow",
        }
        assert {name for name, phase in phases.items() if phase == "suspended"} == {
            "suspended",
            "suspended_branches",
        }


@pytest.mark.parametrize("resumed", [False, True])
async def test_what_was_held_back_begins_when_the_run_is_resumed(sqlite_url: str, resumed: bool) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows):
            run = await runtime.start(Document.parse(whole(WAITING["suspended"][0])))
            await run.suspend()
            await asyncio.sleep(5)
            if resumed:
                await run.resume()
                assert await run.result() == {"v": 1}
        told = [(step.pointer, step.outcome) async for step in run.trace()]
        first = [("/do/0/w", "completed")]
        after = [("/do/1/t", "completed"), ("/do/1/t/do/0/s", "completed")]
        # The suspension came before the first task, or after it had begun.
        assert told in ([first + after] if resumed else [first, []])
