"""Eager starts: the process that starts a workflow also runs its first workflow task, in the same transaction."""

from __future__ import annotations

import logging
from functools import partial

from outlast.runtime.local_worker import StartCallback
from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.runs.task_builder import Decider
from outlast.worker.runs.workflow_tasks import WorkflowTasks
from outlast_runs.start import Started, StartRun
from outlast_store.database.driver_errors import lasts
from outlast_workflow.errors import QueueNotFoundError, StructuralLimitError
from outlast_workflow.loop.keyboard import is_ctrl_c

logger = logging.getLogger("outlast.worker")


class EagerStarts:
    """Starts workflows that this worker owns from the first event on.

    Args:
        runtime: Where the journal is.
        served: What the worker serves.
        cache: The worker's cached runs.
        ready_queue: Where starts wait for their turn.
        decider: Makes what is committed.
        dispatcher: Takes slots back that were reserved for nothing.
        tasks: Carries on when a start is durable.
    """

    def __init__(
        self,
        runtime: Runtime,
        served: ServedWorkflows,
        cache: RunCache,
        ready_queue: ReadyQueue,
        decider: Decider,
        *,
        dispatcher: ActivityDispatcher,
        tasks: WorkflowTasks,
    ) -> None:
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._served = served
        self._cache = cache
        self._ready_queue = ready_queue
        self._decider = decider
        self._dispatcher = dispatcher
        self._tasks = tasks

    def start(self, change: StartRun, callback: StartCallback) -> None:
        """Queue a start; see :meth:`outlast.runtime.local_worker.LocalWorker.start`.

        Args:
            change: The start; its run is owned by this worker.
            callback: Receives the outcome, on the loop.
        """
        self._ready_queue.enqueue(partial(self._start, change, callback))

    def _start(self, change: StartRun, callback: StartCallback) -> None:
        run, signal = change.run, change.signal
        machine = self._served.machine(run)
        cached_run = CachedRun(run, machine, seen_seq=1 if signal is None else 2, open_ids=set())
        cached_run.pending.append(change.started)
        if signal is not None:
            cached_run.pending.append(signal)
        if change.update is not None:
            cached_run.updates = [change.update.acceptance]
            cached_run.seen_inbox = 1
        try:
            commands, own, seen_seq = cached_run.run_workflow_task(self._clock.now())
        except BaseException as error:
            machine.evict()
            if is_ctrl_c(error):
                raise
            logger.debug(
                "the first workflow task of %s failed; it is started without it",
                run.workflow_id,
                exc_info=True,
            )
            run.owner_id = None
            run.fence = 0
            self._runtime.journal.submit(change, callback)
            return
        self._tasks.count += 1
        change.fold(self._decider.decide(cached_run, commands, own, seen_seq))
        cached_run.change = change
        self._cache.runs[cached_run.run_id] = cached_run
        self._runtime.journal.submit(change, partial(self._started, cached_run, change, callback))

    def _started(
        self,
        cached_run: CachedRun,
        change: StartRun,
        callback: StartCallback,
        value: Started | None,
        error: BaseException | None,
    ) -> None:
        cached_run.change = None
        eager = change.workflow_task.eager if change.workflow_task is not None else {}
        if value is None or value.applied is None:
            self._dispatcher.release_slots(len(eager))
            self._cache.discard(cached_run)
        else:
            self._tasks.carry_on(cached_run, value.applied, eager)
        if error is not None and self._can_start_alone(change, error):
            logger.debug(
                "the first workflow task of %s cannot be written; it is started without it: %s",
                change.run.workflow_id,
                error,
            )
            self._start_alone(change, callback)
            return
        callback(value, error)

    @staticmethod
    def _can_start_alone(change: StartRun, error: BaseException) -> bool:
        """Return whether it is the first workflow task that cannot be written, rather than the start."""
        # A run that is started eagerly has no queue of its own: it is an activity's that nobody has defined.
        if lasts(error) or isinstance(error, QueueNotFoundError):
            return True
        # The limit may be that of its streams.
        written = change.workflow_task is not None and change.workflow_task.streams
        return bool(written) and isinstance(error, StructuralLimitError)

    def _start_alone(self, change: StartRun, callback: StartCallback) -> None:
        """Start a workflow without its first workflow task, which any worker may then claim."""
        change.run.owner_id = None
        change.run.fence = 0
        again = StartRun(
            change.run, change.started, change.policy, signal=change.signal, update=change.update
        )
        again.limits = change.limits
        self._runtime.journal.submit(again, callback)
