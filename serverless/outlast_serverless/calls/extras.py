"""Extras: libraries that some protocols need, which a plain installation lacks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

_EXTRAS: Final = {"grpc": ("grpc_tools", "serverless-grpc"), "mcp": ("mcp", "serverless-mcp")}
"""What a protocol needs, and the extra that brings it."""


def lacking(protocol: str) -> str:
    """Return why a protocol cannot be spoken here and what to do, or nothing.

    Args:
        protocol: What stands after ``call:``.
    """
    module, extra = _EXTRAS.get(protocol, ("", ""))
    if not module or find_spec(module) is not None:
        return ""
    return f"`call: {protocol}` needs the extra `{extra}`: in a clone, pip install '.[{extra}]'"
