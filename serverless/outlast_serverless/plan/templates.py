"""Texts that are expressions, and values that hold some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from outlast_serverless.plan.pointers import child

MOST_EXPRESSION_BYTES: Final = 16 * 1024
_URI_PART: Final = re.compile(r"\{([^{}]*)\}")


def wrapped(text: str) -> str | None:
    """Return the expression in a text that is wholly ``${ … }``, or ``None``."""
    stripped = text.strip()
    if stripped.startswith("${") and stripped.endswith("}") and len(stripped) > 3:
        return stripped[2:-1].strip()
    return None


def bare(text: str) -> str:
    """Return the expression in a text that is one with and without ``${ … }``."""
    inner = wrapped(text)
    return text.strip() if inner is None else inner


def texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value, each with its pointer.

    Args:
        value: The value.
        pointer: Its own pointer.
    """
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, child(pointer, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, child(pointer, index))


def uri_names(template: str) -> list[str] | None:
    """Return the names in the braces of a URI template, or ``None`` if the braces do not match."""
    if "{" in _URI_PART.sub("", template) or "}" in _URI_PART.sub("", template):
        return None
    return _URI_PART.findall(template)


def is_uri_template(text: Any) -> bool:
    """Return whether a text of a document is a URI template, and no expression."""
    return isinstance(text, str) and "{" in text and wrapped(text) is None


def fill_uri(text: str, data: Any) -> str:
    """Return a URI template filled in from the top-level keys of data. A name that is not there gives nothing.

    Args:
        text: The template.
        data: The data.

    Raises:
        ValueError: A value is an object or an array.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        value = data.get(name) if isinstance(data, dict) else None
        if value is None:
            return ""
        if isinstance(value, dict | list):
            raise ValueError(f"`{{{name}}}` of the URI is no scalar: give text, a number or a boolean")
        return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")

    return _URI_PART.sub(value, text)
