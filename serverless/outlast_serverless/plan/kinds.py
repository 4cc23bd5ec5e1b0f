"""The twelve kinds of tasks, and the key that tells them apart."""

from __future__ import annotations

import re
from typing import Any, Final

KINDS: Final = ("call", "do", "emit", "for", "fork", "listen", "raise", "run", "set", "switch", "try", "wait")
"""The keys that say of what kind a task is."""
PROTOCOLS: Final = ("http", "openapi", "grpc", "asyncapi", "a2a", "mcp")
"""What a call can name besides a function."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(called: str) -> bool:
    """Return whether a call names a function by its URL.

    Args:
        called: What stands after ``call:``.
    """
    return _URL.match(called) is not None


def kinds_of(task: dict[str, Any]) -> list[str]:
    """Return the kinds that a task says it is of: one, unless it is wrong."""
    kinds: list[str] = [kind for kind in KINDS if kind in task]
    if "for" in kinds and "do" in kinds:
        kinds.remove("do")
    return kinds
