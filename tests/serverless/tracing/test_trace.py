"""What is told of the tasks that have run: which, when, how they ended, and what is told where that is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.serverless.cases import HERE, continue_everywhere, whole

from outlast import workflow
from outlast.errors import InvalidOptionError, UntraceableRunError
from outlast.interceptors import Interceptor
from outlast.testing import TestEnvironment
from outlast_activities.definitions import definition_of
from outlast_serverless import Document, DocumentRun, Runtime, TaskStep
from outlast_serverless.interpreter import request
from outlast_serverless.tracing import tracer

KINDS = """
- sets: {set: {n: '${ .x + 1 }'}}
- skipped: {if: 'false', set: {n: 7}}
- loop: {for: {in: '[1,2]'}, do: [{adds: {set: {n: '${ .n + $item }'}}}]}
- tries:
    try: [{waits: {wait: PT5S, timeout: {after: PT1S}}}]
    catch: {errors: {with: {status: 408}}, retry: {delay: PT1S, limit: {attempt: {count: 1}}}, do: [{c: {set: {n: 3}}}]}
- forks: {fork: {compete: true, branches: [{a: {wait: PT1S}}, {b: {wait: PT2S}}]}}
- back: {switch: [{again: {when: '.n < 5', then: more}}, {enough: {then: stops}}]}
- more: {set: {n: '${ .n + 1 }'}, then: back}
- stops: {do: [{last: {set: {z: 1}, then: end}}]}
- never: {set: {v: 1}}
"""
TOLD = """
/do/0/sets set completed 0 0
/do/1/skipped set skipped 0 0
/do/2/loop for completed 0 0
/do/2/loop/do/0/adds#it=0 set completed 0 0
/do/2/loop/do/0/adds#it=1 set completed 0 0
/do/3/tries try completed 0 3
/do/3/tries/try/0/waits wait timed_out 0 1
/do/3/tries/try/0/waits#att=2 wait timed_out 2 3
/do/3/tries/catch/do/0/c#catch set completed 3 3
/do/4/forks fork completed 3 4
/do/4/forks/fork/branches/0/a wait completed 3 4
/do/4/forks/fork/branches/1/b wait cancelled 3 4
/do/5/back switch completed 4 4
/do/6/more set completed 4 4
/do/5/back#visit=2 switch completed 4 4
/do/6/more#visit=2 set completed 4 4
/do/5/back#visit=3 switch completed 4 4
/do/7/stops do completed 4 4
/do/7/stops/do/0/last set completed 4 4
"""


def make(text: str) -> Document:
    return Document.parse(whole(text.lstrip()))


async def steps(run: DocumentRun, *, data: bool = False) -> list[TaskStep]:
    return [step async for step in run.trace(data=data)]


def lines(found: Iterable[TaskStep], began: datetime | None = None) -> list[str]:
    """The steps in one line each: with `began`, with the seconds at which they began and ended."""

    def line(step: TaskStep) -> str:
        told = f"{step.id} {step.kind} {step.outcome}"
        if began is None:
            return told
        ended = "-" if step.ended is None else f"{(step.ended - began).total_seconds():.0f}"
        return f"{told} {(step.began - began).total_seconds():.0f} {ended}"

    return [line(step) for step in found]


async def test_every_task_is_told_in_the_order_in_which_they_began(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows):
            run = await runtime.start(make(KINDS), {"x": 1}, id="w")
            await asyncio.sleep(3.5)
            half = await steps(run)
            assert await run.result() == {"z": 1}
            length = (await run.handle.describe()).run.history_length
        # With nobody alive, and for nothing more in the history.
        found = await steps(run)
        began = found[0].began
        assert lines(found, began) == TOLD.split("\n")[1:-1]
        assert [step.number for step in found] == list(range(1, 20))
        assert lines(half, began)[-3:] == [
            "/do/4/forks fork open 3 -",
            "/do/4/forks/fork/branches/0/a wait open 3 -",
            "/do/4/forks/fork/branches/1/b wait open 3 -",
        ]
        assert (await run.handle.describe()).run.history_length == length
        assert all((step.input, step.output) == (None, None) for step in found)
        data = {step.id: step for step in await steps(run, data=True)}
        assert (data["/do/0/sets"].input, data["/do/0/sets"].output) == ({"x": 1}, {"n": 2})
        late = data["/do/3/tries/try/0/waits"]
        assert late.error is not None
        assert (late.error["status"], late.output) == (408, None)


async def test_examples_that_take_their_time_have_their_order(sqlite_url: str) -> None:
    """The order of the others is held where they run: ``tests/serverless/calls/test_examples.py``."""
    names = ("wait-duration-inline", "wait-duration-iso8601", "listen-to-any-forever-foreach")
    expected: dict[str, list[str]] = YAML(typ="safe").load(HERE / "traces.yaml")
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        # Nobody makes calls here, so the one that an event leads to stays open.
        activities = [one for one in runtime.activities if definition_of(one).name != "serverless.http"]
        async with env.new_worker(workflows=runtime.workflows, activities=activities):
            runs = {
                name: await runtime.start(Document.load(HERE / "examples" / f"{name}.yaml"), id=name)
                for name in names
            }
            await runs[names[2]].publish({"id": "1", "source": "/s", "type": "t"})
            await asyncio.sleep(40)
        for name, run in runs.items():
            told = [f"{step.id} {step.outcome}".removesuffix(" completed") for step in await steps(run)]
            assert told == expected[name]


async def test_pages_are_the_whole(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "MOST_STEPS", 7)
    monkeypatch.setattr(tracer, "MOST_WITH_DATA", 4)
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows):
            run = await runtime.start(make(KINDS), {"x": 1}, id="w")
            await run.result()
        assert lines(await steps(run)) == [
            line.rpartition(" ")[0].rpartition(" ")[0] for line in TOLD.split("\n")[1:-1]
        ]
        assert [one.number for one in await steps(run, data=True)] == list(range(1, 20))
        for size in (1, 3, 7, 19, 20):
            pages, cursor = [await run.trace_page(limit=size)], None
            while (cursor := pages[-1].cursor) is not None:
                pages.append(await run.trace_page(cursor, limit=size))
            assert [step.number for page in pages for step in page.steps] == list(range(1, 20)), size
            assert all(len(page.steps) <= size for page in pages)
        for cursor in ("x", "x:1", f"{run.handle.run_id}:-1", f"{run.handle.run_id}:"):
            with pytest.raises(InvalidOptionError, match="no such cursor"):
                await run.trace_page(cursor)
        with pytest.raises(InvalidOptionError, match="limit"):
            await run.trace_page(limit=0)


async def test_what_is_open_when_the_engine_ends_a_run_was_cancelled(database_url: str) -> None:
    text = "timeout: {after: PT10S}\ndo: [{d: {do: [{w: {wait: PT1H}}]}}]"
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        late, ended = await runtime.start(make(text)), await runtime.start(make(text))
        await asyncio.sleep(1)
        await ended.handle.terminate()
        await asyncio.sleep(10)
        for run in (late, ended):
            assert lines(await steps(run)) == ["/do/0/d do cancelled", "/do/0/d/do/0/w wait cancelled"]
            assert all(step.ended is not None for step in await steps(run))


async def test_functions_extensions_and_foreach_are_told(sqlite_url: str) -> None:
    text = """
