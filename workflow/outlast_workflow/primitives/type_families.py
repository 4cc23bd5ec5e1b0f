"""Families of workflow types: a definition named ``orders:*`` serves every type that begins with ``orders:``.

A run's type is always a type of its own: only who serves it may name a family. A type that is named itself comes before
its families, a longer family before a shorter one.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

WILDCARD: Final = "*"


@lru_cache(256)
def prefixes(names: tuple[str, ...]) -> list[str]:
    """Return what the types of the families among some names begin with, the longest first."""
    found = {name[:-1] for name in names if name.endswith(WILDCARD)}
    return sorted(found, key=lambda prefix: (-len(prefix), prefix))


def family_of(names: Collection[str], type: str) -> str | None:
    """Return the family among some names that a type belongs to, or ``None``: the one with the longest beginning.

    Args:
        names: Types and families.
        type: A type.
    """
    return next((prefix + WILDCARD for prefix in prefixes(tuple(names)) if type.startswith(prefix)), None)


def serves(names: Collection[str], type: str) -> bool:
    """Return whether a type is among some names, or in a family among them.

    Args:
        names: Types and families.
        type: A type.
    """
    return type in names or family_of(names, type) is not None
