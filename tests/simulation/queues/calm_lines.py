"""Lines in the calm: one with room, that is not paused and that a live worker with room serves, is soon empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.simulation.queues.admissions import SLACK, Admissions, Waiting, Watched, count_slots

EMPTY_WITHIN_S = 2.0
HOPS = 6
"""How many answers of the database a line may wait for besides: a look, a pause after one in vain, and another."""


class Server(NamedTuple):
    """A worker that is alive."""

    worker_id: str
    task_queues: tuple[str, ...]
    lines: tuple[str, ...] | None
    """The queues that it admits from; ``None`` for all."""
    slots: int
    """How many more activities it has room for. One that has none takes runs, too, but now and then."""


class CalmLines:
    """Watches lines from the beginning of the calm.

    Args:
        admissions: What is known of the queues.
        poll_s: How often processes look for what they were not told of.
        hop_s: How long an answer of the database takes at most.
    """

    def __init__(self, admissions: Admissions, poll_s: float, hop_s: float) -> None:
        self._admissions = admissions
        self._patience_s = max(EMPTY_WITHIN_S, poll_s + 1) + hop_s * HOPS
        self._since: dict[str, tuple[float, Any]] = {}

    def look(self, now_s: float, now_us: int, servers: Sequence[Server]) -> Iterator[str]:
        """Say which lines have waited for too long although nothing holds them up.

        Args:
            now_s: The time, in seconds.
            now_us: The instant, in microseconds.
            servers: The workers that are alive.
        """
        for queue in self._admissions.queues():
            known = self._admissions.watched(queue)
            head = self._held_up_by_nothing(queue, known, now_us, servers) if known is not None else None
            if known is None or head is None:
                self._since.pop(queue, None)
                continue
            state = len(known.admitted), known.limits
            since, before = self._since.setdefault(queue, (now_s, state))
            if before != state:
                self._since[queue] = now_s, state
                continue
            # A rate may hold up the line for its whole length, and what was admitted by a clock ahead as long again.
            longest = max(known.limits["rate_per"] or 0, known.limits["partition_rate_per"] or 0)
            patience_s = self._patience_s + SLACK * longest / 1_000_000
            if now_s - since > patience_s:
                self._since[queue] = now_s, state
                yield f"{head.key} has waited for {patience_s:g} s of calm in queue {queue}, which has room"

    def _held_up_by_nothing(
        self, queue: str, known: Watched, now: int, servers: Sequence[Server]
    ) -> Waiting | None:
        limits = known.limits
        if limits["paused_at"] is not None or limits["deleted_at"] is not None:
            return None
        held = count_slots(self._admissions.slots(queue))

        def room(name: str, whose: Any) -> bool:
            limit = limits[name]
            return limit is None or held[name][whose] < limit

        for head in self._admissions.line(queue, now):
            if (
                (head.deadline is None or head.deadline > now)
                and room("concurrency", "")
                and room("partition_concurrency", head.partition)
                and any(
                    head.task_queue in server.task_queues
                    and server.slots > 0
                    and (server.lines is None or queue in server.lines)
                    and room("worker_concurrency", server.worker_id)
                    and room("partition_worker_concurrency", (head.partition, server.worker_id))
                    for server in servers
                )
            ):
                return head
        return None
