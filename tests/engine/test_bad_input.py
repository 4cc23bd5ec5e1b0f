"""Bad input, tried: each a typed error that says what to do, and nothing half-written."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import workflow
from outlast.client.client import Client
from outlast.watchdog import TaskWatchdog
from outlast.worker.worker import Worker
from outlast_store.reads.runs import find_instance
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import (
    DurableCallError,
    InvalidOptionError,
    InvalidUrlError,
    OutlastError,
    SchemaMissingError,
    StoreReadOnlyError,
    StoreUnreachableError,
    StructuralLimitError,
    WorkflowNotFoundError,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import StartOptions


@workflow.defn
class Sized:
    @workflow.run
    async def run(self, size: int) -> int:
        return size


async def nothing_was_written(client: Client, workflow_id: str = "w") -> None:
    assert await client.runtime.read(find_instance, workflow_id) is None
    with pytest.raises(WorkflowNotFoundError):
        await client.handle(workflow_id).describe()


async def test_an_input_that_the_workflow_could_not_be_given(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Sized]) as env:
        with pytest.raises(
            DurableCallError, match=r"Sized cannot be called like this: parameter 'size' of Sized.run\(\)"
        ):
            await env.client.start(cast("Any", Sized.run), "large", id="w")
        await nothing_was_written(env.client)


async def test_an_input_over_the_payload_limit(engine: MakeEnvironment) -> None:
    async with engine(limits=StructuralLimits(payload_bytes=1000)) as env:
        with pytest.raises(StructuralLimitError) as caught:
            await env.client.start(programs.failing, "x" * 2000, id="w")
        assert caught.value.limit == 1000
        await nothing_was_written(env.client)


async def test_a_memo_over_its_limit(engine: MakeEnvironment) -> None:
    async with engine(limits=StructuralLimits(memo_bytes=100)) as env:
        with pytest.raises(
            StructuralLimitError, match="memo bytes limit exceeded: 211 > 100: keep large data"
        ):
            await env.client.start(
                programs.nothing, id="w", options=StartOptions().with_memo({"text": "x" * 200})
            )
        await nothing_was_written(env.client)


async def test_a_memo_that_has_no_json_form(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        with pytest.raises(OutlastError, match="memo"):
            await env.client.start(programs.nothing, id="w", options=StartOptions(memo={"a": object()}))
        await nothing_was_written(env.client)


@pytest.mark.parametrize("queue", ["", "a\x00b", 7, "x" * 1001])
async def test_a_queue_that_cant_be_used(in_memory: MakeEnvironment, queue: Any) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="task queue"):
            await env.client.start(programs.nothing, id="w", task_queue=queue)
        await nothing_was_written(env.client)


@pytest.mark.parametrize("workflow", [programs.add, int, 7, lambda: None])
async def test_what_is_no_workflow(in_memory: MakeEnvironment, workflow: Any) -> None:
    async with in_memory() as env:
        with pytest.raises(OutlastError, match="workflow"):
            await env.client.start(workflow, id="w")
        await nothing_was_written(env.client)


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("lease_duration", 0, "lease"),
        ("lease_duration", 0.5, "lease"),
        ("lease_duration", True, "lease"),
        ("lease_duration", float("nan"), "lease"),
        ("max_cached_workflows", -1, "max cached workflows"),
        ("max_cached_workflows", 1.5, "max cached workflows"),
        ("max_concurrent_activities", -1, "max concurrent activities"),
        ("max_concurrent_activities", True, "max concurrent activities"),
        ("graceful_shutdown_timeout", -1, "graceful shutdown timeout"),
        ("watchdog_interval", 0, "watchdog interval"),
        ("task_queue", "", "task queue"),
        ("task_queue", [], "task queue"),
    ],
)
async def test_worker_options_out_of_range(
    in_memory: MakeEnvironment, option: str, value: Any, word: str
) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match=word):
            Worker(env.client, workflows=[programs.nothing], **{option: value})


@pytest.mark.parametrize(
    "client", [None, "sqlite://", Client.connect("sqlite://")], ids=["nothing", "a URL", "a way"]
)
def test_what_is_no_client(client: Any) -> None:
    """A worker and a watchdog say so, and how to get one."""
    with pytest.raises(
        InvalidOptionError, match=r"^client must be a Client, not .*Client\.connect"
    ) as caught:
        Worker(client, workflows=[programs.nothing])
    assert caught.value.field == "client"
    with pytest.raises(OutlastError, match=r"Client\.connect"):
        TaskWatchdog(client)


async def test_an_input_that_cant_be_read_names_the_workflow_and_the_parameter(
    in_memory: MakeEnvironment,
) -> None:
    async with in_memory(workflows=[Sized]) as env:
        handle = await env.client.start("Sized", "many", id="w")
        await env.settle()
        failed = [event async for event in handle.history()][-1]
        assert "'size' of Sized.run()" in failed.payload["failure"]["message"]


async def test_a_worker_without_anything_to_do(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="workflows or activities"):
            Worker(env.client)


async def test_two_definitions_of_one_name(in_memory: MakeEnvironment) -> None:
    from outlast import workflow

    @workflow.defn(name="nothing")
    async def other() -> None:
        return None

    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="nothing"):
            Worker(env.client, workflows=[programs.nothing, other])


# --- databases ------------------------------------------------------------------------------------------------------


async def test_an_unreachable_database() -> None:
    url = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
    with pytest.raises(StoreUnreachableError, match="cannot be reached"):
        await Client.connect(url)


@pytest.mark.parametrize("url", ["", "orders.db", "mysql://localhost/x", "sqlite:/x"])
async def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        await Client.connect(url)


async def test_a_postgresql_database_without_tables(new_postgresql_url: Callable[..., str]) -> None:
    with pytest.raises(SchemaMissingError, match="outlast migrate"):
        await Client.connect(new_postgresql_url(migrated=False))


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="no folder"):
        await Client.connect(f"sqlite:///{tmp_path / 'missing' / 'a.db'}")


def test_a_file_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"

    async def connect() -> None:
        async with Client.connect(f"sqlite:///{path}"):
            pass

    asyncio.run(connect())
    read_only = f"file:{path}?mode=ro"  # root may write any file, but not through this
    open_file = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda _, **options: open_file(read_only, **options))
    with pytest.raises(StoreReadOnlyError, match="read-only"):
        asyncio.run(connect())


# --- codecs ---------------------------------------------------------------------------------------------------------


class Squeeze:
    """A codec: what is stored is compressed text that nobody can read."""

    name = "squeeze"

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, data: bytes) -> bytes:
        self.encoded += 1
        return base64.b64encode(zlib.compress(data))

    def decode(self, data: bytes) -> bytes:
        return zlib.decompress(base64.b64decode(data))


async def test_a_codec_hides_payloads_and_gives_them_back(engine: MakeEnvironment) -> None:
    codec = Squeeze()
    async with engine(converter=DataConverter(codec=codec)) as env:
        handle = await env.client.start(programs.retrying, "a-secret-key", 1, id="w")
        assert await handle.result() == 2
        assert codec.encoded > 0
        stored = "".join([str(event.payload) async for event in handle.history()])
        assert "a-secret-key" not in stored


async def test_without_a_codec_history_is_readable(engine: MakeEnvironment) -> None:
    async with engine() as env:
        handle = await env.client.start(programs.retrying, "an-open-key", 0, id="w")
        await handle.result()
        events = [event async for event in handle.history()]
        assert events[0].payload["input"] == ["an-open-key", 0]
        assert events[-1].payload["result"] == 1
