"""The end of a run that is spoken to all the time: its last workflow task, with nobody able to come between.

A terminal command is held back while something acknowledged is unseen, and the run is replayed with it. Where signals
come faster than a replay takes, that would go on for ever. So after two such refusals the workflow task happens
*inside* the change: the run's row is locked, the history is read under the lock, the code is brought back and activated
with all that there is, and what it decides is written. Whoever wants to ask meanwhile waits for the lock and then finds
the run closed, or open with one workflow task more. Nothing is refused, so it ends.

The price is user code in the journal's transaction. It is paid only here: once for each run, at its end, in a storm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cached_run import CachedRun
from outlast_runs.updates import acceptance
from outlast_runs.workflow_task import Applied, WorkflowTask, apply_workflow_task
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.requests import open_updates
from outlast_workflow.errors import RefusedError
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

MOST_REFUSALS = 2
"""How often a run's end may be held back before its tail is applied under the lock."""

Decide = Callable[[RunRow, list[tuple[Any, ...]], list[RequestRow], int], WorkflowTask]
"""Brings a run back from its history and activates it, with the updates that wait, at a time; leaves nothing in memory.
"""


class RunLockedWorkflowTask(BaseChange):
    """Activate a run with everything that its history holds, while its row is locked."""

    needs_locks = True

    def __init__(self, run: RunRow, decide: Decide) -> None:
        self.run_id = run.run_id
        self.fence = run.fence
        self.runs = (run.run_id,)
        self.instances = (run.workflow_id,)
        self.decide = decide

    def apply(self, batch: Batch) -> Applied:
        """Read, activate and write.

        Raises:
            RefusedError: The run is closed or owned by another worker (``fenced``), or its code failed (``task``).
        """
        batch.require_locks()  # only what was read under its lock can't be written to meanwhile
        run = batch.run(self.run_id)
        if run is None or not run.is_open or run.fence != self.fence:
            raise RefusedError("fenced", f"run {self.run_id} is closed or owned by another worker")
        text = "SELECT seq, type, payload FROM history_events WHERE run_id = ? AND seq > ? ORDER BY seq"
        rows = batch.scan(text, (self.run_id, 0))
        rows += [(seq, event.type, event.to_json()) for seq, event, _ in batch.appended(self.run_id)]
        updates = open_updates(batch, self.run_id, accepted=False) if run.inbox else []
        try:
            workflow_task = self.decide(run, rows, updates, batch.now)
        except Exception as error:
            raise RefusedError("task", f"the code of run {self.run_id} failed at its end") from error
        return apply_workflow_task(batch, run, workflow_task)


class Closing:
    """The runs of a worker whose ends are held back.

    Args:
        runtime: Where the journal is.
        machine: Makes the machine of a run.
        decide: Makes the workflow task of a cached run, its commands, its results and what it has seen; starts nothing.
        load: Brings a run back into memory.
    """

    def __init__(
        self,
        runtime: Runtime,
        machine: Callable[[RunRow], WorkflowMachine],
        decide: Callable[..., WorkflowTask],
        load: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._machine = machine
        self._decide = decide
        self._load = load
        self._refusals: dict[str, int] = {}

    def enough(self, run_id: str) -> bool:
        """Count a refusal; whether the run is now to end under the lock."""
        count = self._refusals[run_id] = self._refusals.get(run_id, 0) + 1
        if count < MOST_REFUSALS:
            return False
        del self._refusals[run_id]
        return True

    def forget(self, run_id: str) -> None:
        """The run has got on."""
        if self._refusals:
            self._refusals.pop(run_id, None)

    def end(self, run: RunRow) -> None:
        """Activate a run under its lock."""
        self._runtime.journal.submit(
            RunLockedWorkflowTask(run, self._run_workflow_task), partial(self._ended, run.run_id)
        )

    def _run_workflow_task(
        self, run: RunRow, rows: list[tuple[Any, ...]], updates: list[RequestRow], now: int
    ) -> WorkflowTask:
        """On the journal's thread: nothing of the worker may change."""
        machine = self._machine(run)
        try:
            replayed = replay(machine, rows)
            cached_run = CachedRun(run, machine, seen_seq=replayed.last_seq, open_ids=replayed.open_ids)
            cached_run.pending = [event for _, event in replayed.unapplied]
            cached_run.updates = [acceptance(row) for row in updates]
            cached_run.seen_inbox = run.inbox
            commands, own, seen = cached_run.run_workflow_task(now)
            return self._decide(cached_run, commands, own, seen)
        finally:
            machine.evict()

    def _ended(self, run_id: str, applied: Applied | None, error: BaseException | None) -> None:
        if applied is None and not (isinstance(error, RefusedError) and error.reason == "fenced"):
            self._load(run_id)
