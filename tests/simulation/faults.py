"""What may go wrong, and how often: drawn from the seed, once for each simulation; nothing goes wrong in the calm."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, fields


@dataclass
class Rates:
    """Chances; zero is never."""

    crash: float = 0.0
    """At each callback and each statement of a process."""
    freeze: float = 0.0
    """At each callback and each statement: it stops there, for longer than its lease perhaps."""
    freeze_decided: float = 0.0
    """Between a workflow task and its commit, for longer than the lease: who goes on then is a zombie."""
    freeze_enforcing: float = 0.0
    """Between what a watchdog has seen and its commit: others have acted by then, and what it saw is old."""
    crash_enforced: float = 0.0
    """Just after a watchdog's commit, with more to do: nobody remembers but the database."""
    crash_at_commit: float = 0.0
    """Just before or just after each COMMIT."""
    commit_lost: float = 0.0
    answer_lost: float = 0.0
    busy: float = 0.0
    cut: float = 0.0
    """At each statement."""
    full: float = 0.0
    """The disk, at each statement of a transaction."""
    unreachable: float = 0.0
    """At each attempt to connect."""
    slow: float = 0.0
    """At each statement: it takes long, and everybody waits."""
    bell_lost: float = 0.0
    bell_doubled: float = 0.0
    called_twice: float = 0.0
    """At each submitted change and each call that may come twice."""

    enforced_twice: float = 0.0
    """What one watchdog has seen and written, a slow one has seen too, and writes after up to two leases."""

    @classmethod
    def draw(cls, rng: random.Random) -> Rates:
        """Some kinds often, some rarely, some not at all; a few seeds are quiet."""
        most = {
            "crash": 0.002,
            "freeze": 0.003,
            "freeze_decided": 0.05,
            "freeze_enforcing": 0.3,
            "crash_enforced": 0.4,
            "crash_at_commit": 0.1,
            "commit_lost": 0.05,
            "answer_lost": 0.08,
            "busy": 0.08,
            "cut": 0.004,
            "full": 0.002,
            "unreachable": 0.3,
            "slow": 0.002,
            "bell_lost": 0.5,
            "bell_doubled": 0.5,
            "called_twice": 0.4,
            "enforced_twice": 0.8,
        }
        return cls(**{name: rng.choice((0, 0, 0.2, 1.0)) * rate for name, rate in most.items()})

    def harmless(self) -> Rates:
        """Those that may go on in the calm: what comes twice does no harm."""
        return Rates(bell_doubled=self.bell_doubled, called_twice=self.called_twice)


class Faults:
    """Decides, for one process; counts what it did."""

    def __init__(self, rng: random.Random, rates: Rates, counts: Counter[str]) -> None:
        self._random = rng.random
        self.rates = rates
        self.counts = counts
        self.outage = False

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.rates = self.rates.harmless()
        self.outage = False

    def happens(self, name: str) -> bool:
        """Whether a thing of this kind happens now."""
        rate = getattr(self.rates, name)
        if rate and self._random() < rate:
            self.counts[name] += 1
            return True
        return False

    def at_begin(self) -> str | None:
        if self.outage:
            return "cut"
        if self.happens("busy"):
            return "busy"
        return "cut" if self.happens("cut") else None

    def at_statement(self) -> str | None:
        if self.outage:
            return "cut"
        if self.happens("cut"):
            return "cut"
        return "full" if self.happens("full") else None

    def at_commit(self) -> str | None:
        if self.outage or self.happens("commit_lost"):
            return "lost"
        if self.happens("answer_lost"):
            return "answer lost"
        if self.happens("crash_at_commit"):
            return "crash before" if self._random() < 0.5 else "crash after"
        return "full" if self.happens("full") else None

    def at_connect(self) -> bool:
        return self.outage or self.happens("unreachable")


NAMES = tuple(field.name for field in fields(Rates))
