"""What people type, and what activities say of themselves, read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from outlast_workflow.errors import InvalidOptionError, OutlastError


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


def document(name: str, text: str) -> dict[str, Any] | None:
    """A JSON object as people type it; nothing for none.

    Raises:
        InvalidOptionError: It is none.
    """
    if not text.strip():
        return None
    try:
        value = orjson.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        words = name.replace("_", " ")
        raise InvalidOptionError(f'{words} must be a JSON object, as in {{"a": 1}}', field=name)
    return value


def whole(name: str, text: str) -> int | None:
    """A whole number as people type it; nothing for none.

    Raises:
        InvalidOptionError: It is none.
    """
    if not text.strip():
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise InvalidOptionError(f"{name.replace('_', ' ')} must be a whole number", field=name)
    return int(text)


def field_of(error: OutlastError, form: Mapping[str, str]) -> str | None:
    """The field of a form that an error is about, if it is about one."""
    field = str(getattr(error, "field", "")).replace(" ", "_")
    named = {"workflow": "workflow_type", "attribute": "search_attributes"}.get(field, field)
    return named if named in form else None


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
