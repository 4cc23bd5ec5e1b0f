"""The rate limit of one worker: how many activities it starts in a second, whatever other workers do."""

from __future__ import annotations

from typing import Final

from outlast_workflow.environment import Clock

BURST_S: Final = 0.1
"""How long an idle worker saves up: so many seconds' worth may start at once, but at least one."""


class RateLimit:
    """Lets so many starts through in a second, evenly: a token bucket, which holds a tenth of a second's worth.

    Args:
        per_second: The rate; a fraction is fine, such as 0.5 for one every two seconds.
        clock: Measures the time that passes.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._capacity = max(1.0, per_second * BURST_S)
        self._tokens = self._capacity
        self._counted_at = clock.monotonic()

    @property
    def free(self) -> int:
        """How many may start now."""
        now = self._clock.monotonic()
        self._tokens = min(self._capacity, self._tokens + (now - self._counted_at) * self._per_second)
        self._counted_at = now
        # A sum of fractions may end just below the whole number that it stands for.
        return int(self._tokens + 1e-9)

    def take(self, n: int = 1) -> bool:
        """Take the right to start, all or none; return whether there was enough."""
        if n > self.free:
            return False
        self._tokens -= n
        return True

    def give_back(self, n: int) -> None:
        """Give back what was taken for starts that do not happen."""
        self._tokens = min(self._capacity, self._tokens + n)

    @property
    def wait_s(self) -> float:
        """How many seconds pass until the next may start; 0.0 if one may start now."""
        return 0.0 if self.free else (1.0 - self._tokens) / self._per_second
