"""The runs of one worker: which are in memory, which are due for a workflow task, and how they come and go.

Workflow tasks run in loop callbacks, never inside a task: no thread hop, no asyncio task for them. A turn of the pump
does workflow tasks for a few milliseconds and then lets the loop go round, so that commits, handlers and other code get
theirs.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from outlast.runtime.local_worker import StartCallback
from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.claimer import RunClaimer
from outlast.worker.runs.late_results import Results
from outlast.worker.runs.loader import RELOAD_AFTER, Load, Result, RunLoader
from outlast.worker.runs.locked_close import Closing
from outlast.worker.runs.query_answers import Queries
from outlast.worker.runs.ready_queue import ReadyQueue
from outlast.worker.runs.task_failures import TaskFailures
from outlast.worker.settings import WorkerSettings
from outlast_activities.task import ActivityTask
from outlast_runs.claims import ReleaseRuns
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_runs.start import Started, StartRun
from outlast_runs.updates import acceptance
from outlast_runs.workflow_task import Applied, CommitWorkflowTask, OwnResult, WorkflowTask
from outlast_store.database.driver_errors import lasts
from outlast_store.journal.batch import Committed
from outlast_store.reads.histories import read_history
from outlast_store.reads.requests import waiting_updates
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.children import NewChild, new_child
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import (
    JournalClosedError,
    MissingCodeError,
    RefusedError,
    StoreError,
    StructuralLimitError,
)
from outlast_workflow.history.events import (
    ActivityScheduled,
    ChildWorkflowScheduled,
    Event,
    WorkflowContinuedAsNew,
    from_json,
)
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.handler_tasks import SpoiledMachine
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

logger = logging.getLogger("outlast.worker")

MOST_LOOKS = 16


class RunOwner:
    """Keeps, activates, loads and evicts the runs of one worker."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        workflows: Mapping[str, WorkflowDefinition],
        dispatcher: ActivityDispatcher,
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.workflows = workflows
        self.types = frozenset(workflows)
        self.queues = frozenset(settings.task_queues)
        self.cached_runs: OrderedDict[str, CachedRun] = OrderedDict()
        self.workflow_tasks = 0
        self._dispatcher = dispatcher
        self._clock = runtime.environment.clock
        self._ready_queue = ReadyQueue(runtime.loop, self._clock)
        self._results = Results(runtime)
        self._failures = TaskFailures(runtime, settings, self._load_at)
        self._loader = RunLoader(runtime, self._loaded, self._results.commit)
        self._closing = Closing(runtime, self._machine, partial(self._decide, here=False), self.load)
        self.queries = Queries(runtime, settings, self.cached_runs.get, self._machine, self._discard)
        self.answer_query = self.queries.answer
        self.run_claimer = RunClaimer(runtime, settings, self.types, dispatcher, self._loader)
        self._stopping = False

    @property
    def worker_id(self) -> str:
        """The worker that owns these runs."""
        return self.settings.worker_id

    def serves(self, workflow_type: str, task_queue: str) -> bool:
        """Whether this worker runs a type on a queue, now."""
        return not self._stopping and workflow_type in self.workflows and task_queue in self.queues

    # --- news -------------------------------------------------------------------------------------------------------

    def on_commit(self, committed: Committed) -> None:
        """A batch of this process is durable."""
        worker_id, cached_runs = self.settings.worker_id, self.cached_runs
        reading = self._loader.under_way
        for run_id, run in committed.runs.items():
            if reading and run_id in reading:  # it may have come into memory meanwhile, and leave it again
                reading[run_id].stale = True
            cached_run = cached_runs.get(run_id)
            if cached_run is not None:
                known = cached_run.hear(run, committed.events.get(run_id, ()))
                if cached_run.change is None:
                    self._after_news(cached_run, known)
                continue
            if run.closed_at is None and run.wake_at is not None:
                if run.owner_id == worker_id:
                    events = committed.events.get(run_id, ())
                    if events and events[0][0] == 1 and not committed.late:
                        self._adopt(run, events)
                    else:
                        self.load(run_id, at=max(run.wake_at, run.not_before))
                elif run.owner_id is None and self.serves(run.workflow_type, run.task_queue):
                    self._later(max(run.wake_at, run.not_before), self.run_claimer.claim)

    def _after_news(self, cached_run: CachedRun, known: bool) -> None:
        """Something happened to a run that has no workflow task in flight."""
        run = cached_run.run
        if run.closed_at is not None or run.owner_id != self.worker_id:
            self._discard(cached_run)
        elif not known:
            self._discard(cached_run)
            self.load(run.run_id)
        else:
            self.wake(cached_run)

    def _adopt(self, run: RunRow, events: Sequence[tuple[int, Event, object]]) -> None:
        """A run that begins here, with its whole history at hand: the next of a chain."""
        if not self.serves(run.workflow_type, run.task_queue):
            self._let_go([run.run_id])
            return
        cached_run = CachedRun(run, self._machine(run), seen_seq=0, open_ids=set())
        self._keep(cached_run)
        cached_run.hear(run, events)
        self.wake(cached_run)

    def _later(self, at: int, action: Callable[[], None]) -> None:
        """Do it at an instant of the engine's clock; at once where that has passed."""
        wait = at - self._clock.now()
        if wait <= 0:
            action()
        else:
            self.runtime.loop.call_later(wait / 1_000_000, action)

    # --- activating -------------------------------------------------------------------------------------------------

    def wake(self, cached_run: CachedRun) -> None:
        """See to it that a run with work gets a workflow task."""
        if cached_run.queued or cached_run.change is not None or not cached_run.has_work or self._stopping:
            return
        cached_run.queued = True
        self._ready_queue.enqueue(partial(self._run_workflow_task, cached_run))

    def _run_workflow_task(self, cached_run: CachedRun) -> None:
        cached_run.queued = False
        if (
            self.cached_runs.get(cached_run.run_id) is not cached_run
            or cached_run.change is not None
            or self._stopping
        ):
            return
        run, now = cached_run.run, self._clock.now()
        if run.next_deadline_at is not None and now >= run.next_deadline_at:
            self._enforce(cached_run)
            return
        if run.not_before > now:
            self._later(run.not_before, partial(self.wake, cached_run))
            return
        if cached_run.gap or cached_run.asked:
            cached_run.queued = (
                True  # one at a time: what a second one read would be old once the first has led to anything
            )
            self.runtime.spawn(self._catch_up(cached_run), "outlast-gap")
            return
        self.workflow_tasks += 1
        try:
            self._failures.check_history(cached_run)
            change = self._change(cached_run, *cached_run.run_workflow_task(now))
        except StructuralLimitError as error:
            change = self._failures.limit_passed(cached_run, error)
        except SpoiledMachine as spoiled:  # its update is rejected, everything else comes back by replay
            self._discard(cached_run)
            change = self._failures.rejection(cached_run, spoiled.update_id, spoiled.failure)
            self.runtime.journal.submit(change, partial(self._reload, cached_run.run_id))
            return
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._discard(cached_run)
            self._failures.record(cached_run.run, error)
            return
        cached_run.change = change
        self.runtime.journal.submit(change, partial(self._settled, cached_run, change))

    def _change(
        self, cached_run: CachedRun, commands: list[Event], own: list[OwnResult], seen: int
    ) -> CommitWorkflowTask:
        return CommitWorkflowTask(cached_run.run, self._decide(cached_run, commands, own, seen))

    def _decide(
        self,
        cached_run: CachedRun,
        commands: list[Event],
        own: list[OwnResult],
        seen: int,
        *,
        here: bool = True,
    ) -> WorkflowTask:
        """The workflow task to be committed; what can start at once begins ``here`` when it is."""
        next_run_id = next_owner_id = None
        terminal = cached_run.machine.terminal
        if isinstance(terminal, WorkflowContinuedAsNew):
            next_run_id = self.runtime.environment.ids.next()
            queue = terminal.task_queue or cached_run.run.task_queue
            next_owner_id = self.worker_id if self.serves(terminal.workflow_type, queue) else None
        return cached_run.decide(
            commands,
            own,
            seen,
            worker_id=self.settings.worker_id,
            build_id=self.settings.build_id,
            eager=self._eager(commands) if here else {},
            next_run_id=next_run_id,
            next_owner_id=next_owner_id,
            children=self._children(cached_run, commands),
        )

    def _children(self, cached_run: CachedRun, commands: list[Event]) -> dict[int, NewChild]:
        """The children that begin with this workflow task: owned here from the first write, if they are served here."""
        children: dict[int, NewChild] = {}
        for command in commands:
            if type(command) is ChildWorkflowScheduled:
                owner_id = self.worker_id if self.serves(command.workflow_type, command.task_queue) else None
                awaited = cached_run.machine.children.awaits_start(command.command_id)
                run_id = self.runtime.environment.ids.next()
                children[command.command_id] = new_child(command, run_id, owner_id, awaited=awaited)
        return children

    def _eager(self, commands: list[Event]) -> dict[int, ActivityOptions]:
        """The activities that start here: their queue is served, their type known, and a slot is free."""
        eager: dict[int, ActivityOptions] = {}
        if commands and commands[-1].terminal:
            return eager
        for command in commands:
            if type(command) is ActivityScheduled and self._dispatcher.take_for(command):
                eager[command.command_id] = ActivityOptions.from_snapshot(command.options.json)
        return eager

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
            self._dispatcher.give_back(len(change.workflow_task.eager))
            self._refused(cached_run, own, error)
            return
        self._carry_on(cached_run, applied, change.workflow_task.eager)

    def _carry_on(
        self, cached_run: CachedRun, applied: Applied, eager: Mapping[int, ActivityOptions]
    ) -> None:
        """What a durable workflow task sets going."""
        run = cached_run.run
        self._dispatcher.give_back(len(eager) - len(applied.claimed))
        for row, event in applied.claimed:
            self._dispatcher.start_eager(row, event, run)
        self._closing.forget(cached_run.run_id)
        if cached_run.questions:
            self.queries.settle(cached_run)
        if run.closed_at is not None or run.owner_id != self.worker_id:
            self._discard(cached_run)
            return
        self.cached_runs.move_to_end(cached_run.run_id)
        if cached_run.has_work:
            self.wake(cached_run)
        else:
            self._trim()

    def _refused(self, cached_run: CachedRun, own: list[Result], error: BaseException | None) -> None:
        """What is in memory is void: results are committed alone, and the run comes back by replay if it is ours."""
        self._discard(cached_run, own)
        if isinstance(error, RefusedError):
            logger.debug("a workflow task of run %s was refused: %s", cached_run.run_id, error.reason)
            if error.reason == "unseen" and self._closing.enough(cached_run.run_id):
                self.workflow_tasks += 1
                self._closing.end(cached_run.run)
            elif error.reason not in ("fenced", "unknown_run"):
                self.load(cached_run.run_id)
        elif error is not None and lasts(error):
            self._failures.record(cached_run.run, error)  # nothing that time mends: it counts, and shows
        elif not isinstance(error, JournalClosedError):
            logger.warning("a workflow task of run %s could not be committed: %s", cached_run.run_id, error)
            self.runtime.loop.call_later(RELOAD_AFTER, self.load, cached_run.run_id)

    # --- what goes wrong --------------------------------------------------------------------------------------------

    def _enforce(self, cached_run: CachedRun) -> None:
        """The run's deadline has passed: no code of it runs any more."""
        self._discard(cached_run)
        change = EnforceRunDeadline(cached_run.run_id, cached_run.run.workflow_id)
        self.runtime.journal.submit(change, partial(self._enforced, cached_run.run_id))

    def _enforced(self, run_id: str, value: Any, error: BaseException | None) -> None:
        if value is None and not isinstance(error, JournalClosedError):
            self.load(run_id)

    def _reload(self, run_id: str, value: Any, error: BaseException | None) -> None:
        if not isinstance(error, JournalClosedError):
            self.load(run_id)

    async def _catch_up(self, cached_run: CachedRun) -> None:
        """Others have written to the run, or asked something of it: read what, up to what it holds now."""
        read = self.runtime.read
        try:
            run = await read(find_run, cached_run.run_id)
            rows = await read(read_history, cached_run.run_id, cached_run.seen_seq) if cached_run.gap else []
            asked = run is not None and run.inbox != cached_run.seen_inbox
            waiting = await read(waiting_updates, cached_run.run_id) if asked else None
        except StoreError:
            self.runtime.loop.call_later(RELOAD_AFTER, self.wake, cached_run)
            return
        finally:
            cached_run.queued = False
        if self.cached_runs.get(cached_run.run_id) is not cached_run or cached_run.change is not None:
            return
        if (
            run is None
            or not run.is_open
            or run.owner_id != self.worker_id
            or run.fence != cached_run.run.fence
        ):
            self._discard(cached_run)
            return
        if run.last_seq >= cached_run.run.last_seq:
            cached_run.run = run
        cache = self.runtime.journal.cache
        remembered = cache.runs.get(run.run_id)
        if remembered is not None and remembered.is_behind(run):
            cache.forget((run.run_id,), ())  # a change of the row as it is remembered would be refused
        cached_run.seen_inbox = run.inbox
        if waiting is not None:
            cached_run.updates = [acceptance(row) for row in waiting]
        if not cached_run.fill([(seq, from_json(kind, payload)) for seq, kind, payload in rows]):
            self._discard(cached_run)  # another owner has activated it meanwhile
            self.load(cached_run.run_id)
            return
        if cached_run.has_work:
            self.wake(cached_run)
        elif cached_run.questions:  # which thought that a workflow task would come
            self.queries.settle(cached_run)
        if (
            not cached_run.has_work and cached_run.run.wake_at is not None
        ):  # woken for what was answered already
            cached_run.change = change = self._failures.rejection(cached_run)
            self.runtime.journal.submit(change, partial(self._settled, cached_run, change))

    # --- eager starts -----------------------------------------------------------------------------------------------

    def start(self, change: StartRun, callback: StartCallback) -> None:
        """Start a workflow and fold its first workflow task into the same change."""
        self._ready_queue.enqueue(partial(self._start, change, callback))

    def _start(self, change: StartRun, callback: StartCallback) -> None:
        run, signal = change.run, change.signal
        machine = self._machine(run)
        cached_run = CachedRun(run, machine, seen_seq=1 if signal is None else 2, open_ids=set())
        cached_run.pending.append(change.started)
        if signal is not None:
            cached_run.pending.append(signal)
        if change.update is not None:
            cached_run.updates = [change.update.acceptance]
            cached_run.seen_inbox = 1
        try:
            commands, own, seen = cached_run.run_workflow_task(self._clock.now())
        except BaseException as error:
            machine.evict()
            if isinstance(error, KeyboardInterrupt):
                raise
            logger.debug(
                "the first workflow task of %s failed; it is started alone", run.workflow_id, exc_info=True
            )
            run.owner_id = None
            run.fence = 0
            self.runtime.journal.submit(change, callback)
            return
        self.workflow_tasks += 1
        change.fold(self._decide(cached_run, commands, own, seen))
        cached_run.change = change
        self._keep(cached_run)
        self.runtime.journal.submit(change, partial(self._started, cached_run, change, callback))

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
            self._dispatcher.give_back(len(eager))
            self._discard(cached_run)
        else:
            self._carry_on(cached_run, value.applied, eager)
        if lasts(error):
            logger.debug("what %s did first can't be written; it is started alone", change.run.workflow_id)
            change.run.owner_id = None
            change.run.fence = 0
            again = StartRun(
                change.run, change.started, change.policy, signal=change.signal, update=change.update
            )
            again.limits = change.limits
            self.runtime.journal.submit(again, callback)
            return
        callback(value, error)

    # --- results ----------------------------------------------------------------------------------------------------

    def add_result(self, task: ActivityTask, payload: Payload) -> None:
        """An activity ended here: bundle its result with the decision it leads to, if the run is ours."""
        cached_run = self.cached_runs.get(task.run_id)
        if cached_run is not None and not self._stopping:
            cached_run.add_result(task, payload)
            self.wake(cached_run)
        elif task.owner_fence is not None and not self._stopping:
            self._loader.load(task.run_id, [(task, payload)])
        else:
            self._results.commit([(task, payload)])

    # --- coming and going -------------------------------------------------------------------------------------------

    def load(self, run_id: str, *, at: int = 0) -> None:
        """Bring a run into memory by replay, if it is ours."""
        if at > self._clock.now():
            self._later(at, partial(self.load, run_id))
        elif run_id not in self.cached_runs and not self._stopping:
            self._loader.load(run_id)

    def _load_at(self, run_id: str, at: int) -> None:
        self._later(at, partial(self.load, run_id))

    def look_again(self, run_id: str) -> None:
        """Somebody else woke a run of ours."""
        cached_run = self.cached_runs.get(run_id)
        if cached_run is None:
            self.load(run_id)
        elif cached_run.change is None and not cached_run.has_work:
            cached_run.gap = True
            self.wake(cached_run)

    def refresh_cached(self, run_id: str) -> None:
        """Read a run again if it is cached: another process may have closed it."""
        if run_id in self.cached_runs:
            self.look_again(run_id)

    def _loaded(self, load: Load) -> None:
        self._ready_queue.enqueue(partial(self._bring_back, load))

    def _bring_back(self, load: Load) -> None:
        fresh = self._loader.take(load)
        cached_run = self.cached_runs.get(load.run_id)
        if cached_run is None and not fresh and not self._stopping:
            self._loader.load(load.run_id, load.results)
            return
        if cached_run is None and load.found is not None and fresh:
            cached_run = self._replayed(*load.found)
        if cached_run is None:
            self._results.commit(load.results)
        else:
            for task, payload in load.results:
                cached_run.add_result(task, payload)
            if cached_run.has_work:
                self.wake(cached_run)
            else:
                self._trim()
        if load.run_id in self.run_claimer.arriving:  # after its workflow task, if it has one
            self._ready_queue.enqueue(partial(self.run_claimer.arrived, load.run_id))

    def _replayed(self, run: RunRow, rows: list[Any]) -> CachedRun | None:
        """The cached run of a run that is ours, from its history; ``None`` where it is not, or its code fails."""
        if not run.is_open or run.owner_id != self.worker_id or self._stopping:
            return None
        if run.workflow_type not in self.workflows:
            self._let_go([run.run_id])
            return None
        machine = self._machine(run)
        try:
            replayed = replay(machine, rows)
        except BaseException as error:
            machine.evict()
            if isinstance(error, KeyboardInterrupt):
                raise
            self._failures.record(run, error)
            return None
        cached_run = CachedRun(run, machine, seen_seq=replayed.last_seq, open_ids=replayed.open_ids)
        cached_run.pending = [event for _, event in replayed.unapplied]
        cached = self.runtime.journal.cache.runs
        known = cached.get(run.run_id)
        if known is not None and known.last_seq >= run.last_seq:
            cached_run.run = known  # this process has written to the run since it was read
        else:
            cached[run.run_id] = run
        cached_run.gap = cached_run.run.last_seq > replayed.last_seq
        self._keep(cached_run)
        return cached_run

    def _machine(self, run: RunRow) -> WorkflowMachine:
        settings = self.settings
        definition = self.workflows.get(run.workflow_type)
        if definition is None:
            raise MissingCodeError(f"workflow {run.workflow_type!r} is not registered with this worker")
        return WorkflowMachine(
            definition,
            run.run_id,
            converter=settings.converter,
            limits=settings.limits,
            default_activity_options=settings.default_activity_options,
            local_activities=self._dispatcher.types,
            task_failure_types=settings.workflow_task_failure_types,
            guarded=settings.runtime_guard,
        )

    def _keep(self, cached_run: CachedRun) -> None:
        self.cached_runs[cached_run.run_id] = cached_run

    def _discard(self, cached_run: CachedRun, own: list[Result] | None = None) -> None:
        """Take a run out of memory; results that wait in it are committed alone."""
        if self.cached_runs.get(cached_run.run_id) is cached_run:
            del self.cached_runs[cached_run.run_id]
        if cached_run.questions:
            self.queries.give_up(cached_run)
        cached_run.machine.evict()
        self.runtime.journal.cache.forget((cached_run.run_id,), ())
        results = (own or []) + cached_run.own_tasks
        cached_run.own_tasks = []
        cached_run.own = []
        if results and cached_run.run.closed_at is None:
            self._results.commit(results)

    def _trim(self) -> None:
        """Evict idle runs, the longest unused first, until the cache is no larger than it may be."""
        cached_runs = self.cached_runs
        for _ in range(min(len(cached_runs), MOST_LOOKS)):
            if len(cached_runs) <= self.settings.max_cached_workflows:
                return
            run_id, cached_run = next(iter(cached_runs.items()))
            if cached_run.idle:
                self._discard(cached_run)
            else:
                cached_runs.move_to_end(run_id)

    def _let_go(self, run_ids: list[str]) -> None:
        with suppress(JournalClosedError):  # who stops lets go of everything that is its own
            self.runtime.journal.submit(ReleaseRuns(self.worker_id, run_ids), lambda value, error: None)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Activate nothing more."""
        self._stopping = True
        self.run_claimer.stop()
        self._loader.stop()

    def drop_all(self) -> None:
        """Forget everything that is in memory; what is in flight ends as it ends."""
        for cached_run in list(self.cached_runs.values()):
            if cached_run.change is None:
                self._discard(cached_run)
