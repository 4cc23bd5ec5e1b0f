"""Codecs and models at the edge: every way in and out, and nothing readable left in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from examples.codecs import Chain, Compressed, Encrypted
from pydantic import BaseModel

from outlast import (
    ApplicationError,
    Client,
    DataConverter,
    RetryPolicy,
    StartOptions,
    WorkflowFailedError,
    activity,
    workflow,
)
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_workflow.errors import PayloadDecodeError

OLD, NEW = Fernet.generate_key(), Fernet.generate_key()
SECRET = "xyzzy-4711"


class Card(BaseModel):
    number: str
    limit: int = 0


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=30, retry_policy=RetryPolicy(max_attempts=2))
async def check(card: Card) -> Card:
    details = activity.info().heartbeat_details
    if not details:
        activity.heartbeat(card)
        raise ApplicationError("not yet", card)
    return card.model_copy(update={"limit": card.limit + 1})


@workflow.defn
class Account:
    """Takes and gives a model in every way there is."""

    def __init__(self) -> None:
        self.cards: list[Card] = []

    @workflow.run
    async def run(self, card: Card, again: bool = True) -> Card:
        self.cards.append(await check(card))
        await workflow.wait_condition(lambda: len(self.cards) >= 3)
        assert all(type(one) is Card for one in self.cards)
        if again:
            await workflow.wait_condition(workflow.all_handlers_finished)
            workflow.continue_as_new(card, False)
        return Card(number=card.number, limit=sum(one.limit for one in self.cards))

    @workflow.signal
    def add(self, card: Card) -> None:
        self.cards.append(card)

    @workflow.query
    def last(self, default: Card) -> Card:
        return self.cards[-1] if self.cards else default

    @workflow.update
    async def replace(self, card: Card) -> Card:
        self.cards.append(await check(card))
        return self.cards[0]


@workflow.defn
async def parent(card: Card) -> Card:
    child = workflow.start_child(Account.run, card, False, id="child", memo={"card": card.number})
    for _ in range(2):
        await child.signal(Account.add, card)
    return await child


@workflow.defn
async def fails(card: Card) -> None:
    raise ApplicationError("refused", card)


@activity.defn(start_to_close_timeout=60)
def publish_card(card: Card) -> None:
    activity.stream("cards").write(card)


@workflow.defn
async def publishes(card: Card) -> None:
    workflow.stream("cards").write(card)
    await publish_card(card)


WORKFLOWS: list[Any] = [Account, parent, fails, publishes]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture(params=["plain", "encrypted"])
def converter(request: pytest.FixtureRequest) -> DataConverter:
    """Models are read alike with a codec and without one."""
    if request.param == "plain":
        return DataConverter()
    return DataConverter(Chain(Compressed(), Encrypted([NEW, OLD])))


@pytest.fixture(params=[1000, 0], ids=["cached", "always_replay"])
def max_cached(request: pytest.FixtureRequest) -> int:
    cached: int = request.param
    return cached


def environment(url: str, converter: DataConverter, max_cached: int = 1000) -> TestEnvironment:
    return TestEnvironment(
        workflows=WORKFLOWS,
        activities=[check, publish_card],
        url=url,
        converter=converter,
        max_cached_workflows=max_cached,
    )


async def everything(env: TestEnvironment) -> None:
    card = Card(number=SECRET, limit=1)
    handle = await env.client.start(
        Account.run, card, id="account", options=StartOptions(memo={"card": SECRET})
    )
    assert await handle.query(Account.last, card) == card
    await handle.signal(Account.add, card)
    assert await handle.execute_update(Account.replace, card) == card
    await env.settle()
    for _ in range(2):
        await env.client.signal("account", Account.add, card)
    assert await handle.result() == Card(number=SECRET, limit=4)
    assert await env.client.execute(parent, card, id="parent") == Card(number=SECRET, limit=4)
    published = await env.client.start(publishes, card, id="publishes")
    assert [item.value async for item in published.stream("cards", item_type=Card)] == [card, card]
    with pytest.raises(WorkflowFailedError) as failed:
        await env.client.execute(fails, card, id="fails")
    cause = failed.value.__cause__
    assert isinstance(cause, ApplicationError)
    assert cause.details[0] == {"number": SECRET, "limit": 1}


async def test_models_pass_every_edge(converter: DataConverter, max_cached: int) -> None:
    async with environment("sqlite://", converter, max_cached) as env:
        await everything(env)


def contents(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_nothing_that_was_encrypted_can_be_read_in_the_database(tmp_path: Path) -> None:
    path = tmp_path / "secret.db"
    async with environment(f"sqlite:///{path}", DataConverter(Encrypted([NEW]))) as env:
        await everything(env)
    stored = contents(tmp_path)
    assert b"WorkflowStarted" in stored
    assert SECRET.encode() not in stored


async def test_a_key_can_be_changed_and_is_missed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/keys.db"
    card = Card(number=SECRET)
    async with environment(url, DataConverter(Encrypted([OLD]))) as env:
        await env.client.start(Account.run, card, False, id="account")
        await env.sleep(5)
    async with environment(url, DataConverter(Encrypted([NEW, OLD]))) as env:
        handle = env.client.handle("account", result_type=Card)
        for _ in range(2):
            await handle.signal(Account.add, card)
        assert (await handle.result()).number == SECRET
    async with Client.connect(url, converter=DataConverter(Encrypted([OLD]))) as client:
        with pytest.raises(PayloadDecodeError, match="is its key the right one"):
            await client.handle("account").result()
    async with Client.connect(url) as client:
        with pytest.raises(PayloadDecodeError, match="connect with that codec"):
            await client.handle("account").result()


def test_compression_is_used_where_it_helps() -> None:
    codec = Compressed()
    for data, smaller in [(b"x" * 1000, True), (b"12", False)]:
        packed = codec.encode(data)
        assert codec.decode(packed) == data
        assert (len(packed) < len(data)) is smaller
