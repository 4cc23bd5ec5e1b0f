"""Bugs of what a chain leaves: its next run, its children, its export."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast.histories import retention
from outlast.histories.deletion import delete_chain
from outlast_runs import copied_histories, resets
from outlast_store.journal.batch import Batch
from outlast_store.transitions import new_runs, parents, requests, run_ends
from outlast_store.transitions.children import AppliedClosePolicy, apply_close_policy
from outlast_watchdog import enforcement
from outlast_workflow.history import reset_plan

# --- resets and retention ------------------------------------------------------------------------------------


@bug
def retries_forget_the_failure(stack: ExitStack) -> None:
    """The run that retries another does not know why."""
    right = new_runs.started_event

    def wrong(run: Any, **given: Any) -> Any:
        given["last_failure"] = None
        return right(run, **given)

    patch(stack, run_ends, "started_event", wrong)


@bug
def reset_leaves_signals(stack: ExitStack) -> None:
    """A reset forgets the signals that came after its point."""
    patch(stack, requests, "unapplied_signals", lambda batch, run, after_seq: [])


@bug
def reset_without_looking_again(stack: ExitStack) -> None:
    """A run is reset, though it has been reset since it was read."""
    right = resets.ResetRun.apply

    def wrong(self: Any, batch: Batch) -> Any:
        run, instance = batch.run(self.run_id), batch.instance(self.instances[0])
        if run is not None and instance is not None:
            run.next_run_id, instance.current_run_id = None, run.run_id
        return right(self, batch)

    patch(stack, resets.ResetRun, "apply", wrong)


@bug
def forks_keep_the_old_seed(stack: ExitStack) -> None:
    """What is random after the point of a fork or a reset is what it was in the original."""
    right = copied_histories.CopiedHistory.started

    def wrong(self: Any, batch: Batch, run: Any, row: Any) -> Any:
        started, seeds = right(self, batch, run, row)
        seeds[-1][1] = seeds[-2][1] if len(seeds) > 1 else started.seed
        return started, seeds

    patch(stack, copied_histories.CopiedHistory, "started", wrong)


@bug
def open_children_stay_behind(stack: ExitStack) -> None:
    """A reset does not look after the children that are open at its point: they belong to the run that was reset."""
    right = parents.adopt_children

    def wrong(batch: Batch, row: Any, children: Any) -> None:
        right(batch, row, {at: child for at, child in children.items() if not child.is_open})

    patch(stack, copied_histories, "adopt_children", wrong)


@bug
def ends_of_children_are_not_told(stack: ExitStack) -> None:
    """What became of a child between the point of a reset and the reset is not told to the new run."""
    right = parents.adopt_children

    def wrong(batch: Batch, row: Any, children: Any) -> None:
        right(batch, row, {at: child for at, child in children.items() if child.is_open})

    patch(stack, copied_histories, "adopt_children", wrong)


@bug
def forks_take_open_children(stack: ExitStack) -> None:
    """A fork takes the children of its original that are open at its point, as a reset does."""
    looks, finds = reset_plan._Points._in_the_way, parents.find_children

    def wrong(self: Any, walk: Any) -> Any:
        fork, self.fork = self.fork, False
        found = looks(self, walk)
        self.fork = fork
        return found

    patch(stack, reset_plan._Points, "_in_the_way", wrong)
    patch(
        stack,
        copied_histories,
        "find_children",
        lambda batch, children, fork: finds(batch, children, fork=False),
    )


@bug
def deleted_before_exported(stack: ExitStack) -> None:
    """What retention exports is what it has left of a chain."""
    right = delete_chain

    async def wrong(runtime: Any, last_run_id: str, workflow_id: str, **_: Any) -> int:
        return 0

    async def nothing(self: Any, folder: Any, chain: Any) -> bool:
        await right(self._runtime, chain.last_run_id, chain.workflow_id)
        return False

    patch(stack, retention.Retention, "_export", nothing)
    patch(stack, retention, "delete_chain", wrong)


# --- families ------------------------------------------------------------------------------------------------


@bug
def cascade_in_memory(stack: ExitStack) -> None:
    """The mark that children await their close policy goes before they have met it: who crashes between leaves them."""

    def wrong(self: Any, batch: Batch) -> Any:
        run = batch.run(self.runs[0])
        if run is None or run.is_open:
            return None
        if run.cascade_at is not None and run.cascade_at <= batch.now:
            run.cascade_at = None
            return AppliedClosePolicy(due=[run.run_id])
        return apply_close_policy(batch, run)

    patch(stack, enforcement.ApplyClosePolicy, "apply", wrong)


@bug
def parents_not_told(stack: ExitStack) -> None:
    """A child that is timed out, or whose parent another worker owns, ends without its parent being told."""
    right = parents.tell_parent

    def wrong(batch: Batch, run: Any, event: Any) -> None:
        if batch.run(run.parent_run_id) is not None:
            right(batch, run, event)

    patch(stack, run_ends, "tell_parent", wrong)
