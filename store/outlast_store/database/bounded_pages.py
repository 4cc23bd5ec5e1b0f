"""Pages of rows that filters leave out of: a walk reads on in chunks, and looks at so many rows at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MOST_LOOKED_AT: Final = 10_000
"""How many rows a page looks at: filters may leave out any number of them."""
CHUNK: Final = 1_000
"""How many rows are read at a time, after a first chunk as large as the page."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BoundedPage(Generic[T]):
    """A page.

    Attributes:
        found: The rows that it shows.
        last: The row behind which more stands, which may or may not be wanted; ``None`` at the end.
        stopped: Whether it is not full because so many rows were not wanted that it stopped there.
    """

    found: list[T]
    last: T | None
    stopped: bool


def walk(read: Callable[[T | None, int], list[T]], limit: int) -> Iterator[T]:
    """Yield rows in order, reading on as far as they are asked for.

    Args:
        read: Returns the rows behind one, or the first ones, and so many at most.
        limit: How many rows the page shows.
    """
    last: T | None = None
    # One row more than the page holds tells whether there is a next page.
    size = limit + 1
    while True:
        rows = read(last, size)
        yield from rows
        if len(rows) < size:
            return
        last, size = rows[-1], CHUNK


def page_of(rows: Iterable[T], takes: Callable[[T], bool], limit: int) -> BoundedPage[T]:
    """Return the first rows that are wanted.

    Args:
        rows: The rows in order.
        takes: Whether a row is wanted.
        limit: How many the page shows.
    """
    found: list[T] = []
    last: T | None = None
    for looked_at, row in enumerate(rows):
        if len(found) == limit or looked_at == MOST_LOOKED_AT:
            return BoundedPage(found, last, stopped=len(found) < limit)
        last = row
        if takes(row):
            found.append(row)
    return BoundedPage(found, None, stopped=False)
