"""Where things stand in a text: a tree beside the definition, shared where an alias is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from outlast_serverless.plan.pointers import keys


class Position(NamedTuple):
    """A place in a text, both from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Place:
    """Where a value stands.

    Attributes:
        value: Where the value begins.
        key: Where its key does, if it has one.
        inside: The places of what it holds, by key or by position as text; ``None`` for a scalar.
    """

    value: Position
    key: Position | None = None
    inside: dict[str, Place] | None = None

    @property
    def told(self) -> Position:
        """The position that people are told: of a scalar itself, of the key of what has parts."""
        return self.value if self.inside is None or self.key is None else self.key

    def at(self, pointer: str, *, key: bool = False) -> Position:
        """Return the position of a pointer, or of the nearest place above it that there is.

        Args:
            pointer: The pointer.
            key: Whether the key is meant, not the value.
        """
        place, found = self, True
        for part in keys(pointer):
            inner = None if place.inside is None else place.inside.get(part)
            if inner is None:
                found = False
                break
            place = inner
        return place.key if key and found and place.key is not None else place.told
