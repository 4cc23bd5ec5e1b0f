"""What a rule finds, before it is known where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong at a place, or that somebody should look at there.

    Attributes:
        code: The rule.
        pointer: The place.
        message: In words.
        hint: What to do about it.
        key: Whether the key of the place is meant, not its value.
    """

    code: str
    pointer: str
    message: str
    hint: str = ""
    key: bool = False


def near(name: str, names: Iterable[str]) -> str | None:
    """Return the name that somebody meant who wrote another, or ``None``.

    Args:
        name: What is written.
        names: What could be meant.
    """
    if len(name) > 60:
        return None
    folded = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def meant(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return the hint for a name that is not there.

    Args:
        name: What is written.
        names: What could be meant.
        otherwise: The hint if nothing is near.
    """
    close = near(name, names)
    return otherwise if close is None else f"did you mean `{close}`?"


def quoted(name: str) -> str:
    """Return a name as messages show it, cut where it is long."""
    return f"`{name if len(name) <= 60 else name[:60] + '…'}`"
