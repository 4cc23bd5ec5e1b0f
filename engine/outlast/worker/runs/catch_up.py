"""Catching up: reading what other processes wrote to a cached run.

A cached run knows the events that this process wrote. If another process appends an event, or leaves an update in the
run's inbox, the worker reads the missing events and the waiting updates before the next workflow task.
"""

from __future__ import annotations

from collections.abc import Callable

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cache import RunCache
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.loader import RELOAD_AFTER_S
from outlast.worker.runs.query_answers import QueryAnswers
from outlast.worker.runs.task_failures import TaskFailures
from outlast.worker.runs.workflow_tasks import WorkflowTasks
from outlast.worker.settings import WorkerSettings
from outlast_runs.updates import acceptance
from outlast_store.reads.histories import read_history
from outlast_store.reads.requests import find_waiting_updates
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.errors import DamagedHistoryError, StoreError
from outlast_workflow.history.events import stored_event


class CatchUp:
    """Brings the cached runs of one worker up to date.

    Args:
        runtime: Where to read.
        settings: The worker's settings.
        cache: The worker's cached runs.
        tasks: Runs the workflow task that follows.
        query_answers: Answers queries that waited for a workflow task which turns out not to come.
        failures: Makes the change that clears a run's inbox, and records that what was read is damaged.
        load: Loads a run by its id, if the worker still owns it.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        cache: RunCache,
        tasks: WorkflowTasks,
        *,
        query_answers: QueryAnswers,
        failures: TaskFailures,
        load: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._cache = cache
        self._tasks = tasks
        self._query_answers = query_answers
        self._failures = failures
        self._load = load

    async def run(self, cached_run: CachedRun) -> None:
        """Read a run's new events and waiting updates; then wake it, or discard it if it is no longer ours."""
        read, run_id = self._runtime.read, cached_run.run_id
        try:
            run = await read(find_run, run_id)
            rows = await read(read_history, run_id, cached_run.seen_seq) if cached_run.gap else []
            unread = run is not None and run.inbox != cached_run.seen_inbox
            waiting = await read(find_waiting_updates, run_id) if unread else None
        except StoreError:
            self._runtime.loop.call_later(RELOAD_AFTER_S, self._tasks.wake, cached_run)
            return
        finally:
            cached_run.queued = False
        if self._cache.runs.get(run_id) is not cached_run or cached_run.change is not None:
            return
        if run is None or not self._is_ours(run, cached_run):
            self._cache.discard(cached_run)
            return
        try:
            events = [(seq, stored_event(run_id, seq, kind, payload)) for seq, kind, payload in rows]
            updates = [acceptance(row) for row in waiting] if waiting is not None else None
        except DamagedHistoryError as error:
            # The run is loaded again later, in case somebody has restored what is damaged.
            self._cache.discard(cached_run)
            self._failures.record(run, error)
            return
        self._update_row(run, cached_run)
        cached_run.seen_inbox = run.inbox
        if updates is not None:
            cached_run.updates = updates
        if not cached_run.fill_gap(events):
            # Another owner has run a workflow task of it meanwhile.
            self._cache.discard(cached_run)
            self._load(run_id)
            return
        self._continue(cached_run)

    def _is_ours(self, run: RunRow, cached_run: CachedRun) -> bool:
        return run.is_open and run.owner_id == self._settings.worker_id and run.fence == cached_run.run.fence

    def _update_row(self, run: RunRow, cached_run: CachedRun) -> None:
        if run.last_seq >= cached_run.run.last_seq:
            cached_run.run = run
        cache = self._runtime.journal.cache
        remembered = cache.runs.get(run.run_id)
        if remembered is not None and remembered.is_behind(run):
            # A change that trusts the remembered row would be refused.
            cache.forget((run.run_id,), ())

    def _continue(self, cached_run: CachedRun) -> None:
        """Wake a run for what was read, or settle what waited for a workflow task that is not needed."""
        if cached_run.has_work:
            self._tasks.wake(cached_run)
        elif cached_run.queries:
            self._query_answers.settle(cached_run)
        if not cached_run.has_work and cached_run.run.wake_at is not None:
            # It was woken for requests that are answered already: only its row has to say so.
            self._tasks.submit(cached_run, self._failures.rejection(cached_run))
