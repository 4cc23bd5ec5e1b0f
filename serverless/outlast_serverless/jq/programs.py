"""Programs of jq as the helper runs them: in a wrapping that binds variables and hides what is not deterministic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from outlast_serverless.rules.jq_text import LARGEST_INTEGER, glance

_MANY_DIGITS: Final = re.compile(rb"[0-9]{16}")
_WHERE: Final = re.compile(r"\s*\(?at <top-level>,? line \d+,? column \d+\)?:?|,? at <top-level>.*$")
_HIDDEN: Final = "".join(
    f"def {name}: {body}; "
    for name, body in {
        "now": "$__e.n",
        "localtime": "gmtime",
        "strflocaltime(f)": "strftime(f)",
        "env": "{}",
        "debug": ".",
        "debug(m)": ".",
        "stderr": ".",
        "input_filename": "null",
        **{
            name: f'error("{name.partition("(")[0]} is not available here")'
            for name in (
                "input",
                "inputs",
                "input_line_number",
                "halt",
                "halt_error",
                "halt_error(c)",
                "get_search_list",
                "modulemeta",
            )
        },
    }.items()
)


class ExpressionFailed(Exception):
    """An expression does not compile, or fails on its data. A replay fails in the same way.

    Attributes:
        pointer: Where the expression stands.
        message: What happened.
    """

    def __init__(self, pointer: str, message: str) -> None:
        self.pointer = pointer
        self.message = message
        super().__init__(f"{message} ({pointer})")


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    Attributes:
        text: What the helper compiles: its input is ``{"d": data, "v": variables, "n": the time}``.
        variables: The variables that it uses.
    """

    text: str
    variables: tuple[str, ...]


@lru_cache(4096)
def program(text: str) -> Program:
    """Return the program of an expression.

    Args:
        text: The jq program as it is written.
    """
    used = tuple(name for name in glance(text).used if not name.startswith("__") and name != "ENV")
    return wrapped(text, used)


def wrapped(text: str, variables: tuple[str, ...]) -> Program:
    """Return a program that binds variables.

    Args:
        text: The jq program as it is written.
        variables: The variables, without ``$``.
    """
    bound = "".join(f"$__e.v.{name} as ${name} | " for name in variables)
    # The line ends before the bracket: a program may end with a comment.
    return Program(f". as $__e | {_HIDDEN}{{}} as $ENV | {bound}$__e.d | ({text}\n)", variables)


def message_of(told: str) -> str:
    """Return what jq says of a failure, in one line and without places in the wrapping."""
    first = told.strip().splitlines()[0] if told.strip() else "it failed"
    return _WHERE.sub("", first.removeprefix("jq: error: ").removeprefix("jq: ")).strip() or "it failed"


def unsafe_integer(encoded: bytes, value: Any) -> int | None:
    """Return an integer in a value that jq would change, or ``None``.

    Args:
        encoded: The value as JSON.
        value: The value.
    """
    return _beyond(value) if _MANY_DIGITS.search(encoded) else None


def _beyond(value: Any) -> int | None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((found for inner in value if (found := _beyond(inner)) is not None), None)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and abs(value) > LARGEST_INTEGER else None
