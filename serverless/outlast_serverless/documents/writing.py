"""A definition as YAML, line by line, each with the place in the definition that it shows.

What is read from the text is the same definition. The text depends on the definition alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from outlast_serverless.plan.pointers import child

_PLAIN: Final = re.compile(r"[A-Za-z_/$](?:[A-Za-z0-9_/$.@+*=~(){}<>|&?!;^-]|[ ,:](?![ :#]|$))*")
"""Texts that need no quotes wherever they stand here, unless they are words of YAML."""
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_STRANGE: Final = re.compile(
    "[^\t\n -~\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that stand in a text of YAML only as escapes."""
_STEP: Final = "  "


class Line(NamedTuple):
    """A line of the text.

    Attributes:
        text: The line.
        pointer: The innermost value that begins in it, or that it continues.
    """

    text: str
    pointer: str


def written(definition: Any) -> list[Line]:
    """Return a definition as lines of YAML.

    Args:
        definition: The definition, as JSON.
    """
    return [Line(text, pointer) for text, pointer in _block(definition, "")]


def _block(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            at = child(pointer, key)
            yield from _headed(f"{_scalar(key, key=True)}:", inner, at)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            at = child(pointer, number)
            lines = _block(inner, at)
            text, inner_at = next(lines)
            yield f"- {text}", inner_at
            for text, inner_at in lines:
                yield f"{_STEP}{text}" if text else "", inner_at
    elif isinstance(value, str) and _is_literal(value):
        yield _literal_head(value), pointer
        yield from _literal(value, pointer)
    else:
        yield _scalar(value), pointer


def _headed(head: str, value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        yield head, pointer
        for text, at in _block(value, pointer):
            yield f"{_STEP}{text}" if text else "", at
    elif isinstance(value, str) and _is_literal(value):
        yield f"{head} {_literal_head(value)}", pointer
        yield from _literal(value, pointer)
    else:
        yield f"{head} {_scalar(value)}", pointer


def _is_literal(text: str) -> bool:
    """Return whether a text of several lines can stand as it is."""
    return (
        "\n" in text.rstrip("\n")
        and text[0] not in " \t\n"
        and not text.endswith("\n\n")
        and "\t" not in text
        and not _STRANGE.search(text)
        and not any(line.isspace() for line in text.split("\n"))
    )


def _literal_head(text: str) -> str:
    return "|" if text.endswith("\n") else "|-"


def _literal(text: str, pointer: str) -> Iterator[tuple[str, str]]:
    for line in text.removesuffix("\n").split("\n"):
        yield f"{_STEP}{line}" if line else "", pointer


def _scalar(value: Any, *, key: bool = False) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not (key and value.startswith("$")):
            return value
        if value.isprintable() and not _STRANGE.search(value):
            return "'" + value.replace("'", "''") + "'"
        return _STRANGE.sub(_escaped, json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(value)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
