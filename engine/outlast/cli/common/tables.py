"""Tables that fit the terminal: columns are left out by rank, and hardly any word is broken.

Each column is as wide as its widest cell. If that is too wide for the terminal, cells with spaces wrap, down to their
longest word; a word that would take most of the line is broken, so that it drives out no column. If it is still too
wide, whole columns are left out: first empty ones, then those that the table names, then from the right; the first
column stays. What is longer than a line by nature (failures, causes, stacks) belongs below the
table, as a paragraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP: Final = 2
"""The spaces between two columns."""
LEAST_WRAPPED: Final = 24
"""Cells up to this width do not wrap: a table of short lines reads badly."""
LONGEST_WORD: Final = 48
"""A longer word is broken rather than a column left out for it, unless the line is long."""
LONGEST_SHARE: Final = 0.6
"""The share of a line that a word may take in any case."""
LEAST_CLIPPED: Final = 16
"""The least width of a column whose cells may be cut."""


class FittedTable:
    """A table that is laid out when it is printed.

    Args:
        columns: The names of the columns.
        title: A line above the table.
        drop: The columns that are left out first, in this order.
        clip: A column whose cells are cut where the line ends, not wrapped.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        title: str | None = None,
        drop: Sequence[str] = (),
        clip: str | None = None,
    ) -> None:
        self.columns = list(columns)
        self.title = title
        self.rows: list[list[Text]] = []
        unknown = {*drop, *([clip] if clip else [])} - set(columns)
        assert not unknown, f"no such columns: {unknown}"
        others = [place for place, name in enumerate(columns) if place > 0 and name not in drop]
        self._drop = [*(self.columns.index(name) for name in drop), *reversed(others)]
        self._clip = None if clip is None else self.columns.index(clip)

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def add_row(self, *cells: str | Text) -> None:
        """Add a row, with one cell for each column."""
        assert len(cells) == len(self.columns)
        self.rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        # The gaps are columns: whether padding at the edge takes room depends on the version of Rich.
        made = Table(
            box=None,
            header_style="bold",
            padding=0,
            title=self.title,
            title_justify="left",
            title_style="bold",
        )
        for place, width in widths.items():
            if made.columns:
                made.add_column(width=GAP)
            clipped = place == self._clip
            overflow: Literal["ellipsis", "fold"] = "ellipsis" if clipped else "fold"
            made.add_column(self.columns[place], width=width, no_wrap=clipped, overflow=overflow)
        for row in self.rows:
            made.add_row(*[one for place in widths for one in ("", row[place])][1:])
        yield made

    def _widths(self, available: int) -> dict[int, int]:
        """Return the columns that are shown, each with its width."""
        widths = {place: self._natural(place) for place in range(len(self.columns))}
        longest = max(LONGEST_WORD, int(available * LONGEST_SHARE))
        least = {place: self._least(place, longest) for place in widths}
        empty = [place for place in self._drop if not any(row[place].plain for row in self.rows)]
        for place in (*empty, *(place for place in self._drop if place not in empty)):
            if self._total(least) <= available:
                break
            del widths[place], least[place]
        while (excess := self._total(widths) - available) > 0:
            # What may be cut gives way first, then the widest that may wrap.
            spare = {place: widths[place] - least[place] for place in widths if widths[place] > least[place]}
            if not spare:
                break
            clipped = self._clip
            place = (
                clipped if clipped is not None and clipped in spare else max(spare, key=widths.__getitem__)
            )
            others = [widths[one] for one in spare if one != place]
            step = excess if place == clipped else max(1, widths[place] - max(others, default=0))
            widths[place] -= min(spare[place], step, excess)
        return widths

    def _total(self, widths: dict[int, int]) -> int:
        return sum(widths.values()) + GAP * (len(widths) - 1)

    def _cells(self, place: int) -> list[str]:
        return [self.columns[place], *(line for row in self.rows for line in row[place].plain.splitlines())]

    def _natural(self, place: int) -> int:
        return max(cell_len(line) for line in self._cells(place))

    def _least(self, place: int, most: int) -> int:
        if place == self._clip:
            return min(LEAST_CLIPPED, self._natural(place))
        words = (word for line in self._cells(place) for word in line.split())
        longest = max((cell_len(word) for word in words), default=0)
        return min(max(min(longest, most), LEAST_WRAPPED), self._natural(place))


class Paragraph:
    """A text that wraps at words, indented.

    Args:
        text: The text.
        indent: How many spaces stand before each line.
    """

    def __init__(self, text: str | Text, indent: int = 2) -> None:
        self.text = text if isinstance(text, Text) else Text(text)
        self.indent = " " * indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.wrap(console, max(1, options.max_width - len(self.indent))):
            line.rstrip()
            yield Text.assemble(self.indent, line)
