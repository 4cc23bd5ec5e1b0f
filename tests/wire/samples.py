"""Values and failures whose form in the database is fixed: ``values.json`` and ``failures.json`` have it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from outlast import ApplicationError
from outlast.errors import ActivityTimeoutError
from outlast_workflow.primitives.enums import RetryState, TimeoutKind


@dataclass
class Order:
    """A dataclass: an object of its fields."""

    number: str
    total: Decimal


class Customer(BaseModel):
    """A model: what pydantic writes."""

    name: str
    since: date


class Colour(Enum):
    """An enum: its value."""

    RED = "red"


VALUES: Final[Mapping[str, tuple[Any, Any]]] = {
    "nothing": (None, None),
    "true": (True, bool),
    "whole number": (2**53 + 1, int),
    "number": (0.1, float),
    "text": ("Zoë ☃", str),
    "list": ([1, "two", None], list[Any]),
    "tuple": ((1, "two"), tuple[int, str]),
    "set": ({7}, set[int]),
    "object": ({"b": 1, "a": {"c": []}}, dict[str, Any]),
    "object with other keys": ({1: "one"}, dict[int, str]),
    "dataclass": (Order("o-1", Decimal("10.50")), Order),
    "model": (Customer(name="Ada", since=date(2026, 1, 31)), Customer),
    "enum": (Colour.RED, Colour),
    "decimal": (Decimal("10.50"), Decimal),
    "instant": (datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC), datetime),
    "instant elsewhere": (datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))), datetime),
    "wall time": (datetime(2026, 1, 31, 12), datetime),
    "day": (date(2026, 1, 31), date),
    "time of day": (time(12, 30), time),
    "duration": (timedelta(days=1, seconds=90, microseconds=5), timedelta),
    "bytes": (b"\xfb\xff\x00", bytes),
    "uuid": (UUID("01890a5d-ac96-774b-bcce-b302099a8057"), UUID),
    "an object like an envelope": ({"$codec": "mine", "data": "x"}, dict[str, Any]),
}
"""By name: a value, and the type hint that reads it back."""


class CardDeclinedError(Exception):
    """An error of the application."""


def failures() -> dict[str, BaseException]:
    """Return exceptions by name, each raised before, with its causes."""

    def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
        error.__cause__ = cause
        return error

    return {
        "an application's": raised(
            ApplicationError("no stock", {"item": 7}, type="NoStock", non_retryable=True, next_retry_delay=5)
        ),
        "any exception": raised(CardDeclinedError("card declined"), KeyError("limit")),
        "a timeout": raised(
            ActivityTimeoutError(
                timeout_kind=TimeoutKind.START_TO_CLOSE,
                deadline_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
                activity_type="charge",
                activity_id=3,
                attempt=2,
                retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
            )
        ),
        "a cancellation": raised(asyncio.CancelledError("asked to")),
    }
