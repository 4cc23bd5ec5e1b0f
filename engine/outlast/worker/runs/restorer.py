"""Restoring runs: from a row and its history, by replay, to a cached run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.late_results import LateResults
from outlast.worker.runs.loader import LoadingRun, RunLoader
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.runs.workflow_tasks import WorkflowTasks
from outlast_runs.claims import ReleaseRuns
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import JournalClosedError
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.run.replay import replay


class RunRestorer:
    """Loads the runs that a worker owns, and replays them into its cache.

    Args:
        runtime: Where to read.
        served: What the worker serves.
        cache: Where restored runs go.
        ready_queue: Where replays wait for their turn.
        tasks: Gives restored runs their workflow tasks.
        late_results: Commits results whose run is not restored.
        restored: Called with the id of each run that was loaded, whether it is cached now or not.
    """

    def __init__(
        self,
        runtime: Runtime,
        served: ServedWorkflows,
        cache: RunCache,
        ready_queue: ReadyQueue,
        tasks: WorkflowTasks,
        *,
        late_results: LateResults,
        restored: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._served = served
        self._cache = cache
        self._ready_queue = ready_queue
        self._tasks = tasks
        self._late_results = late_results
        self._restored = restored
        self.loader = RunLoader(runtime, self._loaded, late_results.commit)

    def load(self, run_id: str, *, at: int = 0) -> None:
        """Load a run, unless it is cached.

        Args:
            run_id: The run.
            at: Not before this instant, in microseconds of the engine's clock.
        """
        if at > self._clock.now():
            self._ready_queue.call_at(at, partial(self.load, run_id))
        elif run_id not in self._cache.runs and not self._served.stopping:
            self.loader.load(run_id)

    def adopt(self, run: RunRow) -> CachedRun | None:
        """Cache a new run that starts with this worker as its owner, before its first event.

        Returns:
            The cached run; ``None`` if the worker does not serve the run, which it then releases.
        """
        if not self._served.serves(run.workflow_type, run.task_queue):
            self.release(run.run_id)
            return None
        cached_run = CachedRun(run, self._served.machine(run), seen_seq=0, open_ids=set())
        self._cache.runs[run.run_id] = cached_run
        return cached_run

    def release(self, run_id: str) -> None:
        """Release a run that this worker owns but cannot run."""
        # A worker that stops releases all of its runs anyway.
        with suppress(JournalClosedError):
            change = ReleaseRuns(self._served.settings.worker_id, [run_id])
            self._runtime.journal.submit(change, lambda value, error: None)

    def _loaded(self, loading: LoadingRun) -> None:
        self._ready_queue.enqueue(partial(self._restore, loading))

    def _restore(self, loading: LoadingRun) -> None:
        fresh = self.loader.finish(loading)
        cached_run = self._cache.runs.get(loading.run_id)
        if cached_run is None and not fresh and not self._served.stopping:
            self.loader.load(loading.run_id, loading.results)
            return
        if cached_run is None and loading.found is not None and fresh:
            cached_run = self._replayed(*loading.found)
        if cached_run is None:
            self._late_results.commit(loading.results)
        else:
            for task, payload in loading.results:
                cached_run.add_result(task, payload)
            if cached_run.has_work:
                self._tasks.wake(cached_run)
            else:
                self._cache.trim()
        self._restored(loading.run_id)

    def _replayed(self, run: RunRow, rows: Sequence[tuple[Any, ...]]) -> CachedRun | None:
        """Replay a run; return ``None`` if it is not ours or its code fails."""
        served = self._served
        if not run.is_open or run.owner_id != served.settings.worker_id or served.stopping:
            return None
        if served.find(run.workflow_type) is None:
            self.release(run.run_id)
            return None
        machine = served.machine(run)
        try:
            replayed = replay(machine, rows)
        except BaseException as error:
            machine.evict()
            if is_ctrl_c(error):
                raise
            self._tasks.failed(run, error, rows[-1][0])
            return None
        cached_run = CachedRun(run, machine, seen_seq=replayed.last_seq, open_ids=replayed.open_ids)
        cached_run.pending = [event for _, event in replayed.unapplied]
        cached_run.roused = replayed.roused
        remembered_rows = self._runtime.journal.cache.runs
        remembered = remembered_rows.get(run.run_id)
        if remembered is not None and remembered.last_seq >= run.last_seq:
            # This process has written to the run since it was read.
            cached_run.run = remembered
        else:
            remembered_rows[run.run_id] = run
        cached_run.gap = cached_run.run.last_seq > replayed.last_seq
        self._cache.runs[run.run_id] = cached_run
        return cached_run
