"""Parsing what people type into forms, and the progress that heartbeats report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from outlast_workflow.errors import InvalidOptionError, OutlastError


def arguments(text: str) -> list[Any]:
    """Return the arguments of a JSON array; none for an empty text.

    Raises:
        InvalidOptionError: The text is not a JSON array.
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
    """Return the value of a JSON object, or ``None`` for an empty text.

    Args:
        name: The field of the form.
        text: The JSON.

    Raises:
        InvalidOptionError: The text is not a JSON object.
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
    """Return a whole number, or ``None`` for an empty text.

    Args:
        name: The field of the form.
        text: The number.

    Raises:
        InvalidOptionError: The text is not a whole number.
    """
    if not text.strip():
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise InvalidOptionError(f"{name.replace('_', ' ')} must be a whole number", field=name)
    return int(text)


def field_of(error: OutlastError, form: Mapping[str, str]) -> str | None:
    """Return the field of a form that caused an error, if one did."""
    field = str(getattr(error, "field", "")).replace(" ", "_")
    named = {"workflow": "workflow_type", "attribute": "search_attributes"}.get(field, field)
    return named if named in form else None


def progress(details: tuple[Any, ...]) -> tuple[float, float] | None:
    """Return the progress that a heartbeat reports, by ``heartbeat(done, total)`` or ``{"done": …, "total": …}``."""
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
