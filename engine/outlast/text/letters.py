"""How much room a text takes in a picture, whose fonts those who look at it choose."""

from __future__ import annotations

from typing import Final
from unicodedata import east_asian_width

BROAD: Final = frozenset("MWmw@%")
"""Letters that need nearly twice as much room; other capitals need a quarter more."""


def width_of(text: str) -> float:
    """Return how much room a text takes, in letters of middle width."""
    return sum(map(_room, text))


def cut(text: str, letters: float) -> str:
    """Return a text, or as much of it as there is room for.

    Args:
        text: The text.
        letters: The room, in letters of middle width.
    """
    if width_of(text) <= letters:
        return text
    kept = text[: int(letters) - 1]
    while kept and width_of(kept) > letters - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _room(letter: str) -> float:
    if letter in BROAD:
        return 1.8
    if east_asian_width(letter) in "WF":
        return 2.0
    return 1.25 if letter.isupper() else 1.0
