"""Reading JSON: what is JSON is known from a parser that is fast, where things stand from its tokens."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, Final

import orjson

from outlast_serverless.documents.builder import Builder
from outlast_serverless.documents.places import Position
from outlast_serverless.documents.scalars import OutOfRangeError, number

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_WORDS: Final[dict[str, Any]] = {"null": None, "true": True, "false": False}


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def read_json(text: str, builder: Builder) -> None:
    """Read a text that is JSON into a builder.

    Args:
        text: The text.
        builder: What builds the value.

    Raises:
        Stop: Nothing more can be read.
    """
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    for found in _TOKEN.finditer(text):
        token = found[0]
        line = bisect_right(lines, found.start())
        at = Position(line, found.start() - lines[line - 1] + 1)
        if token == "{":
            builder.open({}, at)
        elif token == "[":
            builder.open([], at)
        elif token in ("}", "]"):
            builder.close()
        elif token[0] == '"':
            builder.scalar(json.loads(token), at, written=token)
        elif token in _WORDS:
            builder.scalar(_WORDS[token], at, written=token)
        else:
            builder.scalar(_number(token, at, builder), at, written=token)


def _number(token: str, at: Position, builder: Builder) -> Any:
    try:
        return number(token)
    except OutOfRangeError:
        builder.problem(
            "number_range", at, "64 bits do not hold this number", "write it in quotes, as a text"
        )
        return token
