"""Compiling which events and messages are consumed."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from outlast_serverless.plan.data import expression, length, optional, template
from outlast_serverless.plan.model import Correlation, EventFilter, Expression, Strategy, Subscription
from outlast_serverless.plan.pointers import child


def strategy(value: dict[str, Any], pointer: str, loose: bool = False) -> Strategy:
    """Return which events are consumed.

    Args:
        value: The strategy.
        pointer: Where it stands.
        loose: Whether any text may be an expression.
    """
    kind: Literal["all", "any", "one"] = "one" if "one" in value else "all" if "all" in value else "any"
    filters: tuple[EventFilter, ...]
    if kind == "one":
        filters = (_filter(value["one"], f"{pointer}/one", loose),)
    else:
        filters = tuple(
            _filter(one, child(pointer, kind, index), loose) for index, one in enumerate(value[kind])
        )
    until: Expression | Strategy | None = None
    if isinstance(value.get("until"), dict):
        until = strategy(value["until"], f"{pointer}/until", loose)
    elif "until" in value:
        until = expression(value["until"], f"{pointer}/until")
    return Strategy(kind, filters, until, pointer)


def subscription(value: dict[str, Any], pointer: str) -> Subscription:
    """Return which messages are consumed.

    Args:
        value: The subscription.
        pointer: Where it stands.
    """
    consume, place = value["consume"], f"{pointer}/consume"
    return Subscription(
        optional(value.get("filter"), f"{pointer}/filter"),
        consume.get("amount"),
        optional(consume.get("while"), f"{place}/while"),
        optional(consume.get("until"), f"{place}/until"),
        length(consume["for"], f"{place}/for") if "for" in consume else None,
    )


def _filter(value: dict[str, Any], pointer: str, loose: bool) -> EventFilter:
    attributes = {
        name: template(inner, child(pointer, "with", name), loose) for name, inner in value["with"].items()
    }
    correlate = tuple(
        Correlation(
            key,
            expression(inner["from"], child(pointer, "correlate", key, "from")),
            template(inner["expect"], child(pointer, "correlate", key, "expect"), loose)
            if "expect" in inner
            else None,
        )
        for key, inner in (value.get("correlate") or {}).items()
    )
    return EventFilter(MappingProxyType(attributes), correlate, pointer)
