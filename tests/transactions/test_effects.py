"""``activity.once()``: an effect in another database is had at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session
from tests.engine.conftest import anyio_backend as anyio_backend

from outlast import RetryPolicy, activity, workflow
from outlast.errors import EffectsTableMissingError, InvalidOptionError, NotInActivityError
from outlast.testing import ActivityEnvironment, TestEnvironment
from outlast_activities.effects import create_effects, prune_effects
from outlast_store.database.urls import DatabaseUrl

QUICKLY = RetryPolicy(initial_interval=0.01, max_attempts=3)


@pytest.fixture
def shop(shared_url: str) -> Iterator[Engine]:
    """Another database than the engine's: with a table of effects, and one of sales."""
    parsed = DatabaseUrl.parse(shared_url)
    url = parsed.sqlalchemy_url if parsed.backend == "postgresql" else f"sqlite:///{parsed.path}"
    engine = create_engine(url)
    assert create_effects(engine)
    assert not create_effects(engine), "a second time changes nothing"
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sales (item text)"))
    yield engine
    engine.dispose()


def sold(shop: Engine) -> int:
    with shop.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM sales")).scalar_one())


@workflow.defn
async def sells(item: str) -> list[int]:
    return await workflow.execute_activity("sell", item, start_to_close_timeout=5, result_type=list[int])


@pytest.mark.parametrize("dies", [True, False])
async def test_an_effect_is_not_repeated(shop: Engine, dies: bool, sqlite_url: str, tmp_path: Path) -> None:
    attempts: list[bool] = []

    @activity.defn(retry_policy=QUICKLY)
    def sell(item: str) -> list[int]:
        with Session(shop) as session, session.begin():
            effect = activity.once(session)
            attempts.append(effect.done)
            if not effect.done:
                session.execute(text("INSERT INTO sales VALUES (:item)"), {"item": item})
                result = effect.keep([1, 2])
                assert effect.result == result
            else:
                result = effect.result
        if dies and len(attempts) == 1:
            raise RuntimeError("after the commit")
        return result

    async with TestEnvironment(workflows=[sells], activities=[sell]) as env:
        assert await env.client.execute(sells, "tea", id="s") == [1, 2]
    assert attempts == ([False, True] if dies else [False])
    assert sold(shop) == 1


async def test_an_effect_that_was_rolled_back_is_had_again(shop: Engine) -> None:
    attempts: list[bool] = []

    @activity.defn(retry_policy=QUICKLY)
    def sell(item: str) -> list[int]:
        with shop.begin() as connection:
            effect = activity.once(connection)
            attempts.append(effect.done)
            connection.execute(text("INSERT INTO sales VALUES (:item)"), {"item": item})
            if len(attempts) == 1:
                raise RuntimeError("before the commit")
            return effect.keep([3])

    async with TestEnvironment(workflows=[sells], activities=[sell]) as env:
        assert await env.client.execute(sells, "tea", id="s") == [3]
    assert attempts == [False, False]
    assert sold(shop) == 1


async def test_names_tell_the_effects_of_one_activity_apart(shop: Engine) -> None:
    @activity.defn
    def twice() -> list[bool]:
        done = []
        for name in ("", "second", ""):
            with shop.begin() as connection:
                done.append(activity.once(connection, name).done)
        return done

    assert await ActivityEnvironment().run(twice) == [False, False, True]
    assert prune_effects(shop, timedelta(days=1)) == 0
    assert prune_effects(shop, timedelta(0)) == 2


@pytest.mark.postgresql
async def test_two_effects_of_one_name_in_a_transaction_are_refused(shop: Engine) -> None:
    refused: list[str] = []

    @activity.defn
    def sell(item: str) -> list[int]:
        with shop.connect() as connection:
            with connection.begin():
                activity.once(connection, "sale").keep([1])
                with pytest.raises(InvalidOptionError, match="name of its own") as error:
                    activity.once(connection, "sale")
                refused.append(error.value.field or "")
                activity.once(connection, "refund").keep([2])
            # Whoever does not know whether it was committed asks again, in another transaction.
            with connection.begin():
                assert activity.once(connection, "sale").done
            with connection.begin():
                savepoint = connection.begin_nested()
                assert not activity.once(connection, "gift").done
                savepoint.rollback()
                assert not activity.once(connection, "gift").done, "what was rolled back was not had"
        return []

    async with TestEnvironment(workflows=[sells], activities=[sell]) as env:
        assert await env.client.execute(sells, "book") == []
    assert refused == ["name"]


def test_an_asynchronous_connection_is_awaited(postgresql_url: str) -> None:
    plain = create_engine(DatabaseUrl.parse(postgresql_url).sqlalchemy_url)
    create_effects(plain)
    plain.dispose()

    async def run() -> None:
        shop: AsyncEngine = create_async_engine(DatabaseUrl.parse(postgresql_url).sqlalchemy_url)

        @activity.defn
        async def sell() -> list[int]:
            async with shop.begin() as connection:
                effect = await activity.once(connection)
                return effect.result if effect.done else await effect.keep([4])

        assert await ActivityEnvironment().run(sell) == [4]
        assert await ActivityEnvironment().run(sell) == [4]
        await shop.dispose()

    asyncio.run(run())


async def test_a_missing_table_names_the_command(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")

    @activity.defn
    def sell() -> None:
        with engine.begin() as connection:
            activity.once(connection)

    with pytest.raises(EffectsTableMissingError, match="outlast effects create"):
        await ActivityEnvironment().run(sell)
    engine.dispose()


async def test_what_has_no_transaction_is_refused(tmp_path: Path) -> None:
    engine: Any = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")

    @activity.defn
    def sell() -> None:
        activity.once(engine)

    with pytest.raises(InvalidOptionError, match=r"Connection or Session .* not Engine"):
        await ActivityEnvironment().run(sell)
    engine.dispose()


def test_outside_an_activity_nothing_is_noted(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.connect() as connection, pytest.raises(NotInActivityError):
        activity.once(connection)
    engine.dispose()
