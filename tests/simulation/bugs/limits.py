"""Bugs of the limits that code sets on its own run."""

from __future__ import annotations

from contextlib import ExitStack

from tests.simulation.bugs.planting import bug, patch

from outlast_runs import copied_histories, task_commands
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_deadlines import nearest_deadline


@bug
def limits_stay_in_the_history(stack: ExitStack) -> None:
    """The run's row does not take the limit over: nobody enforces it."""
    patch(stack, task_commands, "lower_run_deadline", lambda run, deadline_at: None)


@bug
def limits_move_deadlines_away(stack: ExitStack) -> None:
    """Where the run has a deadline already, the later of the two holds."""

    def wrong(run: RunRow, deadline_at: int) -> None:
        run.run_deadline_at = max(run.run_deadline_at or deadline_at, deadline_at)
        run.next_deadline_at = nearest_deadline(run)

    patch(stack, task_commands, "lower_run_deadline", wrong)


@bug
def resets_forget_limits(stack: ExitStack) -> None:
    """A run that continues the history of another has no limit any more."""
    patch(stack, copied_histories, "lower_run_deadline", lambda run, deadline_at: None)
