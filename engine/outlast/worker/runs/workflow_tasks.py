"""The workflow tasks of one worker: when a run gets one, how it is committed, and what follows from its outcome.

Workflow tasks run in callbacks of the event loop, never inside an asyncio task, so they cost no thread switch and no
task of their own. One run has at most one workflow task in flight. What it decided takes effect, and the run's next one
starts, only when its commit is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.loader import RELOAD_AFTER_S, Result
from outlast.worker.runs.locked_close import LockedCloser
from outlast.worker.runs.query_answers import QueryAnswers
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast.worker.runs.task_builder import Decider
from outlast.worker.runs.task_failures import TaskFailures
from outlast_activities.task import ActivityTask
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import Applied
from outlast_store.database.driver_errors import lasts
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import (
    JournalClosedError,
    QueueNotFoundError,
    RefusedError,
    StreamClosedError,
    StructuralLimitError,
)
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.run.handler_tasks import SpoiledMachine

logger = logging.getLogger("outlast.worker")


class WorkflowTasks:
    """Runs the workflow tasks of cached runs and commits them.

    Args:
        runtime: Where the journal is.
        served: What the worker serves.
        cache: The worker's cached runs.
        ready_queue: Where workflow tasks wait for their turn.
        decider: Makes what is committed.
        dispatcher: Starts activities.
        failures: Records workflow tasks that fail.
        query_answers: Answers queries that wait for a workflow task.
        load: Loads a run by its id, if the worker still owns it.
        catch_up: Reads what others wrote to a run; called with ``queued`` set, which it clears when it is done.
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
        failures: TaskFailures,
        query_answers: QueryAnswers,
        load: Callable[[str], None],
        catch_up: Callable[[CachedRun], None],
    ) -> None:
        self.count = 0
        """How many workflow tasks this worker has run."""
        self._runtime = runtime
        self._clock = runtime.environment.clock
        self._served = served
        self._settings = served.settings
        self._cache = cache
        self._ready_queue = ready_queue
        self._decider = decider
        self._dispatcher = dispatcher
        self._failures = failures
        self._query_answers = query_answers
        self._load = load
        self._catch_up = catch_up
        self._locked_closer = LockedCloser(runtime, served, decider, load)

    # --- running ----------------------------------------------------------------------------------------------------

    def wake(self, cached_run: CachedRun) -> None:
        """Queue a workflow task for a run, if there is work for one."""
        if (
            cached_run.queued
            or cached_run.change is not None
            or not cached_run.has_work
            or self._served.stopping
        ):
            return
        cached_run.queued = True
        self._ready_queue.enqueue(partial(self.run, cached_run))

    def run(self, cached_run: CachedRun) -> None:
        """Give a run the workflow task that it was queued for, unless something else has to come first."""
        cached_run.queued = False
        if (
            self._cache.runs.get(cached_run.run_id) is not cached_run
            or cached_run.change is not None
            or self._served.stopping
        ):
            return
        run, now = cached_run.run, self._clock.now()
        if run.next_deadline_at is not None and now >= run.next_deadline_at:
            self._enforce_deadline(cached_run)
        elif run.not_before > now:
            self._ready_queue.call_at(run.not_before, partial(self.wake, cached_run))
        elif cached_run.gap or run.inbox != cached_run.seen_inbox:
            # One read at a time: the first may lead to a workflow task, and what a second one read would then be old.
            cached_run.queued = True
            self._catch_up(cached_run)
        else:
            self._run_code(cached_run, now)

    def _run_code(self, cached_run: CachedRun, now: int) -> None:
        self.count += 1
        run, near = cached_run.run, self._settings.limits.near
        try:
            if run.last_seq >= near["history_events"] or run.history_bytes >= near["history_bytes"]:
                self._failures.check_history(cached_run)
            commands, own, seen_seq = cached_run.run_workflow_task(now)
            decided = self._decider.decide(cached_run, commands, own, seen_seq)
            change = CommitWorkflowTask(run, decided)
        except StructuralLimitError as error:
            change = self._failures.limit_passed(cached_run, error)
        except SpoiledMachine as spoiled:
            # The update is rejected on its own; everything else comes back by replay.
            self._cache.discard(cached_run)
            change = self._failures.rejection(cached_run, spoiled.update_id, spoiled.failure)
            self._runtime.journal.submit(change, partial(self._rejected, cached_run.run_id))
            return
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            self._cache.discard(cached_run)
            self.failed(cached_run.run, error, cached_run.seen_seq)
            return
        # As :meth:`submit`, without the call.
        cached_run.change = change
        self._runtime.journal.submit(change, partial(self._settled, cached_run, change))

    def failed(self, run: RunRow, error: BaseException, seen_seq: int) -> None:
        """Record a workflow task that raised, and retry it later; or fail the run, if the exception is one that does.

        Args:
            run: The run, which is not in memory any more.
            error: What its code, or the engine around it, raised.
            seen_seq: The last event that was known.
        """
        if self._served.fails_run(run.workflow_type, error):
            change = self._failures.run_failure(run, error, seen_seq)
            self._runtime.journal.submit(change, partial(self._ended, run))
        else:
            self._failures.record(run, error)

    def _ended(self, run: RunRow, applied: Applied | None, error: BaseException | None) -> None:
        """The failure of a run is durable, or was refused."""
        if applied is None:
            self._not_committed(run, error)
        else:
            self._locked_closer.forget(run.run_id)

    def submit(self, cached_run: CachedRun, change: CommitWorkflowTask) -> None:
        """Commit a workflow task; until its outcome is known the run gets no other."""
        cached_run.change = change
        self._runtime.journal.submit(change, partial(self._settled, cached_run, change))

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def _settled(
        self,
        cached_run: CachedRun,
        change: CommitWorkflowTask,
        applied: Applied | None,
        error: BaseException | None,
    ) -> None:
        """The workflow task is durable, or was refused."""
        cached_run.change = None
        own, cached_run.own_in_flight = cached_run.own_in_flight, []
        if applied is None:
            self._dispatcher.release_slots(len(change.workflow_task.eager))
            self._refused(cached_run, own, error)
            return
        self.carry_on(cached_run, applied, change.workflow_task.eager)

    def carry_on(self, cached_run: CachedRun, applied: Applied, eager: Mapping[int, ActivityOptions]) -> None:
        """Start what a durable workflow task decided, and wake or trim.

        Args:
            cached_run: The run.
            applied: The outcome of the commit.
            eager: The activities whose slots were reserved, by command id.
        """
        run = cached_run.run
        if len(eager) > len(applied.claimed):
            self._dispatcher.release_slots(len(eager) - len(applied.claimed))
        for row, event in applied.claimed:
            self._dispatcher.start(
                ActivityTask(
                    row,
                    event.input,
                    run.workflow_id,
                    run.workflow_type,
                    run.fence,
                    event.headers,
                    run.first_run_id,
                )
            )
        if self._locked_closer.refusals:
            self._locked_closer.forget(cached_run.run_id)
        if cached_run.queries:
            self._query_answers.settle(cached_run)
        if run.closed_at is not None or run.owner_id != self._settings.worker_id:
            self._cache.discard(cached_run)
            return
        self._cache.runs.move_to_end(cached_run.run_id)
        if cached_run.has_work:
            self.wake(cached_run)
        elif len(self._cache.runs) > self._cache.capacity:
            self._cache.trim()

    def _refused(self, cached_run: CachedRun, own: list[Result], error: BaseException | None) -> None:
        """Discard what is in memory: results are committed alone, and the run comes back by replay if it is ours."""
        self._cache.discard(cached_run, own)
        if isinstance(error, StreamClosedError | StructuralLimitError):
            # What was written to streams could only be refused under their locks. It fails the run like any limit.
            change = self._failures.stream_refused(cached_run.run, error, cached_run.seen_seq)
            self._runtime.journal.submit(change, partial(self._ended, cached_run.run))
        else:
            self._not_committed(cached_run.run, error)

    def _not_committed(self, run: RunRow, error: BaseException | None) -> None:
        if isinstance(error, RefusedError):
            logger.debug("a workflow task of run %s was refused: %s", run.run_id, error.reason)
            if error.reason == "unseen" and self._locked_closer.is_due(run.run_id):
                self.count += 1
                self._locked_closer.close(run)
            elif error.reason not in ("fenced", "unknown_run"):
                self._load(run.run_id)
        elif error is not None and (lasts(error) or isinstance(error, QueueNotFoundError)):
            # Somebody must mend it, so it counts as a failed task and shows in the run's description.
            self._failures.record(run, error)
        elif not isinstance(error, JournalClosedError):
            logger.warning("a workflow task of run %s could not be committed: %s", run.run_id, error)
            self._runtime.loop.call_later(RELOAD_AFTER_S, self._load, run.run_id)

    def _rejected(self, run_id: str, value: object, error: BaseException | None) -> None:
        """The rejection of an update has an outcome: the run comes back either way."""
        if not isinstance(error, JournalClosedError):
            self._load(run_id)

    def _enforce_deadline(self, cached_run: CachedRun) -> None:
        """Close a run whose deadline has passed; its code runs no more."""
        self._cache.discard(cached_run)
        change = EnforceRunDeadline(cached_run.run_id, cached_run.run.workflow_id)
        self._runtime.journal.submit(change, partial(self._enforced, cached_run.run_id))

    def _enforced(self, run_id: str, value: object, error: BaseException | None) -> None:
        if value is None and not isinstance(error, JournalClosedError):
            self._load(run_id)
