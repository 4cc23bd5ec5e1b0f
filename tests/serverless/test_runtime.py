"""Documents run, on each store and always replayed: what can be seen and done meanwhile, and who needs to be alive.

What each kind of task gives is told by the features of the kit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from tests.serverless.cases import whole

from outlast import StartOptions, workflow
from outlast.errors import FaultedError, FaultedTimeoutError, UnsupportedTaskError, WorkflowCancelledError
from outlast.testing import TestEnvironment
from outlast_serverless import Document, DocumentRun, Runtime
from outlast_serverless.interpreter.faults import BASE
from outlast_serverless.state_output import tell_attention

Use: TypeAlias = Callable[[Callable[[Runtime, TestEnvironment], Awaitable[None]]], Awaitable[None]]
TIMEOUT = {"type": f"{BASE}timeout", "status": 408}


@pytest.fixture(params=["plain", "replayed"])
def use(request: pytest.FixtureRequest, database_url: str) -> Use:
    """Runs a test in virtual time, with a worker."""
    replayed = request.param == "replayed"

    async def run(test: Callable[[Runtime, TestEnvironment], Awaitable[None]]) -> None:
        more: dict[str, Any] = {"max_cached_workflows": 0} if replayed else {}
        async with (
            TestEnvironment(url=database_url, replay=replayed, **more) as env,
            Runtime(env.client) as runtime,
            env.new_worker(workflows=runtime.workflows, activities=runtime.activities, **more),
        ):
            await test(runtime, env)

    return run


async def faults(run: DocumentRun, expected: dict[str, Any]) -> None:
    wanted = dict(expected)
    if "/" not in wanted["type"] and len(wanted["type"]) > 1:
        wanted["type"] = BASE + wanted["type"]
    with pytest.raises(FaultedError) as caught:
        await run.result()
    found = {name: caught.value.error.get(name) for name in wanted}
    assert found == wanted
    assert isinstance(caught.value, FaultedTimeoutError) == (wanted["type"] == f"{BASE}timeout")


def make(text: str) -> Document:
    return Document.parse(whole(text))


async def test_it_is_described_while_nobody_is_alive(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        run = await runtime.start(
            make("timeout: {after: PT30M}\ndo: [{w: {wait: PT1H, timeout: {after: PT15S}}}]"), id="w"
        )
        assert (await run.describe()).phase == "pending"
        async with env.new_worker(workflows=runtime.workflows):
            await asyncio.sleep(1)
        state = await run.describe()
        assert (state.phase, state.document, state.version) == ("waiting", "n/a", "0.1.0")
        assert state.deadline_at is not None
        assert [(one.kind, one.pointer) for one in state.open] == [
            ("timeout", "/do/0/w"),
            ("wait", "/do/0/w"),
        ]
        lasts = [one.deadline_at - one.since for one in state.open if one.deadline_at and one.since]
        assert [one.total_seconds() for one in lasts] == [15, 3600]
        await asyncio.sleep(20)
        async with env.new_worker(workflows=runtime.workflows):
            await faults(run, {**TIMEOUT, "instance": "/do/0/w"})
        assert (await run.describe()).error == {
            **TIMEOUT,
            "title": "Timed out",
            "detail": "the task took longer than PT15S",
            "instance": "/do/0/w",
        }
        described = await run.handle.describe()
        assert [failure.failure_category for failure in described.failures] == ["timeout"]


@workflow.defn
async def idle() -> None:
    """Something else, whose worker has a watchdog."""


async def test_the_workflows_timeout_needs_no_worker(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        run = await runtime.start(make("timeout: {after: PT10S}\ndo: [{w: {wait: PT1H}}]"))
        async with env.new_worker(workflows=runtime.workflows):
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        async with env.new_worker(workflows=[idle]):
            await faults(run, {**TIMEOUT, "instance": "/"})
        assert (await run.describe()).phase == "faulted"


async def test_it_is_suspended_between_tasks_and_deadlines_go_on(use: Use) -> None:
    async def test(runtime: Runtime, env: TestEnvironment) -> None:
        run = await runtime.start(make("do: [{w: {wait: PT5S}}, {s: {set: {done: true}}}]"))
        await asyncio.sleep(1)
        await run.suspend()
        await asyncio.sleep(60)
        assert (await run.describe()).phase == "suspended"
        await run.resume()
        assert await run.result() == {"done": True}
        late = await runtime.start(
            make("timeout: {after: PT30S}\ndo: [{w: {wait: PT5S}}, {s: {set: {v: 1}}}]")
        )
        await late.suspend()
        await faults(late, {**TIMEOUT, "instance": "/"})

    await use(test)


async def test_it_is_cancelled(use: Use) -> None:
    async def test(runtime: Runtime, env: TestEnvironment) -> None:
        run = await runtime.start(
            make("do: [{t: {try: [{w: {wait: PT1H}}], catch: {do: [{s: {set: {v: no}}}]}}}]")
        )
        await asyncio.sleep(1)
        await run.cancel("enough")
        with pytest.raises(WorkflowCancelledError):
            await run.result()
        assert (await run.describe()).phase == "cancelled"

    await use(test)


async def test_what_cannot_run_is_told_before_anything_is_written(sqlite_url: str) -> None:
    text = (
        "do:\n- a: {call: asyncapi, with: {document: {endpoint: 'https://x/a'}, operation: o, protocol: amqp,\n"
        "    message: {}}}\n"
        "- b: {call: '${ .name }'}\n"
    )
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        with pytest.raises(UnsupportedTaskError) as caught:
            await runtime.start(make(text))
        assert [pointer for pointer, _ in caught.value.problems] == ["/do/0/a", "/do/1/b"]
        assert await env.client.count() == 0


async def test_an_input_is_checked_first_where_that_is_asked_for(sqlite_url: str) -> None:
    schema = make("input: {schema: {document: {type: object, required: [n]}}}\ndo: [{a: {set: {v: 1}}}]")
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        with pytest.raises(FaultedError, match='"n" is a required property'):
            await runtime.start(schema, {}, check=True)
        assert await env.client.count() == 0


async def test_the_nearer_timeout_counts(sqlite_url: str) -> None:
    wanted = make("timeout: {after: PT1M}\ndo: [{w: {wait: PT1H}}]")
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        for given, expected in ((30, 30), (90, 60), (None, 60)):
            run = await runtime.start(wanted, options=StartOptions(execution_timeout=given))
            described = await run.handle.describe()
            assert described.execution_timeout_seconds == expected
            assert described.run.memo is not None
            assert described.run.memo["digest"] == wanted.digest
        assert [one.workflow_type async for one in env.client.list()] == ["serverless:n/a"] * 3


SEED = """
document: {dsl: '1.0.3', namespace: examples, name: workflow-with-timeout, version: '1.0.0'}
timeout: {after: {minutes: 30}}
do:
  - callExternalService:
      call: http
      with: {method: get, endpoint: 'https://api.example.com/data'}
      timeout: {after: {seconds: 15}}
