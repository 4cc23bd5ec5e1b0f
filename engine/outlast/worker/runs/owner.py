"""The owner of runs: everything of one worker that concerns the runs it owns.

It composes the parts and passes on what happens outside them: what this process commits, what a notifier announces, and
the results of activities that ran here.

==========================================  ============================================================
part                                        job
==========================================  ============================================================
:mod:`~outlast.worker.runs.cache`           keeps runs in memory, evicts idle ones
:mod:`~outlast.worker.runs.workflow_tasks`  runs workflow tasks, commits them, handles the outcome
:mod:`~outlast.worker.runs.eager_start`     starts a workflow with its first workflow task
:mod:`~outlast.worker.runs.catch_up`        reads what others wrote to a cached run
:mod:`~outlast.worker.runs.restorer`        loads runs and replays them
:mod:`~outlast.worker.runs.claimer`         claims runs without an owner, steals neglected ones
:mod:`~outlast.worker.runs.admitter`        admits runs, and activities, from queues
:mod:`~outlast.worker.runs.query_answers`   answers queries
==========================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.admitter import Admitter
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.catch_up import CatchUp
from outlast.worker.runs.claimer import RunClaimer
from outlast.worker.runs.eager_start import EagerStarts
from outlast.worker.runs.late_results import LateResults
from outlast.worker.runs.query_answers import QueryAnswers
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.runs.restorer import RunRestorer
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.runs.task_builder import Decider
from outlast.worker.runs.task_failures import TaskFailures
from outlast.worker.runs.workflow_tasks import WorkflowTasks
from outlast.worker.settings import WorkerSettings
from outlast_activities.task import ActivityTask
from outlast_store.journal.batch import Committed
from outlast_store.schema.rows import RunRow
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.primitives.payloads import Payload


class RunOwner:
    """The runs of one worker; implements :class:`~outlast.runtime.local_worker.LocalWorker`.

    Args:
        runtime: The runtime that the worker shares with its client.
        settings: The worker's settings.
        workflows: The workflow definitions, by type.
        dispatcher: Runs the worker's activities.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        workflows: Mapping[str, WorkflowDefinition],
        dispatcher: ActivityDispatcher,
    ) -> None:
        self.settings = settings
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._served = served = ServedWorkflows(settings, workflows, dispatcher.types)
        self.ready_queue = ReadyQueue(runtime.loop, self._clock)
        self._late_results = LateResults(runtime)
        self.cache = RunCache(runtime, settings.max_cached_workflows, self._late_results)
        self.query_answers = QueryAnswers(runtime, served, self.cache)
        failures = TaskFailures(runtime, settings, self._load_at)
        decider = Decider(runtime, served, dispatcher)
        shared = (runtime, served, self.cache, self.ready_queue)
        self.tasks = WorkflowTasks(
            *shared,
            decider,
            dispatcher=dispatcher,
            failures=failures,
            query_answers=self.query_answers,
            load=self.load,
            catch_up=self._read_unread,
        )
        self._catch_up = CatchUp(
            runtime,
            settings,
            self.cache,
            self.tasks,
            query_answers=self.query_answers,
            failures=failures,
            load=self.load,
        )
        self._restorer = RunRestorer(
            *shared,
            self.tasks,
            late_results=self._late_results,
            restored=self._restored,
        )
        self.run_claimer = RunClaimer(runtime, settings, served.types, dispatcher, self._restorer.loader)
        self.admitter = Admitter(
            runtime,
            settings,
            served.types,
            dispatcher,
            self.run_claimer,
            self._restorer.loader,
            self.ready_queue,
        )
        self.worker_id = settings.worker_id
        self.types = served.types
        # Bound once: these calls are passed on without another one.
        self.serves = served.serves
        self.start = EagerStarts(*shared, decider, dispatcher=dispatcher, tasks=self.tasks).start
        self.answer_query = self.query_answers.answer

    # --- what happens to runs ---------------------------------------------------------------------------------------

    def on_commit(self, committed: Committed) -> None:
        """Take in what this process has committed about runs of this worker, and about runs that nobody owns."""
        worker_id, cached_runs = self.settings.worker_id, self.cache.runs
        for queue in committed.queues:
            self.admitter.news(queue)
        loading = self._restorer.loader.under_way
        for run_id, run in committed.runs.items():
            if run.queue is not None:
                self.admitter.on_commit(run)
            if loading and run_id in loading:
                # The run may have been cached and evicted again meanwhile, so this is noted in any case.
                loading[run_id].stale = True
            cached_run = cached_runs.get(run_id)
            if cached_run is not None:
                updates = committed.updates.get(run_id, ())
                valid = cached_run.receive(run, committed.events.get(run_id, ()), updates)
                if cached_run.change is None:
                    self._received(cached_run, valid)
            elif run.closed_at is None and run.wake_at is not None:
                if run.owner_id == worker_id:
                    self._committed_uncached(run, committed)
                elif (
                    run.owner_id is None
                    and run.slot_queue is None
                    and self.serves(run.workflow_type, run.task_queue)
                ):
                    self.ready_queue.call_at(max(run.wake_at, run.not_before), self.run_claimer.claim)

    def _received(self, cached_run: CachedRun, valid: bool) -> None:
        """React to what was committed about a run that has no workflow task in flight."""
        run = cached_run.run
        if run.closed_at is not None or run.owner_id != self.settings.worker_id:
            self.cache.discard(cached_run)
        elif not valid:
            self.cache.discard(cached_run)
            self.load(run.run_id)
        else:
            self.tasks.wake(cached_run)

    def _committed_uncached(self, run: RunRow, committed: Committed) -> None:
        """Cache a run of ours that is awake: at once if it has just started, else by replay when it is due."""
        events = committed.events.get(run.run_id, ())
        if events and events[0][0] == 1 and not committed.late:
            cached_run = self._restorer.adopt(run)
            if cached_run is not None:
                cached_run.receive(run, events)
                self.tasks.wake(cached_run)
        else:
            self.load(run.run_id, at=max(run.wake_at or 0, run.not_before))

    def add_result(self, task: ActivityTask, payload: Payload) -> None:
        """Take the result of an activity that ran here, to be committed with the workflow task that it leads to.

        Args:
            task: The attempt.
            payload: Its result.
        """
        cached_run = self.cache.runs.get(task.key[0])
        if cached_run is not None and not self._served.stopping:
            cached_run.add_result(task, payload)
            self.tasks.wake(cached_run)
        elif task.owner_fence is not None and not self._served.stopping:
            self._restorer.loader.load(task.run_id, [(task, payload)])
        else:
            self._late_results.commit([(task, payload)])

    def refresh(self, run_id: str) -> None:
        """Read a run that another process woke; load it if it is not cached."""
        cached_run = self.cache.runs.get(run_id)
        if cached_run is None:
            self.load(run_id)
        elif cached_run.change is None and not cached_run.has_work:
            cached_run.gap = True
            self.tasks.wake(cached_run)

    def refresh_cached(self, run_id: str) -> None:
        """Read a run again if it is cached: another process may have closed it."""
        if run_id in self.cache.runs:
            self.refresh(run_id)

    # --- loading ----------------------------------------------------------------------------------------------------

    def load(self, run_id: str, *, at: int = 0) -> None:
        """Load a run by replay, if it is ours and not cached.

        Args:
            run_id: The run.
            at: Not before this instant, in microseconds of the engine's clock.
        """
        self._restorer.load(run_id, at=at)

    def _load_at(self, run_id: str, at: int) -> None:
        self.ready_queue.call_at(at, partial(self.load, run_id))

    def _read_unread(self, cached_run: CachedRun) -> None:
        self._runtime.spawn(self._catch_up.run(cached_run), "outlast-catch-up")

    def _restored(self, run_id: str) -> None:
        if run_id in self.run_claimer.arriving:
            # Behind the run's workflow task in the queue, if it has one.
            self.ready_queue.enqueue(partial(self.run_claimer.arrived, run_id))

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Run no more workflow tasks, claim and load nothing."""
        self._served.stopping = True
        self.run_claimer.stop()
        self.admitter.stop()
        self._restorer.loader.stop()

    def drop_all(self) -> None:
        """Discard all cached runs; workflow tasks in flight are still committed."""
        self.cache.clear()
