"""The runs of one worker: which are in memory, which are due for an activation, and how they come and go.

Activations run in loop callbacks, never inside a task: no thread hop, no asyncio task for them. A turn of the pump does
activations for a few milliseconds and then lets the loop go round, so that commits, handlers and other code get theirs.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from outlast.runtime.runtime import Hub
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.cached_run import Actor
from outlast.worker.runs.claimer import RunTaker
from outlast.worker.runs.late_results import Results
from outlast.worker.runs.loader import RELOAD_AFTER, Load, Result, RunLoader
from outlast.worker.runs.locked_close import Closing
from outlast.worker.runs.query_answers import Queries
from outlast.worker.runs.ready_queue import Pump
from outlast.worker.runs.task_failures import TaskFailures
from outlast.worker.settings import WorkerSettings
from outlast_activities.task import ActivityTask
from outlast_runs.activation import Activate, Applied
from outlast_runs.claims import ReleaseRuns
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_runs.start import Started, StartRun
from outlast_runs.updates import acceptance
from outlast_store.database.driver_errors import lasts
from outlast_store.journal.batch import Committed
from outlast_store.reads import queries
from outlast_store.reads.requests import waiting_updates
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
        hub: Hub,
        settings: WorkerSettings,
        workflows: Mapping[str, WorkflowDefinition],
        dispatcher: ActivityDispatcher,
    ) -> None:
        self.hub = hub
        self.settings = settings
        self.workflows = workflows
        self.types = frozenset(workflows)
        self.queues = frozenset(settings.task_queues)
        self.actors: OrderedDict[str, Actor] = OrderedDict()
        self.activations = 0
        self._dispatcher = dispatcher
        self._clock = hub.environment.clock
        self._pump = Pump(hub.loop, self._clock)
        self._results = Results(hub)
        self._failures = TaskFailures(hub, settings, self._load_at)
        self._loader = RunLoader(hub, self._loaded, self._results.commit)
        self._closing = Closing(hub, self._machine, partial(self._decide, here=False), self.load)
        self.queries = Queries(hub, settings, self.actors.get, self._machine, self._discard)
        self.taker = RunTaker(hub, settings, self.types, dispatcher, self._loader)
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
        worker_id, actors = self.settings.worker_id, self.actors
        reading = self._loader.under_way
        for run_id, run in committed.runs.items():
            if reading and run_id in reading:  # it may have come into memory meanwhile, and leave it again
                reading[run_id].stale = True
            actor = actors.get(run_id)
            if actor is not None:
                known = actor.hear(run, committed.events.get(run_id, ()))
                if actor.change is None:
                    self._after_news(actor, known)
                continue
            if run.closed_at is None and run.wake_at is not None:
                if run.owner_id == worker_id:
                    events = committed.events.get(run_id, ())
                    if events and events[0][0] == 1 and not committed.late:
                        self._adopt(run, events)
                    else:
                        self.load(run_id, at=max(run.wake_at, run.not_before))
                elif run.owner_id is None and self.serves(run.workflow_type, run.task_queue):
                    self._later(max(run.wake_at, run.not_before), self.taker.claim)

    def _after_news(self, actor: Actor, known: bool) -> None:
        """Something happened to a run that has no activation in flight."""
        run = actor.run
        if run.closed_at is not None or run.owner_id != self.worker_id:
            self._discard(actor)
        elif not known:
            self._discard(actor)
            self.load(run.run_id)
        else:
            self.wake(actor)

    def _adopt(self, run: RunRow, events: Any) -> None:
        """A run that begins here, with its whole history at hand: the next of a chain."""
        if not self.serves(run.workflow_type, run.task_queue):
            self._let_go([run.run_id])
            return
        actor = Actor(run, self._machine(run), seen_seq=0, open_ids=set())
        self._keep(actor)
        actor.hear(run, events)
        self.wake(actor)

    def _later(self, at: int, action: Callable[[], None]) -> None:
        """Do it at an instant of the engine's clock; at once where that has passed."""
        wait = at - self._clock.now()
        if wait <= 0:
            action()
        else:
            self.hub.loop.call_later(wait / 1_000_000, action)

    # --- activating -------------------------------------------------------------------------------------------------

    def wake(self, actor: Actor) -> None:
        """See to it that a run with work is activated."""
        if actor.queued or actor.change is not None or not actor.has_work or self._stopping:
            return
        actor.queued = True
        self._pump.enqueue(partial(self._activate, actor))

    def _activate(self, actor: Actor) -> None:
        actor.queued = False
        if self.actors.get(actor.run_id) is not actor or actor.change is not None or self._stopping:
            return
        run, now = actor.run, self._clock.now()
        if run.next_deadline_at is not None and now >= run.next_deadline_at:
            self._enforce(actor)
            return
        if run.not_before > now:
            self._later(run.not_before, partial(self.wake, actor))
            return
        if actor.gap or actor.asked:
            actor.queued = (
                True  # one at a time: what a second one read would be old once the first has led to anything
            )
            self.hub.spawn(self._catch_up(actor), "outlast-gap")
            return
        self.activations += 1
        try:
            self._failures.check_history(actor)
            change = self._change(actor, *actor.activate(now))
        except StructuralLimitError as error:
            change = self._failures.limit_passed(actor, error)
        except SpoiledMachine as spoiled:  # its update is rejected, everything else comes back by replay
            self._discard(actor)
            change = self._failures.rejection(actor, spoiled.update_id, spoiled.failure)
            self.hub.journal.submit(change, partial(self._reload, actor.run_id))
            return
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._discard(actor)
            self._failures.record(actor.run, error)
            return
        actor.change = change
        self.hub.journal.submit(change, partial(self._settled, actor, change))

    def _change(self, actor: Actor, commands: list[Event], own: Any, seen: int) -> Activate:
        return Activate(actor.run, self._decide(actor, commands, own, seen))

    def _decide(self, actor: Actor, commands: list[Event], own: Any, seen: int, *, here: bool = True) -> Any:
        """The activation to be committed; what can start at once begins ``here`` when it is."""
        next_run_id = next_owner_id = None
        if actor.continues:
            terminal: Any = actor.machine.terminal
            next_run_id = self.hub.environment.ids.next()
            queue = terminal.task_queue or actor.run.task_queue
            next_owner_id = self.worker_id if self.serves(terminal.workflow_type, queue) else None
        return actor.decide(
            commands,
            own,
            seen,
            worker_id=self.settings.worker_id,
            build_id=self.settings.build_id,
            eager=self._eager(commands) if here else {},
            next_run_id=next_run_id,
            next_owner_id=next_owner_id,
            children=self._children(actor, commands),
        )

    def _children(self, actor: Actor, commands: list[Event]) -> dict[int, NewChild]:
        """The children that begin with this activation: owned here from the first write, if they are served here."""
        children: dict[int, NewChild] = {}
        for command in commands:
            if type(command) is ChildWorkflowScheduled:
                owner_id = self.worker_id if self.serves(command.workflow_type, command.task_queue) else None
                awaited = actor.machine.children.awaits_start(command.command_id)
                run_id = self.hub.environment.ids.next()
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
        self, actor: Actor, change: Activate, applied: Applied | None, error: BaseException | None
    ) -> None:
        """The activation is durable, or was refused."""
        actor.change = None
        own, actor.own_in_flight = actor.own_in_flight, []
        if applied is None:
            self._dispatcher.give_back(len(change.activation.eager))
            self._refused(actor, own, error)
            return
        self._carry_on(actor, applied, change.activation.eager)

    def _carry_on(self, actor: Actor, applied: Applied, eager: Mapping[int, ActivityOptions]) -> None:
        """What a durable activation sets going."""
        run = actor.run
        self._dispatcher.give_back(len(eager) - len(applied.claimed))
        for row, event in applied.claimed:
            self._dispatcher.start_eager(row, event, run)
        self._closing.forget(actor.run_id)
        if actor.questions:
            self.queries.settle(actor)
        if run.closed_at is not None or run.owner_id != self.worker_id:
            self._discard(actor)
            return
        self.actors.move_to_end(actor.run_id)
        if actor.has_work:
            self.wake(actor)
        else:
            self._trim()

    def _refused(self, actor: Actor, own: list[Result], error: BaseException | None) -> None:
        """What is in memory is void: results are committed alone, and the run comes back by replay if it is ours."""
        self._discard(actor, own)
        if isinstance(error, RefusedError):
            logger.debug("an activation of run %s was refused: %s", actor.run_id, error.reason)
            if error.reason == "unseen" and self._closing.enough(actor.run_id):
                self.activations += 1
                self._closing.end(actor.run)
            elif error.reason not in ("fenced", "unknown_run"):
                self.load(actor.run_id)
        elif error is not None and lasts(error):
            self._failures.record(actor.run, error)  # nothing that time mends: it counts, and shows
        elif not isinstance(error, JournalClosedError):
            logger.warning("an activation of run %s could not be committed: %s", actor.run_id, error)
            self.hub.loop.call_later(RELOAD_AFTER, self.load, actor.run_id)

    # --- what goes wrong --------------------------------------------------------------------------------------------

    def _enforce(self, actor: Actor) -> None:
        """The run's deadline has passed: no code of it runs any more."""
        self._discard(actor)
        change = EnforceRunDeadline(actor.run_id, actor.run.workflow_id)
        self.hub.journal.submit(change, partial(self._enforced, actor.run_id))

    def _enforced(self, run_id: str, value: Any, error: BaseException | None) -> None:
        if value is None and not isinstance(error, JournalClosedError):
            self.load(run_id)

    def _reload(self, run_id: str, value: Any, error: BaseException | None) -> None:
        if not isinstance(error, JournalClosedError):
            self.load(run_id)

    async def _catch_up(self, actor: Actor) -> None:
        """Others have written to the run, or asked something of it: read what, up to what it holds now."""
        read = self.hub.read
        try:
            run = await read(queries.run, actor.run_id)
            rows = await read(queries.history, actor.run_id, actor.seen_seq) if actor.gap else []
            asked = run is not None and run.inbox != actor.seen_inbox
            waiting = await read(waiting_updates, actor.run_id) if asked else None
        except StoreError:
            self.hub.loop.call_later(RELOAD_AFTER, self.wake, actor)
            return
        finally:
            actor.queued = False
        if self.actors.get(actor.run_id) is not actor or actor.change is not None:
            return
        if run is None or not run.is_open or run.owner_id != self.worker_id or run.fence != actor.run.fence:
            self._discard(actor)
            return
        if run.last_seq >= actor.run.last_seq:
            actor.run = run
        cache = self.hub.journal.cache
        remembered = cache.runs.get(run.run_id)
        if remembered is not None and remembered.is_behind(run):
            cache.forget((run.run_id,), ())  # a change of the row as it is remembered would be refused
        actor.seen_inbox = run.inbox
        if waiting is not None:
            actor.updates = [acceptance(row) for row in waiting]
        if not actor.fill([(seq, from_json(kind, payload)) for seq, kind, payload in rows]):
            self._discard(actor)  # another owner has activated it meanwhile
            self.load(actor.run_id)
            return
        if actor.has_work:
            self.wake(actor)
        elif actor.questions:  # which thought that an activation would come
            self.queries.settle(actor)
        if not actor.has_work and actor.run.wake_at is not None:  # woken for what was answered already
            actor.change = change = self._failures.rejection(actor)
            self.hub.journal.submit(change, partial(self._settled, actor, change))

    # --- eager starts -----------------------------------------------------------------------------------------------

    def start(
        self, change: StartRun, callback: Callable[[Started | None, BaseException | None], None]
    ) -> None:
        """Start a workflow and fold its first activation into the same change."""
        self._pump.enqueue(partial(self._start, change, callback))

    def _start(self, change: StartRun, callback: Any) -> None:
        run, signal = change.run, change.signal
        machine = self._machine(run)
        actor = Actor(run, machine, seen_seq=1 if signal is None else 2, open_ids=set())
        actor.pending.append(change.started)
        if signal is not None:
            actor.pending.append(signal)
        if change.update is not None:
            actor.updates = [change.update.acceptance]
            actor.seen_inbox = 1
        try:
            commands, own, seen = actor.activate(self._clock.now())
        except BaseException as error:
            machine.evict()
            if isinstance(error, KeyboardInterrupt):
                raise
            logger.debug(
                "the first activation of %s failed; it is started alone", run.workflow_id, exc_info=True
            )
            run.owner_id = None
            run.fence = 0
            self.hub.journal.submit(change, callback)
            return
        self.activations += 1
        change.fold(self._decide(actor, commands, own, seen))
        actor.change = change
        self._keep(actor)
        self.hub.journal.submit(change, partial(self._started, actor, change, callback))

    def _started(
        self,
        actor: Actor,
        change: StartRun,
        callback: Any,
        value: Started | None,
        error: BaseException | None,
    ) -> None:
        actor.change = None
        eager = change.activation.eager if change.activation is not None else {}
        if value is None or value.applied is None:
            self._dispatcher.give_back(len(eager))
            self._discard(actor)
        else:
            self._carry_on(actor, value.applied, eager)
        if lasts(error):
            logger.debug("what %s did first can't be written; it is started alone", change.run.workflow_id)
            change.run.owner_id = None
            change.run.fence = 0
            again = StartRun(
                change.run, change.started, change.policy, signal=change.signal, update=change.update
            )
            again.limits = change.limits
            self.hub.journal.submit(again, callback)
            return
        callback(value, error)

    # --- results ----------------------------------------------------------------------------------------------------

    def add_result(self, task: ActivityTask, payload: Payload) -> None:
        """An activity ended here: bundle its result with the decision it leads to, if the run is ours."""
        actor = self.actors.get(task.run_id)
        if actor is not None and not self._stopping:
            actor.add_result(task, payload)
            self.wake(actor)
        elif task.owner_fence is not None and not self._stopping:
            self._loader.load(task.run_id, [(task, payload)])
        else:
            self._results.commit([(task, payload)])

    # --- coming and going -------------------------------------------------------------------------------------------

    def load(self, run_id: str, *, at: int = 0) -> None:
        """Bring a run into memory by replay, if it is ours."""
        if at > self._clock.now():
            self._later(at, partial(self.load, run_id))
        elif run_id not in self.actors and not self._stopping:
            self._loader.load(run_id)

    def _load_at(self, run_id: str, at: int) -> None:
        self._later(at, partial(self.load, run_id))

    def look_again(self, run_id: str) -> None:
        """Somebody else woke a run of ours."""
        actor = self.actors.get(run_id)
        if actor is None:
            self.load(run_id)
        elif actor.change is None and not actor.has_work:
            actor.gap = True
            self.wake(actor)

    def _loaded(self, load: Load) -> None:
        self._pump.enqueue(partial(self._bring_back, load))

    def _bring_back(self, load: Load) -> None:
        fresh = self._loader.take(load)
        actor = self.actors.get(load.run_id)
        if actor is None and not fresh and not self._stopping:
            self._loader.load(load.run_id, load.results)
            return
        if actor is None and load.found is not None and fresh:
            actor = self._replayed(*load.found)
        if actor is None:
            self._results.commit(load.results)
        else:
            for task, payload in load.results:
                actor.add_result(task, payload)
            if actor.has_work:
                self.wake(actor)
            else:
                self._trim()
        if load.run_id in self.taker.arriving:  # after its activation, if it has one
            self._pump.enqueue(partial(self.taker.arrived, load.run_id))

    def _replayed(self, run: RunRow, rows: list[Any]) -> Actor | None:
        """The actor of a run that is ours, from its history; ``None`` where it is not, or its code fails."""
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
        actor = Actor(run, machine, seen_seq=replayed.last_seq, open_ids=replayed.open_ids)
        actor.pending = [event for _, event in replayed.unapplied]
        cached = self.hub.journal.cache.runs
        known = cached.get(run.run_id)
        if known is not None and known.last_seq >= run.last_seq:
            actor.run = known  # this process has written to the run since it was read
        else:
            cached[run.run_id] = run
        actor.gap = actor.run.last_seq > replayed.last_seq
        self._keep(actor)
        return actor

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

    def _keep(self, actor: Actor) -> None:
        self.actors[actor.run_id] = actor

    def _discard(self, actor: Actor, own: list[Result] | None = None) -> None:
        """Take a run out of memory; results that wait in it are committed alone."""
        if self.actors.get(actor.run_id) is actor:
            del self.actors[actor.run_id]
        if actor.questions:
            self.queries.give_up(actor)
        actor.machine.evict()
        self.hub.journal.cache.forget((actor.run_id,), ())
        results = (own or []) + actor.own_tasks
        actor.own_tasks = []
        actor.own = []
        if results and actor.run.closed_at is None:
            self._results.commit(results)

    def _trim(self) -> None:
        """Evict idle runs, the longest unused first, until the cache is no larger than it may be."""
        actors = self.actors
        for _ in range(min(len(actors), MOST_LOOKS)):
            if len(actors) <= self.settings.max_cached_workflows:
                return
            run_id, actor = next(iter(actors.items()))
            if actor.idle:
                self._discard(actor)
            else:
                actors.move_to_end(run_id)

    def _let_go(self, run_ids: list[str]) -> None:
        with suppress(JournalClosedError):  # who stops lets go of everything that is its own
            self.hub.journal.submit(ReleaseRuns(self.worker_id, run_ids), lambda value, error: None)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Activate nothing more."""
        self._stopping = True
        self.taker.stop()
        self._loader.stop()

    def drop_all(self) -> None:
        """Forget everything that is in memory; what is in flight ends as it ends."""
        for actor in list(self.actors.values()):
            if actor.change is None:
                self._discard(actor)
