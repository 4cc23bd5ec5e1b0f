"""The log of a rate: when how many were admitted, and how many more may be admitted now.

In any window of the period there are at most ``limit`` admissions. The log keeps them in buckets of a two-hundredth of
the period, rounded up. A bucket counts until a whole period after its end, so that no window can hold more than the
limit. That leaves half a per cent of the budget unused; a worker that looks a little late leaves no more than another
half. The log has about two hundred entries at most, whatever the limit is.

A bucket begins with its first admission. Instants are microseconds since the epoch, of the transactions' clocks. Where
a clock was set back, what lies ahead counts as admitted just now: the queue then waits one period at most. For that
the log has to be written (:attr:`RateLog.brought_back`) also where it allows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from outlast_workflow.primitives.times import LAST_INSTANT

BUCKETS: Final = 200
"""How many buckets a period has."""

Entry = tuple[int, int]
"""The end of a bucket, and how many were admitted in it."""


class RateLog:
    """The admissions of a rate's latest period, oldest first.

    Args:
        limit: How many admissions any window may hold.
        per: The length of the window, in microseconds.
        entries: The buckets, as :meth:`to_json` has written them.
    """

    __slots__ = ("brought_back", "bucket", "entries", "limit", "per")

    def __init__(self, limit: int, per: int, entries: Sequence[Sequence[int]] = ()) -> None:
        self.limit = limit
        self.per = per
        self.bucket = -(-per // BUCKETS)
        self.brought_back = False
        """Whether something lay ahead that counts as admitted just now."""
        self.entries: list[Entry] = [(end, count) for end, count in entries]

    @classmethod
    def from_json(cls, limit: int, per: int, text: str | None) -> RateLog:
        """Read a log from its row.

        Args:
            limit: How many admissions any window may hold.
            per: The length of the window, in microseconds.
            text: The row's text; ``None`` for an empty log. One that cannot be read counts as used up just now.
        """
        try:
            entries = [(int(end), int(count)) for end, count in orjson.loads(text or "[]")]
        except (TypeError, ValueError):
            # Nobody knows any more what was admitted. It may have been all of it, just now, and no more.
            entries = [(LAST_INSTANT, limit)]
        return cls(limit, per, entries)

    def to_json(self) -> str | None:
        """Return the log as a row keeps it."""
        return orjson.dumps(self.entries).decode() if self.entries else None

    def room(self, now: int) -> int:
        """Return how many may be admitted now."""
        self._forget(now)
        return max(self.limit - self._used(), 0)

    def add(self, now: int, count: int) -> None:
        """Count admissions.

        Args:
            now: When they are.
            count: How many.
        """
        if count <= 0:
            return
        self._forget(now)
        if self.entries and now < self.entries[-1][0]:
            end, known = self.entries[-1]
            self.entries[-1] = (end, known + count)
        else:
            self.entries.append((now + self.bucket, count))

    def next_at(self, now: int) -> int | None:
        """Return when the next one may be admitted; ``None`` where one may be now."""
        self._forget(now)
        used = self._used()
        if used < self.limit:
            return None
        for end, count in self.entries:
            used -= count
            if used < self.limit:
                return end + self.per
        raise AssertionError("a rate without a limit")

    @property
    def empty_at(self) -> int | None:
        """When the whole log has passed; ``None`` where it is empty."""
        return self.entries[-1][0] + self.per if self.entries else None

    def _used(self) -> int:
        return sum(count for _, count in self.entries)

    def _forget(self, now: int) -> None:
        """Drop the buckets that have passed; bring back those that lie ahead."""
        latest = now + self.bucket
        kept: list[Entry] = []
        ahead = 0
        for end, count in self.entries:
            if end > latest:
                ahead += count
            elif end + self.per > now:
                kept.append((end, count))
        if ahead:
            self.brought_back = True
            if kept and kept[-1][0] > now:
                ahead += kept.pop()[1]
            kept.append((latest, ahead))
        self.entries = kept