"""


async def test_the_deadline_of_a_call_is_decided_with_nobody_alive_but_a_watchdog(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        run = await runtime.start(Document.parse(SEED), id="seed")
        async with env.new_worker(workflows=runtime.workflows):
            await asyncio.sleep(1)
        state = await run.describe()
        assert state.phase == "running"
        [call] = state.open
        assert (call.pointer, call.kind) == ("/do/0/callExternalService", "call")
        assert call.deadline_at is not None
        assert call.since is not None
        assert (call.deadline_at - call.since).total_seconds() == 15
        assert state.deadline_at is not None
        assert (state.deadline_at - call.since).total_seconds() == pytest.approx(1800, abs=1)
        async with env.new_worker(workflows=[idle]):
            await asyncio.sleep(20)
        history = [event.type async for event in run.handle.history()]
        assert history[-1] == "ActivityTimedOut"
        assert (await run.describe()).phase == "running"
        async with env.new_worker(workflows=runtime.workflows):
            await faults(run, {**TIMEOUT, "instance": "/do/0/callExternalService"})
        [failure] = [
            one for one in (await run.handle.describe()).failures if one.source_kind == "workflow_run"
        ]
        assert failure.failure_category == "timeout"


async def test_an_endless_expression_costs_its_own_run_alone(sqlite_url: str) -> None:
    """Its workflow task fails and is tried again; the worker goes on, and the deadline ends the run."""
    async with (
        TestEnvironment(url=sqlite_url, max_task_failures=0) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        endless = await runtime.start(make("timeout: {after: PT4S}\ndo: [{s: {set: '${ def f: f; f }'}}]"))
        other = await runtime.start(make("do: [{s: {set: {v: '${ 1 + 1 }'}}}]"))
        assert await other.result() == {"v": 2}
        described = await endless.handle.describe()
        assert described.run.task_failures >= 1
        await faults(endless, {**TIMEOUT, "instance": "/"})


async def test_a_fault_is_logged_in_one_line(use: Use, caplog: pytest.LogCaptureFixture) -> None:
    async def test(runtime: Runtime, env: TestEnvironment) -> None:
        text = "do: [{r: {raise: {error: {type: 'https://e.x/e', status: 500, detail: why}}}}]"
        run = await runtime.start(make(text), id="w")
        with caplog.at_level(logging.ERROR, "outlast"), pytest.raises(FaultedError):
            await run.result()
        [told] = [one for one in caplog.records if "why (500, /do/0/r)" in one.getMessage()]
        assert told.exc_info is None, "where the interpreter raises it tells nobody anything"
        assert (await run.handle.describe()).failures[0].stack is None

    await use(test)


async def test_what_needs_attention_is_told(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        run = await runtime.start(make("do: [{a: {set: {v: 1}}}]"), id="w")
        await asyncio.sleep(600)
        [reason] = (await run.describe()).attention
        assert reason.startswith("no live worker polls task queue 'default'")
        assert "start `outlast serverless worker --task-queue default`" in reason


async def test_who_waits_for_a_run_is_told_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    async with TestEnvironment() as env, Runtime(env.client) as runtime:
        run = await runtime.start(make("do: [{a: {set: {v: 1}}}]"), id="w")
        await tell_attention(run)
        assert "outlast: w needs attention: no live worker polls" in capsys.readouterr().err