use:
  functions: {twice: {set: {v: '${ .n * 2 }'}}}
  extensions: [{logs: {extend: set, before: [{b: {wait: PT1S}}], after: [{a: {wait: PT1S}}]}}]
do:
- f: {call: twice, with: {n: '${ .n }'}}
- l: {listen: {to: {one: {with: {type: t}}}}, foreach: {do: [{w: {wait: PT1S}}]}}
"""
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows, activities=runtime.activities):
            run = await runtime.start(make(text), {"n": 1})
            await run.publish({"id": "1", "source": "/s", "type": "t"})
            await run.result()
        assert lines(await steps(run)) == [
            "/do/0/f call completed",
            "/use/functions/twice#call=/do/0/f set completed",
            "/use/extensions/0/logs/before/0/b#call=/do/0/f,of=/use/functions/twice wait completed",
            "/use/extensions/0/logs/after/0/a#call=/do/0/f,of=/use/functions/twice wait completed",
            "/do/1/l listen completed",
            "/do/1/l/foreach/do/0/w#event=0 wait completed",
        ]


async def test_a_reset_is_told_once(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows):
            run = await runtime.start(make("- a: {wait: PT1S}\n- b: {wait: PT1S}\n- c: {set: {done: true}}"))
            await run.result()
            new = await run.handle.reset("last-workflow-task")
            await new.result()
        found = await steps(runtime.run(run.id))
        assert [step.pointer for step in found] == ["/do/0/a", "/do/1/b", "/do/2/c"]
        assert {step.run_id for step in found} == {(await new.describe()).run.run_id}


async def test_a_chain_is_told_through_all_its_runs(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    continue_everywhere(monkeypatch)
    text = "- f: {for: {in: '[range(9)]'}, do: [{w: {wait: PT1S}}]}\n- s: {set: {v: 1}}"
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=runtime.workflows):
            run = await runtime.start(make(text), id="w")
            await run.result()
        found = await steps(run)
        runs = list(dict.fromkeys(step.run_id for step in found))
        assert len(runs) > 2
        waits = [step for step in found if step.kind == "wait" and step.outcome == "completed"]
        assert [step.execution for step in waits] == [f"it={number}" for number in range(9)]
        loops = [step.outcome for step in found if step.kind == "for"]
        assert loops == [*["continued"] * (len(loops) - 1), "completed"]
        assert found[-1].pointer == "/do/1/s"
        pages, cursor = [await run.trace_page(limit=7)], None
        while (cursor := pages[-1].cursor) is not None:
            pages.append(await run.trace_page(cursor, limit=7))
        assert [step for page in pages for step in page.steps] == found


async def test_what_runtime_tells_is_recorded(sqlite_url: str) -> None:
    """Another version of the worker, or other metadata, changes neither a replay nor a trace."""
    text = """
