"""DAGs that undo what they have done, and their activities, for the tests of running them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from outlast import ApplicationError, activity
from outlast_dag import DagBuilder, NodeFailure, dag, each, step

calls: list[Any] = []
broken: set[str] = set()
"""The activities that fail."""


@dataclass
class Paid:
    id: str
    cents: int


def noted(*words: Any) -> None:
    calls.append(words)
    if words[0] in broken:
        raise ApplicationError(f"{words[0]} is down", type="Down", non_retryable=True)


@activity.defn(start_to_close_timeout=10)
async def book(name: str) -> str:
    noted("book", name)
    return f"booked {name}"


@activity.defn(start_to_close_timeout=10)
async def unbook(booking: str) -> None:
    noted("unbook", booking)


@activity.defn(start_to_close_timeout=10)
async def charge(cents: int) -> Paid:
    noted("charge", cents)
    if cents < 0:
        raise ApplicationError("less than nothing", type="Bad", non_retryable=True)
    return Paid(f"p{cents}", cents)


@activity.defn(start_to_close_timeout=10)
async def refund(id: str) -> None:
    noted("refund", id)


@activity.defn(start_to_close_timeout=10)
async def ship(paid: Paid) -> str:
    noted("ship", paid.id)
    return f"shipped {paid.id}"


@activity.defn(start_to_close_timeout=10)
async def mail(failure: NodeFailure) -> str:
    noted("mail", failure)
    return f"mailed: {failure.message}"


@activity.defn(start_to_close_timeout=500)
async def slowly(seconds: float) -> float:
    calls.append(("begins", seconds))
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        calls.append(("stopped", seconds))
        raise
    return seconds


@activity.defn(start_to_close_timeout=10)
async def withdraw(seconds: float | None) -> None:
    noted("withdraw", seconds)


@activity.defn(start_to_close_timeout=10)
async def refund_of(paid: Paid) -> None:
    noted("refund", paid.id)


ACTIVITIES = [book, unbook, charge, refund, ship, mail, slowly, withdraw, refund_of]


@dag(timeout=600, reserve=100)
def order(name: str, cents: int) -> str:
    booking = step(book, compensate=lambda booking: step(unbook)(booking))(name)
    paid = step(charge, after=[booking], compensate=lambda paid: step(refund)(paid.id))(cents)
    return step(ship)(paid)


@dag(timeout=600, reserve=100)
def fallback(cents: int) -> str:
    paid = step(charge, compensate=lambda paid: step(refund)(paid.id))(cents)
    return step(ship, on_failure=lambda failure: step(mail)(failure))(paid)


@dag(timeout=600, reserve=100)
def charges(amounts: list[int]) -> list[Paid]:
    return each(
        charge, concurrency=1, max_items=9, compensate=lambda paid: each(refund_of, max_items=9)(paid)
    )(amounts)


def long_order(name: str, *, seconds: float = 50, **options: Any) -> Any:
    """What is charged before a step that takes a while."""
    flow = DagBuilder(name, **dict[str, Any](timeout=600, reserve=100) | options)
    paid = flow.task("charge", charge, 7)
    slow = flow.task("slowly", slowly, seconds).after(paid)
    paid.compensate(flow.task("refund", refund, paid["id"]))
    slow.compensate(flow.task("withdraw", withdraw), when="started")
    return flow.build()


patient = long_order("patient")
keeps = long_order("keeps", compensate_on_cancel=False)
by_signal = long_order("by_signal", cancel_on="abort")
late = long_order("late", seconds=400, timeout=300)

DAGS = [order, fallback, charges, patient, keeps, by_signal, late]
