"""The text of a document as a page shows it: numbered, with what matters lit, and of a long one only that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from outlast_serverless.documents.digest import digest
from outlast_serverless.documents.writing import Line, written
from outlast_serverless.plan.pointers import keys

MOST_LINES: Final = 600
"""A longer text is shown only around what is lit."""
AROUND: Final = 12
_MOST_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line as a page shows it.

    Attributes:
        number: Its number, from 1.
        text: The line.
        look: A class, if it is lit.
        begins: Whether what is lit begins here.
        before: How many lines are left out before it.
    """

    number: int
    text: str
    look: str = ""
    begins: bool = False
    before: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """A text as a page shows it.

    Attributes:
        lines: The lines that are shown.
        count: How many there are.
    """

    lines: tuple[ShownLine, ...]
    count: int

    @property
    def after(self) -> int:
        """How many lines are left out at the end."""
        return self.count - (self.lines[-1].number if self.lines else 0)


def lines_of(definition: dict[str, Any]) -> list[Line]:
    """Return the lines of a definition; those of the same definition are remembered."""
    key = digest(definition)
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = written(definition)
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return found


_kept: OrderedDict[str, list[Line]] = OrderedDict()


def first_lines(lines: Sequence[Line], pointers: Collection[str]) -> dict[str, int]:
    """Return the number of the line in which each pointer begins; what is not there is left out."""
    wanted = set(pointers)
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        parts = line.pointer.split("/")
        for length in range(len(parts), 1, -1):
            pointer = "/".join(parts[:length])
            if pointer in wanted and pointer not in found:
                found[pointer] = number
    return found


def lit(lines: Sequence[Line], looks: dict[str, str]) -> Text:
    """Return a text with some pointers lit.

    Args:
        lines: The lines.
        looks: A class for each pointer; the innermost counts.
    """
    shown: list[ShownLine] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        pointer = _lit_pointer(line.pointer, looks)
        begins = pointer is not None and pointer not in seen
        if pointer is not None:
            seen.add(pointer)
        shown.append(ShownLine(number, line.text, "" if pointer is None else looks[pointer], begins))
    if len(shown) > MOST_LINES:
        shown = _around(shown)
    return Text(tuple(shown), len(lines))


def source_of(source: str) -> Text:
    """Return a text as it was written.

    Args:
        source: The text.
    """
    lines = source.removesuffix("\n").split("\n")
    return Text(tuple(ShownLine(number, line) for number, line in enumerate(lines, 1)), len(lines))


def _lit_pointer(pointer: str, looks: dict[str, str]) -> str | None:
    for length in range(len(keys(pointer)), 0, -1):
        above = "/".join(pointer.split("/")[: length + 1])
        if above in looks:
            return above
    return None


def _around(shown: list[ShownLine]) -> list[ShownLine]:
    """Return the lines around where something lit begins; the first ones if nothing is."""
    begun = [line.number for line in shown if line.begins]
    if not begun:
        return shown[:MOST_LINES]
    wanted = {number for at in begun for number in range(at - AROUND, at + 2 * AROUND)}
    found: list[ShownLine] = []
    last = 0
    for line in shown:
        if line.number in wanted and len(found) < MOST_LINES:
            before = line.number - last - 1
            last = line.number
            found.append(ShownLine(line.number, line.text, line.look, line.begins, before))
    return found
