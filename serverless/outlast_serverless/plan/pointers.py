"""JSON pointers (RFC 6901): the places in a definition."""

from __future__ import annotations

from typing import Any


def child(pointer: str, *keys: str | int) -> str:
    """Return the pointer of a place under another.

    Args:
        pointer: The other place; empty for the whole definition.
        keys: Names and positions, one for each step down.
    """
    return pointer + "".join(f"/{escaped(key)}" for key in keys)


def escaped(key: str | int) -> str:
    """Return a key as it stands in a pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def keys(pointer: str) -> list[str]:
    """Return the keys of a pointer, from the top."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def resolve(definition: Any, pointer: str) -> Any:
    """Return what is at a pointer.

    Args:
        definition: The definition.
        pointer: The place in it.

    Raises:
        LookupError: There is nothing.
    """
    value = definition
    for key in keys(pointer):
        if isinstance(value, list):
            if not key.isascii() or not key.isdigit():
                raise LookupError(pointer)
            value = value[int(key)]
        elif isinstance(value, dict):
            value = value[key]
        else:
            raise LookupError(pointer)
    return value


def indexless(pointer: str) -> str:
    """Return a pointer without the positions in lists: ``/do/callExternalService`` for ``/do/0/callExternalService``.

    Error filters accept this form too. A key that looks like a position is not told apart.
    """
    return "".join(f"/{escaped(key)}" for key in keys(pointer) if not key.isdigit())
