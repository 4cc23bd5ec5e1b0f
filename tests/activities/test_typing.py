"""What type checkers see of activities: each line marked `# error` must be refused by both, and no other line."""

from __future__ import annotations

from pathlib import Path

from tests.type_checkers import assert_mypy_finds, assert_pyright_finds

SNIPPET = """\
from collections.abc import Coroutine
from typing import Any, assert_type

from outlast_activities.context import defer
from outlast_activities.definitions import defn
from outlast_workflow.api.activities import execute_activity
from outlast_workflow.options.retry_policy import RetryPolicy


@defn
async def bare(order_id: str, amount: int = 1) -> str:
    return order_id * amount


@defn(start_to_close_timeout=10, retry_policy=RetryPolicy(max_attempts=3), priority=1)
async def charge(order_id: str, amount: int) -> str:
    return order_id * amount


@defn
def bare_plain(order_id: str) -> int:
    return len(order_id)


@defn(executor="process", name="pack")
def pack(order_id: str) -> int:
    return len(order_id)


class Payments:
    @defn(start_to_close_timeout=5)
    async def pay(self, amount: int) -> bytes:
        return bytes(amount)

    @defn
    def refund(self, amount: int) -> bytes:
        return bytes(amount)


@defn(start_to_close_timeout=5)
async def approve(order_id: str) -> str:
    return defer()


@defn(start_to_close_timeout=5)
def inspect(order_id: str) -> list[int] | None:
    return defer() if order_id else None


@defn(start_to_close_timeout=5)
async def acknowledge() -> object:
    return defer()


async def workflow(payments: Payments) -> None:
    assert_type(await bare("o-1"), str)
    assert_type(await bare("o-1", amount=2), str)
    assert_type(await charge("o-1", 5), str)
    assert_type(await bare_plain("o-1"), int)
    assert_type(await pack("o-1"), int)
    await assert_type(pack("o-1"), Coroutine[Any, Any, int])
    pack.fn("o-1")
    assert_type(await charge.with_options(priority=1)("o-1", 5), str)
    assert_type(await payments.pay(5), bytes)
    assert_type(await Payments.pay(5), bytes)
    assert_type(await payments.refund(5), bytes)
    assert_type(await payments.refund.with_options(priority=1)(5), bytes)
    assert_type(await execute_activity(charge, "o-1", 5), str)
    assert_type(await execute_activity(pack, "o-1", start_to_close_timeout=1), int)
    assert_type(await execute_activity(payments.pay, 5), bytes)

    assert_type(await approve("o-1"), str)
    assert_type(await inspect("o-1"), list[int] | None)
    assert_type(await acknowledge(), object)

    await bare()  # error
    bare("o-1")  # error
    pack("o-1")  # error
    pack.fn(1)  # error
    await bare("o-1", "5")  # error
    await charge("o-1")  # error
    await charge("o-1", 5, 6)  # error
    await charge("o-1", sum=5)  # error
    await charge.with_options(priority=1)("o-1", "5")  # error
    await bare_plain(1)  # error
    await pack(b"o-1")  # error
    await payments.pay("5")  # error
    await Payments.pay(payments, 5)  # error
    charge.with_options(timeout=1)  # error
    charge.with_options(retry_policy=3)  # error
    wrong: int = await charge("o-1", 5)  # error
    print(wrong)
    await execute_activity(charge, "o-1", "5")  # error


@defn(executor="fiber")  # error
def neither() -> None: ...


@defn(start_to_close_timeout="10")  # error
def late() -> None: ...
"""


def test_mypy_sees_wrong_arguments(tmp_path: Path):
    assert_mypy_finds(SNIPPET, tmp_path)


def test_pyright_sees_wrong_arguments(tmp_path: Path):
    assert_pyright_finds(SNIPPET, tmp_path)
