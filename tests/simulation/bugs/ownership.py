"""Bugs of owners, their wake-ups, and of what they are sent."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast.worker import lease
from outlast.worker.runs import locked_close
from outlast_activities.attempts import RESCUED, close_attempt
from outlast_runs import claims, signals, start, task_commit, terminal_commands
from outlast_runs import run_change as client_requests
from outlast_runs import signals as signalling
from outlast_runs.owner_losses import release
from outlast_store.journal import batch as batches
from outlast_store.journal.batch import Batch
from outlast_store.reads.workers import renew_lease
from outlast_store.transitions import requests
from outlast_watchdog import enforcement
from outlast_watchdog.enforcement import Rescued
from outlast_workflow.primitives.enums import ActivityStatus

# --- ownership -----------------------------------------------------------------------------------------------


@bug
def no_fence(stack: ExitStack) -> None:
    """A workflow task is taken from whoever sends it."""
    right = task_commit.apply_workflow_task

    def wrong(batch: Batch, run: Any, decided: Any) -> Any:
        if run.is_open:
            decided = replace(decided, worker_id=run.owner_id, fence=run.fence)
        return right(batch, run, decided)

    for module in (task_commit, locked_close, start):
        patch(stack, module, "apply_workflow_task", wrong)


@bug
def lease_not_looked_at_again(stack: ExitStack) -> None:
    """A worker that has renewed its lease since the scan is declared dead all the same."""

    def wrong(self: Any, batch: Batch) -> bool:
        return batch.execute("DELETE FROM workers WHERE worker_id = ?", (self.worker_id,)) == 1

    patch(stack, enforcement.DeclareWorkerLost, "apply", wrong)


@bug
def lease_not_renewed(stack: ExitStack) -> None:
    """A worker that was declared dead does not notice."""

    def wrong(connection: Any, worker_id: str, expires_at: int) -> bool:
        right(connection, worker_id, expires_at)
        return True

    right = renew_lease
    patch(stack, lease, "renew_lease", wrong)


@bug
def rescue_without_looking_again(stack: ExitStack) -> None:
    """What was seen running on a dead worker is handed on, whoever runs it by now."""

    def wrong(self: Any, batch: Batch) -> Rescued | None:
        row = batch.activity(*self.activities[0])
        run = batch.run(self.runs[0])
        if row is None or run is None or not run.is_open or row.status != ActivityStatus.RUNNING:
            return None
        return Rescued(close_attempt(batch, run, row, RESCUED))

    patch(stack, enforcement.RescueActivity, "apply", wrong)


@bug
def losses_without_limit(stack: ExitStack) -> None:
    """A run may take down as many owners as it likes."""

    def wrong(batch: Batch, run: Any, most_losses: int) -> bool:
        release(run, batch.now)
        return False

    for module in (enforcement, claims):
        patch(stack, module, "lose", wrong)


@bug
def losses_never_forgotten(stack: ExitStack) -> None:
    """A run that goes on is still charged with the owners that it lost before."""
    right = task_commit._clear_setbacks

    def wrong(run: Any, decided: Any, *, seen_all: bool, now: int) -> None:
        losses = run.owner_losses
        right(run, decided, seen_all=seen_all, now=now)
        run.owner_losses = losses

    patch(stack, task_commit, "_clear_setbacks", wrong)


# --- waking --------------------------------------------------------------------------------------------------


@bug
def woken_for_nothing(stack: ExitStack) -> None:
    """The call to wake is cleared, though there is news that the workflow task has not seen."""
    right = task_commit._clear_setbacks

    def wrong(run: Any, decided: Any, *, seen_all: bool, now: int) -> None:
        right(run, decided, seen_all=True, now=now)

    patch(stack, task_commit, "_clear_setbacks", wrong)


@bug
def ends_without_looking(stack: ExitStack) -> None:
    """Signals that were not seen don't hold back the end."""
    patch(stack, task_commit, "HOLD_BACK_TERMINAL", frozenset())


# --- requests ------------------------------------------------------------------------------------------------


@bug
def no_deduplication(stack: ExitStack) -> None:
    """A keyed signal that is sent again arrives again."""
    patch(stack, signalling, "was_delivered", lambda batch, run, signal: False)
    patch(stack, signals, "was_delivered", lambda batch, run, signal: False)
    right = requests.add

    def wrong(batch: Batch, row: Any) -> bool:
        right(batch, row)
        return True

    patch(stack, requests, "add", wrong)


@bug
def signals_after_the_end(stack: ExitStack) -> None:
    """What is sent to a closed run is appended to its history."""
    patch(stack, client_requests.RunChange, "open_run", lambda self, batch: batch.run(self.run_id))
    right = batches.Batch.append

    def wrong(self: Any, run: Any, event: Any) -> int:
        closed_at, run.closed_at = run.closed_at, None
        try:
            return right(self, run, event)
        finally:
            run.closed_at = closed_at

    patch(stack, batches.Batch, "append", wrong)


@bug
def signals_left_behind(stack: ExitStack) -> None:
    """A run that continues as new hands nothing on."""
    patch(stack, terminal_commands, "move_signals", lambda batch, following, signals: None)
