"""What a rule finds, before it is known where it stands in the text."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Final

LONGEST: Final = 60
"""A name that is longer is nobody's slip, and messages cut it."""
MOST_COMPARED: Final = 30
"""With how many names one is compared to find what is meant."""


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


class Names(frozenset[str]):
    """Names that could be meant where another is written."""

    @cached_property
    def _folded(self) -> list[tuple[str, str]]:
        return sorted((one.lower(), one) for one in self)

    def near(self, name: str) -> str | None:
        """Return the one that somebody meant who wrote another, or ``None``.

        Of many names only those are looked at that stand beside it in order: thousands may be wrong in a document.

        Args:
            name: What is written.
        """
        if len(name) > LONGEST:
            return None
        wanted, folded = name.lower(), self._folded
        if len(folded) > MOST_COMPARED:
            place = bisect(folded, (wanted, ""))
            begin = max(0, min(place - MOST_COMPARED // 2, len(folded) - MOST_COMPARED))
            folded = folded[begin : begin + MOST_COMPARED]
        known = dict(folded)
        close = get_close_matches(wanted, known, n=1, cutoff=0.75)
        return known[close[0]] if close else None


def near(name: str, names: Iterable[str]) -> str | None:
    """Return the name that somebody meant who wrote another, or ``None``.

    Args:
        name: What is written.
        names: What could be meant.
    """
    return (names if isinstance(names, Names) else Names(names)).near(name)


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
    return f"`{name if len(name) <= LONGEST else name[:LONGEST] + '…'}`"
