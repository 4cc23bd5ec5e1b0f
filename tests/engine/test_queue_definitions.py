"""``client.queues``: defining, changing, describing and deleting queues, also from code without an event loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outlast import Client, Queue, QueueExistsError, QueueNotFoundError, Rate, blocking
from outlast.errors import BlockedLoopError, InvalidOptionError


@pytest.fixture
def anyio_backend() -> str:
    """Real time: nothing here waits."""
    return "asyncio"


LIMITS: dict[str, Any] = {
    "concurrency": 10,
    "worker_concurrency": 5,
    "rate": Rate(20, per=1),
    "partition_concurrency": 2,
    "partition_worker_concurrency": 1,
    "partition_rate": Rate(60, per=60),
}


async def test_a_queue_is_described_as_it_was_defined(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        made = await client.queues.define("emails", **LIMITS)
        assert await client.queues.describe("emails") == made
        assert (await client.queues.list()) == [made]
        document = json.loads(made.model_dump_json())
    assert {name: document[name] for name in LIMITS} == {
        **LIMITS,
        "rate": {"limit": 20, "per_seconds": 1},
        "partition_rate": {"limit": 60, "per_seconds": 60},
    }
    assert (document["paused"], document["note"], document["created_at"]) == (
        False,
        None,
        document["updated_at"],
    )
    nothing = ("waiting", "running", "delayed", "partitions_waiting")
    assert [document[name] for name in nothing] == [0, 0, 0, 0]
    assert document["oldest_waiting_seconds"] is document["next_admission_at"] is None


async def test_a_queue_changes_while_it_is_used_and_others_do_not(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        queues = client.queues
        other = await queues.define("gpu", concurrency=1)
        await queues.define("emails", concurrency=10, rate=Rate(20, per=1))
        updated = await queues.update("emails", concurrency=None, worker_concurrency=2)
        assert (updated.concurrency, updated.worker_concurrency) == (None, 2)
        assert str(updated.rate) == "20 per second"
        await queues.pause("emails", "the provider is down")
        paused = await queues.describe("emails")
        assert (paused.paused, paused.note) == (True, "the provider is down")
        assert paused.paused_at is not None
        await queues.resume("emails")
        resumed = await queues.describe("emails")
        assert (resumed.paused, resumed.paused_at, resumed.note) == (False, None, None)
        assert await queues.describe("gpu") == other
        await queues.delete("emails")
        assert [queue.name for queue in await queues.list()] == ["gpu"]


@pytest.mark.parametrize("write", ["define", "update"])
async def test_a_queue_that_is_deleted_just_after_the_write_is_described_as_written(
    database_url: str, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client.connect(database_url) as client:
        queues = client.queues
        if write == "update":
            await queues.define("emails")
        right = queues._apply

        async def overtaken(change: Any) -> Any:
            row = await right(change)
            monkeypatch.undo()
            await queues.delete("emails")
            return row

        monkeypatch.setattr(queues, "_apply", overtaken)
        written = await getattr(queues, write)("emails", concurrency=3)
        assert (written.name, written.concurrency, written.waiting) == ("emails", 3, 0)
        with pytest.raises(QueueNotFoundError):
            await queues.describe("emails")


@pytest.mark.parametrize(("if_exists", "concurrency"), [("keep", 10), ("update", None)])
async def test_what_is_defined_again_is_kept_or_updated(
    database_url: str, if_exists: Any, concurrency: int | None
) -> None:
    async with Client.connect(database_url) as client:
        await client.queues.define("emails", concurrency=10)
        with pytest.raises(QueueExistsError) as refusal:
            await client.queues.define("emails", worker_concurrency=1)
        assert refusal.value.name == "emails"
        again = await client.queues.define("emails", if_exists=if_exists, worker_concurrency=1)
        assert (again.concurrency, again.worker_concurrency) == (concurrency, None if concurrency else 1)


async def test_an_unknown_queue_is_told_with_names_like_it(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        queues = client.queues
        await queues.define("emails")
        await queues.define("gpu")
        for call in (
            queues.describe("emials"),
            queues.update("emials", concurrency=1),
            queues.pause("emials"),
            queues.resume("emials"),
            queues.delete("emials"),
        ):
            with pytest.raises(QueueNotFoundError) as refusal:
                await call
            assert (refusal.value.name, refusal.value.similar) == ("emials", ["emails"])


async def test_bad_input_is_refused_before_anything_is_written() -> None:
    async with Client.connect("sqlite://") as client:
        queues: Any = client.queues
        for call, field in (
            (queues.define("outlast_mail"), "queue"),
            (queues.define("emails", concurrency=0), "concurrency"),
            (queues.define("emails", if_exists="replace"), "if_exists"),
            (queues.define("emails", limiter={}), "limiter"),
            (queues.update("emails"), "limits"),
            (queues.update("emails", rate=5), "rate"),
            (queues.pause("emails", note="\0"), "note"),
            (queues.pause("emails", note=5), "note"),
            (queues.describe(""), "queue"),
            (queues.delete(None), "queue"),
        ):
            with pytest.raises(InvalidOptionError) as refusal:
                await call
            assert refusal.value.field == field
        assert await queues.list() == []


async def test_an_update_that_contradicts_a_limit_that_stays_is_refused() -> None:
    async with Client.connect("sqlite://") as client:
        await client.queues.define("emails", concurrency=3)
        with pytest.raises(InvalidOptionError, match="must not exceed concurrency") as refusal:
            await client.queues.update("emails", partition_concurrency=4)
        assert refusal.value.field == "partition_concurrency"
        assert (await client.queues.describe("emails")).partition_concurrency is None


def test_code_without_a_loop_has_the_same_queues(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/outlast.db"
    with blocking.Client.connect(url) as client:
        made = client.queues.define("emails", concurrency=1)
        assert client.queues.list() == [made]
        assert client.queues.update("emails", concurrency=2).concurrency == 2
        client.queues.pause("emails", "why")
        assert client.queues.describe("emails").note == "why"
        client.queues.resume("emails")
        with pytest.raises(QueueExistsError):
            client.queues.define("emails")
        client.queues.delete("emails")
        with pytest.raises(QueueNotFoundError):
            client.queues.describe("emails")


async def test_the_blocking_queues_are_refused_on_a_loop(tmp_path: Path) -> None:
    with pytest.raises(BlockedLoopError):
        blocking.Client.connect(f"sqlite:///{tmp_path}/outlast.db").queues.list()


def test_a_definition_says_what_it_is() -> None:
    assert repr(Queue("gpu", concurrency=2, rate=Rate(1, 2))) == (
        "Queue(name='gpu', concurrency=2, rate=Rate(limit=1, per=2))"
    )
