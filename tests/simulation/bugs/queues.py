"""Bugs of queues."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_runs import admission, terminal_commands
from outlast_store.journal.batch import Batch
from outlast_store.queues import lines
from outlast_store.schema import rows
from outlast_store.transitions import new_runs, queued_runs, run_ends
from outlast_watchdog import enforcement


@bug
def slots_counted_too_early(stack: ExitStack) -> None:
    """Slots are counted as they were when the gate was asked for: the latest admission is missing."""
    right = lines.count_slots

    def wrong(batch: Batch, queue: str, limit: int) -> int:
        return max(right(batch, queue, limit) - 1, 0)

    patch(stack, lines, "count_slots", wrong)


@bug
def partitions_not_counted(stack: ExitStack) -> None:
    """What a partition holds already is forgotten."""
    patch(
        stack,
        lines,
        "count_partition_slots",
        lambda batch, queue, partitions, worker_id=None: dict.fromkeys(partitions, 0),
    )


@bug
def taken_over_without_room(stack: ExitStack) -> None:
    """Runs that lost their owner go to any worker, however many it has."""
    right = admission.AdmitFromQueue._take_over

    def wrong(self: Any, batch: Batch, gate: Any, room: int, done: Any) -> None:
        right(self, batch, replace(gate, partition_worker_concurrency=None), self.taker.runs, done)

    patch(stack, admission.AdmitFromQueue, "_take_over", wrong)
    patch(stack, lines, "count_slots_of", lambda batch, queue, worker_id: 0)


@bug
def queued_runs_are_woken(stack: ExitStack) -> None:
    """What is sent to a queued run makes it claimable."""

    def wrong(self: Any, now: int) -> None:
        if self.wake_at is None or self.wake_at > now:
            self.wake_at = now

    patch(stack, rows.RunRow, "wake", wrong)


@bug
def slots_leak(stack: ExitStack) -> None:
    """A run that continues as new keeps its slot, and so does the next one."""
    right = run_ends.close_run

    def wrong(batch: Batch, run: Any, event: Any, status: Any, **more: Any) -> None:
        slot = run.slot_queue
        right(batch, run, event, status, **more)
        run.slot_queue = slot

    for module in (run_ends, terminal_commands):
        patch(stack, module, "close_run", wrong)


@bug
def delays_never_end(stack: ExitStack) -> None:
    """A run whose start delay has passed does not join its line."""
    patch(stack, enforcement, "join_line", lambda batch, run, at: None)


@bug
def run_timeouts_count_from_the_start(stack: ExitStack) -> None:
    """The run timeout of a queued run begins before it is admitted."""
    right = queued_runs.enter_queue

    def wrong(run: Any, now: int, **more: Any) -> None:
        deadline = run.run_deadline_at
        right(run, now, **more)
        run.run_deadline_at = deadline

    patch(stack, new_runs, "enter_queue", wrong)
