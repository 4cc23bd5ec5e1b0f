"""What people type, and what activities say of themselves, read."""

from __future__ import annotations

from typing import Any

import orjson

from holdfast_workflow.errors import InvalidOptionError


def arguments(text: str) -> list[Any]:
    """Arguments as people type them: a JSON array; nothing for none.

    Raises:
        InvalidOptionError: It is none.
    """
    if not text.strip():
        return []
    try:
        values = orjson.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise InvalidOptionError('arguments must be a JSON array, as in ["yes", 3]', field="args")
    return values


def progress(details: tuple[Any, ...]) -> tuple[float, float] | None:
    """What a heartbeat says of how far it is: ``heartbeat(done, total)``, or ``{"done": …, "total": …}``."""
    done: Any
    total: Any
    if len(details) >= 2:
        done, total = details[0], details[1]
    elif details and isinstance(details[0], dict):
        done, total = details[0].get("done"), details[0].get("total")
    elif details and isinstance(details[0], list) and len(details[0]) >= 2:
        done, total = details[0][0], details[0][1]
    else:
        return None
    numbers = all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in (done, total)
    )
    return (float(done), float(total)) if numbers and 0 <= done <= total and total > 0 else None
