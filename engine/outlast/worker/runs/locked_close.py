"""The locked close: closing a run under constant signals.

A terminal command is refused while the run has an acknowledged signal, update or cancel request that its code has not
seen; the run is then replayed and tries again. If signals arrive faster than a replay takes, that would never end. So
after :data:`MOST_REFUSALS` refusals in a row the workflow task runs *inside* the transaction: the change locks the
run's row, reads its history under the lock, replays it, runs the code with every event there is, and writes what it
decides. A request that arrives meanwhile waits for the lock, and then finds the run closed, or open and one workflow
task further. Nothing is left to refuse, so the run makes progress.

The price is user code inside the journal's transaction. It is paid only here: once for each run, at its end, in a
storm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.runs.task_builder import Decider
from outlast_runs.task_commit import apply_workflow_task
from outlast_runs.updates import acceptance
from outlast_runs.workflow_task import Applied, WorkflowTask
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.requests import open_updates
from outlast_store.transitions.run_ends import locked_history
from outlast_workflow.errors import RefusedError
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.run.replay import replay

MOST_REFUSALS: Final = 2
"""How many times in a row a run's end may be refused before the run is closed under its lock."""

RunLocked = Callable[[RunRow, list[tuple[Any, ...]], list[RequestRow], int], WorkflowTask]
"""Replays a run from its history and runs its code with the waiting updates, at an instant; caches nothing."""


class RunLockedWorkflowTask(BaseChange):
    """Run a workflow task with everything that the run's history holds, while its row is locked.

    Args:
        run: The run, as its owner knows it.
        run_locked: Runs the code.
    """

    needs_locks = True

    def __init__(self, run: RunRow, run_locked: RunLocked) -> None:
        self.run_id = run.run_id
        self.fence = run.fence
        self.runs = (run.run_id,)
        self.instances = (run.workflow_id,)
        self.run_locked = run_locked

    def apply(self, batch: Batch) -> Applied:
        """Read the run, run its code and write what it decides.

        Raises:
            RefusedError: The run is closed or owned by another worker (``fenced``), or its code failed (``task``).
        """
        # A row that was not read under its lock may be written to meanwhile.
        batch.require_locks()
        run = batch.run(self.run_id)
        if run is None or not run.is_open or run.fence != self.fence:
            raise RefusedError("fenced", f"run {self.run_id} is closed or owned by another worker")
        rows = locked_history(batch, self.run_id)
        updates = open_updates(batch, self.run_id, accepted=False) if run.inbox else []
        try:
            workflow_task = self.run_locked(run, rows, updates, batch.now)
        except BaseException as error:
            # On the journal's thread: nothing that the code raises may end the journal.
            if is_ctrl_c(error):
                raise
            raise RefusedError("task", f"the code of run {self.run_id} failed at its end") from error
        return apply_workflow_task(batch, run, workflow_task)


class LockedCloser:
    """Counts how often the ends of a worker's runs are refused, and closes those runs under their locks.

    Args:
        runtime: Where the journal is.
        served: Makes the machines of runs.
        decider: Makes what is written.
        load: Loads a run that is still open afterwards.
    """

    def __init__(
        self, runtime: Runtime, served: ServedWorkflows, decider: Decider, load: Callable[[str], None]
    ) -> None:
        self._runtime = runtime
        self._served = served
        self._decider = decider
        self._load = load
        self.refusals: dict[str, int] = {}
        """How often the end of each run was refused since it last made progress."""

    def is_due(self, run_id: str) -> bool:
        """Count a refusal of a run's end; return whether it is now to be closed under its lock."""
        count = self.refusals[run_id] = self.refusals.get(run_id, 0) + 1
        if count < MOST_REFUSALS:
            return False
        del self.refusals[run_id]
        return True

    def forget(self, run_id: str) -> None:
        """Forget the refusals of a run that has made progress."""
        self.refusals.pop(run_id, None)

    def close(self, run: RunRow) -> None:
        """Run a run's next workflow task under its lock."""
        change = RunLockedWorkflowTask(run, self._run_locked)
        self._runtime.journal.submit(change, partial(self._closed, run.run_id))

    def _run_locked(
        self, run: RunRow, rows: list[tuple[Any, ...]], updates: list[RequestRow], now: int
    ) -> WorkflowTask:
        """On the journal's thread, so nothing of the worker may change."""
        machine = self._served.machine(run)
        try:
            replayed = replay(machine, rows)
            cached_run = CachedRun(run, machine, seen_seq=replayed.last_seq, open_ids=replayed.open_ids)
            cached_run.pending = [event for _, event in replayed.unapplied]
            cached_run.updates = [acceptance(row) for row in updates]
            cached_run.seen_inbox = run.inbox
            commands, own, seen_seq = cached_run.run_workflow_task(now)
            return self._decider.decide(cached_run, commands, own, seen_seq, eager=False)
        finally:
            machine.evict()

    def _closed(self, run_id: str, applied: Applied | None, error: BaseException | None) -> None:
        if applied is None and not (isinstance(error, RefusedError) and error.reason == "fenced"):
            self._load(run_id)
