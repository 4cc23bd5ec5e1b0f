"""Paths: expressions such as ``.a.b[0]`` and ``$input.order["id"]``, evaluated in process, exactly as jq does.

They are most of what documents say, and keep integers of any size as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_START: Final = re.compile(r"\$(?!__)([A-Za-z_][A-Za-z0-9_]*)|(?=\.)")
_STEP: Final = re.compile(
    r"\.(?P<field>[A-Za-z_][A-Za-z0-9_]*)"
    r'|\.?\[\s*"(?P<key>[^"\\]*)"\s*\]'
    r'|\."(?P<quoted>[^"\\]*)"'
    r"|\.?\[\s*(?P<index>-?[0-9]{1,9})\s*\]"
)
_ENVIRONMENT: Final = "ENV"


class PathError(ValueError):
    """A value has no such member: its message is jq's."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path.

    Attributes:
        variable: The variable that it begins at; ``None`` for the data.
        steps: Names of fields and positions in arrays.
    """

    variable: str | None
    steps: tuple[str | int, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it uses."""
        return () if self.variable is None else (self.variable,)

    def of(self, data: Any, variables: Mapping[str, Any]) -> Any:
        """Return what is at the path.

        Args:
            data: The data.
            variables: The variables.

        Raises:
            PathError: Something on the way is neither an object, nor an array, nor null as the step needs it.
        """
        value = data if self.variable is None else variables[self.variable]
        for step in self.steps:
            if value is None:
                return None
            if isinstance(step, str):
                if not isinstance(value, dict):
                    raise PathError(f'Cannot index {_type(value)} with string ("{step}")')
                value = value.get(step)
            else:
                if not isinstance(value, list | tuple):
                    raise PathError(f"Cannot index {_type(value)} with number ({step})")
                value = value[step] if -len(value) <= step < len(value) else None
        return value


def path(text: str) -> Path | None:
    """Return the path that a program is, or ``None`` if it is more than one.

    Args:
        text: The jq program.
    """
    text = text.strip()
    start = _START.match(text)
    if start is None or start[1] == _ENVIRONMENT:
        return None
    at = start.end()
    if start[1] is None and text == ".":
        return Path(None, ())
    steps: list[str | int] = []
    while at < len(text):
        found = _STEP.match(text, at)
        # A program begins with a dot: `["a"]` makes an array.
        if found is None or (at == 0 and not text.startswith(".")):
            return None
        name = found["field"] or found["key"] or found["quoted"]
        steps.append(int(found["index"]) if found["index"] is not None else name or "")
        at = found.end()
    return Path(start[1], tuple(steps))


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"