- a: {set: {at: '${ $runtime.metadata.place }'}}
- w: {wait: PT5S}
- b: {set: {v: '${ [.at, $runtime.metadata.place] }'}}
"""
    async with TestEnvironment(url=sqlite_url) as env:
        async with (
            Runtime(env.client, metadata={"place": "here"}) as runtime,
            env.new_worker(workflows=runtime.workflows),
        ):
            run = await runtime.start(make(text))
            await asyncio.sleep(1)
        async with (
            Runtime(env.client, metadata={"place": "there"}) as runtime,
            env.new_worker(workflows=runtime.workflows),
        ):
            assert await run.result() == {"v": ["here", "here"]}
        assert next(step.output for step in await steps(run, data=True)) == {"at": "here"}


@workflow.defn
async def plain() -> None:
    """No document."""


class Meddling(Interceptor):
    """Makes a durable call of its own."""

    async def run_workflow(self, call: Any, next: Any) -> Any:
        await workflow.sleep(1)
        return await next(call)


async def test_what_cannot_be_replayed_says_what_to_do(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with env.new_worker(workflows=[*runtime.workflows, plain], interceptors=[Meddling()]):
            other = await env.client.start(plain, id="plain")
            run = await runtime.start(make("- w: {wait: PT1S}"))
            await other.result()
            await run.result()
        with pytest.raises(InvalidOptionError, match="no run of a document"):
            await steps(runtime.run("plain"))
        with pytest.raises(UntraceableRunError, match=r"interceptor.*`outlast history`"):
            await steps(run)
        async with env.new_worker(workflows=runtime.workflows):
            newer = await runtime.start(make("- s: {set: {v: 1}}"))
            await newer.result()
            monkeypatch.setattr(request, "RULES", 0)
            with pytest.raises(
                UntraceableRunError, match=r"version 1 of the rulings.*trace it with the version"
            ):
                await steps(newer)


async def test_rulings_that_are_not_known_fail_the_task_and_not_the_run(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        document = make("- s: {set: {v: 1}}")
        newer = {**request.StartRequest(document.definition, None).to_json(), "rules": 2}
        handle = await env.client.start("serverless:n/a", newer, id="w")
        async with env.new_worker(workflows=runtime.workflows):
            await asyncio.sleep(5)
        assert await handle.is_open()
        assert [one.value for one in (await handle.describe()).attention] == ["task_keeps_failing"]
        [told] = (await runtime.run("w").describe()).attention
        assert told.startswith("its workflow task has failed")
        assert told.endswith("or run a worker with the versions that it began with")
