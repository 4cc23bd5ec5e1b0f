"""The engine's prefix is refused for workflow types, search attributes and task queues, at every way in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import ActivityOptions, StartOptions, activity, workflow
from outlast.client.client import Client
from outlast.errors import InvalidOptionError
from outlast.worker.worker import Worker

RESERVED = ["outlast", "outlast.cleanup", "outlast_cleanup", "outlast_"]
FREE = ["Outlast", "outlasting", "outlast-orders", "my_outlast", "OUTLAST_X"]
EVERY_RESERVED = pytest.mark.parametrize("name", RESERVED)


def refused(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidOptionError, match="is reserved for the engine") as caught:
        make()
    assert caught.value.field == field


@EVERY_RESERVED
def test_no_workflow_is_declared_under_it(name: str) -> None:
    async def orders() -> None: ...

    class Orders:
        @workflow.run
        async def run(self) -> None: ...

    refused(lambda: workflow.defn(name=name)(orders), "workflow_name")
    refused(lambda: workflow.defn(name=name)(Orders), "workflow_name")


def test_a_function_or_class_of_that_name_needs_another_one() -> None:
    async def outlast_orders() -> None: ...

    outlast_class = type("outlast_orders", (), {"run": workflow.run(lambda self: None)})
    refused(lambda: workflow.defn(outlast_orders), "workflow_name")
    refused(lambda: workflow.defn(outlast_class), "workflow_name")
    assert workflow.defn(name="orders")(outlast_orders) is outlast_orders


@EVERY_RESERVED
def test_no_options_take_it(name: str) -> None:
    refused(lambda: StartOptions(search_attributes={name: 1}), "search_attributes")
    refused(lambda: StartOptions().with_search_attributes({name: 1}), "search_attributes")
    refused(lambda: ActivityOptions(task_queue=name), "task_queue")
    refused(lambda: activity.defn(task_queue=name), "task_queue")


@EVERY_RESERVED
async def test_no_start_and_no_worker_takes_it(in_memory: MakeEnvironment, name: str) -> None:
    async with in_memory() as env:
        refused(
            lambda: Worker(env.client, task_queue=["default", name], workflows=[programs.nothing]),
            "task_queue",
        )
        starts: list[tuple[Callable[[], Awaitable[Any]], str]] = [
            (lambda: env.client.start(name), "workflow"),
            (lambda: env.client.start(programs.nothing, task_queue=name), "task_queue"),
            (lambda: env.client.signal_with_start(name, signal="go", id="w"), "workflow"),
        ]
        for start, field in starts:
            with pytest.raises(InvalidOptionError, match="is reserved for the engine") as caught:
                await start()
            assert caught.value.field == field
        assert await env.client.count() == 0


@pytest.mark.parametrize("name", FREE)
async def test_names_that_only_resemble_it_are_free(in_memory: MakeEnvironment, name: str) -> None:
    options = StartOptions(search_attributes={name: 1})
    async with in_memory() as env:
        await env.client.start(name, task_queue=name, options=options)
        assert await env.client.count(workflow_type=name, task_queue=name, where={name: 1}) == 1


@EVERY_RESERVED
async def test_a_workflow_id_may_be_any_name(in_memory: MakeEnvironment, name: str) -> None:
    async with in_memory(workflows=[programs.nothing]) as env:
        await env.client.execute(programs.nothing, id=name)
        assert (await env.client.describe(name)).workflow_id == name


@EVERY_RESERVED
async def test_filters_may_ask_for_it(in_memory: MakeEnvironment, name: str) -> None:
    async with in_memory() as env:
        assert await env.client.count(workflow_type=name) == 0
        assert await env.client.count(task_queue=name) == 0
        assert await env.client.count(where={name: 1}) == 0


# --- in a workflow, it fails the workflow task ------------------------------------------------------------------------


@workflow.defn
async def starts_a_reserved_child() -> None:
    await workflow.start_child("outlast_cleanup")


@workflow.defn
async def starts_a_child_on_a_reserved_task_queue() -> None:
    await workflow.start_child(programs.nothing, task_queue="outlast.cleanup")


@workflow.defn
async def sets_a_reserved_attribute() -> None:
    workflow.upsert_search_attributes({"outlast_dag": "x"})


@workflow.defn
async def removes_a_reserved_attribute() -> None:
    workflow.upsert_search_attributes({"outlast_dag": None})


@workflow.defn
async def continues_on_a_reserved_task_queue() -> None:
    workflow.continue_as_new(task_queue="outlast")


REFUSED = [
    starts_a_reserved_child,
    starts_a_child_on_a_reserved_task_queue,
    sets_a_reserved_attribute,
    removes_a_reserved_attribute,
    continues_on_a_reserved_task_queue,
]


async def why_the_task_failed(client: Client, id: str) -> str:
    last = [event async for event in client.handle(id).history()][-1]
    assert last.type == "WorkflowTaskFailed"
    return str(last.payload["failure"]["message"])


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
async def test_a_workflow_that_uses_it_fails_its_task(in_memory: MakeEnvironment, program: Any) -> None:
    async with in_memory(workflows=[program, programs.nothing]) as env:
        handle = await env.client.start(program, id="w")
        await env.settle()
        assert "is reserved for the engine" in await why_the_task_failed(env.client, "w")
        await handle.terminate()
