"""Registered documents: by name and version, and as subflows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.serverless.cases import whole

from outlast import Client, workflow
from outlast.errors import (
    DocumentConflictError,
    DocumentNotFoundError,
    FaultedError,
    FaultedTimeoutError,
    InvalidDocumentError,
    InvalidOptionError,
)
from outlast.testing import TestEnvironment
from outlast_serverless import Document, Runtime
from outlast_serverless.interpreter.faults import BASE


def make(text: str, name: str = "a", version: str = "0.1.0") -> Document:
    head = f"document: {{dsl: '1.0.3', namespace: n, name: {name}, version: '{version}'}}\n"
    return Document.parse(head + whole(text).partition("\n")[2])


def simple(value: int, version: str = "0.1.0") -> Document:
    return make(f"do: [{{s: {{set: {{v: {value}}}}}}}]", version=version)


@workflow.defn
async def double(order: dict[str, int]) -> int:
    return order["n"] * 2


@workflow.defn
async def breaks() -> None:
    raise ValueError("no")


async def test_a_version_keeps_its_content(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env, Runtime(env.client) as runtime:
        assert await runtime.register(simple(1))
        assert not await runtime.register(simple(1))
        with pytest.raises(DocumentConflictError, match=r"n/a:0\.1\.0 is registered already"):
            await runtime.register(simple(2))
        for version in ("0.10.0", "0.9.0", "1.0.0-rc.1"):
            assert await runtime.register(simple(3, version))
        assert (await runtime.document("n/a")).version == "0.10.0"
        assert (await runtime.document("n/a:0.1.0")).source == simple(1).source
        assert (await runtime.document("n/a", "1.0.0-rc.1")).digest == simple(3, "1.0.0-rc.1").digest
        versions = [one.version async for one in runtime.documents()]
        assert versions == ["0.1.0", "0.10.0", "0.9.0", "1.0.0-rc.1"]
        with pytest.raises(DocumentNotFoundError, match=r"n/a:7.0.0 is registered: the versions are 0.1.0"):
            await runtime.document("n/a:7.0.0")
        with pytest.raises(DocumentNotFoundError, match="register it first"):
            await runtime.start("n/nobody")
        with pytest.raises(InvalidOptionError, match="names no document"):
            await runtime.start("order")


async def test_expressions_are_compiled_before_anything_is_written(sqlite_url: str) -> None:
    text = whole("do: [{t: {set: '${ .a | nope }'}}, {u: {if: 'lengthh', set: {v: 1}}}]")
    async with Client.connect(sqlite_url) as client:
        runtime = Runtime(client)
        with pytest.raises(InvalidDocumentError, match=r"n/a:0\.1\.0 has 2 problems") as caught:
            await runtime.register(Document.parse(text))
        assert [(one.code, one.pointer) for one in caught.value.problems] == [
            ("invalid_expression", "/do/0/t/set"),
            ("invalid_expression", "/do/1/u/if"),
        ]
        assert [one async for one in runtime.documents()] == []


async def test_no_virtual_time_passes_while_expressions_are_compiled(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        other = asyncio.create_task(asyncio.sleep(60))
        began = env.now()
        await runtime.register(make("do: [{s: {set: {v: '${ [1, 2] | add }'}}}]"))
        assert (env.now() - began).total_seconds() < 1
        other.cancel()


async def test_it_is_started_by_name(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.register(simple(1))
        await runtime.register(simple(2, "0.2.0"))
        assert await (await runtime.start("n/a")).result() == {"v": 2}
        assert await (await runtime.start("n/a", version="0.1.0")).result() == {"v": 1}


SUBFLOW = (
    "- c: {run: {workflow: {namespace: n, name: sub, version: VERSION, input: {n: '${ .n }'}}, await: AWAIT}}"
)


async def subflow(
    runtime: Runtime, child: str, input: Any = None, *, version: str = "latest", awaits: bool = True
) -> Any:
    await runtime.register(make(child, "sub"))
    text = SUBFLOW.replace("VERSION", f"'{version}'").replace("AWAIT", str(awaits).lower())
    return await (await runtime.start(make(text), input)).result()


@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_subflow_is_a_child(database_url: str, cached: int) -> None:
    async with (
        TestEnvironment(url=database_url, max_cached_workflows=cached) as env,
        Runtime(env.client) as runtime,
        env.new_worker(
            workflows=[*runtime.workflows, double, breaks],
            activities=runtime.activities,
            max_cached_workflows=cached,
        ),
    ):
        adds = "do: [{w: {wait: PT1S}}, {s: {set: {v: '${ .n + 1 }'}}}]"
        assert await subflow(runtime, adds, {"n": 1}) == {"v": 2}
        children = [one async for one in env.client.list(workflow_type="serverless:n/sub")]
        assert [one.workflow_id.rpartition(":")[2] for one in children] == ["/do/0/c"]
        assert await subflow(runtime, adds, {"n": 1}, awaits=False) == {"n": 1}
        with pytest.raises(FaultedError) as caught:
            await subflow(runtime, adds, version="9.9.9")
        assert caught.value.error["type"] == f"{BASE}configuration"
        assert caught.value.error["instance"] == "/do/0/c"
        python = "- c: {run: {workflow: {namespace: python, name: NAME, version: '1.0.0' INPUT}}}"
        doubles = make(python.replace("NAME", "double").replace("INPUT", ", input: {n: '${ .n }'}"))
        assert await (await runtime.start(doubles, {"n": 4})).result() == 8
        broken = make(python.replace("NAME", "breaks").replace("INPUT", ""))
        with pytest.raises(FaultedError) as raised:
            await (await runtime.start(broken)).result()
        assert raised.value.error["type"] == f"{BASE}runtime"


async def test_errors_and_timeouts_of_a_subflow_are_the_tasks(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        raises = "do: [{r: {raise: {error: {type: 'https://x/e', status: 418}}}}]"
        with pytest.raises(FaultedError) as caught:
            await subflow(runtime, raises)
        assert (caught.value.error["status"], caught.value.error["instance"]) == (418, "/do/0/c")
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.register(make("timeout: {after: PT5S}\ndo: [{w: {wait: PT1H}}]", "late"))
        text = (
            SUBFLOW.replace("name: sub", "name: late").replace("VERSION", "latest").replace("AWAIT", "true")
        )
        with pytest.raises(FaultedTimeoutError) as late:
            await (await runtime.start(make(text))).result()
        assert (late.value.error["status"], late.value.error["instance"]) == (408, "/do/0/c")
