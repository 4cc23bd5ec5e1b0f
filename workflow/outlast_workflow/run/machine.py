"""One run's code, driven by events: history in, commands out, and nothing else.

::

    events ──▶ applied in order ──▶ ready callbacks run until none is left ──▶ commands

A machine is created for a run, given workflow tasks (as recorded during replay, then live), and evicted. It does no
I/O, reads no clock and knows no store: the same events at the same times yield the same commands. Replay compares them.

How a workflow task may end:

* with commands, perhaps none. A command is the event that records it; the last one may end the run (:attr:`terminal`).
  A terminal event that carries ``by`` is the engine's: a structural limit was exceeded, all other commands of the
  workflow task are dropped, and no workflow task record may be written;
* with an exception: a *task failure*. The machine can then not continue: evict it, and replay once the code may have
  been fixed.
"""

from __future__ import annotations

import copy
import sys
from asyncio import events as asyncio_events
from collections.abc import Coroutine, Sequence
from contextvars import Context
from random import Random
from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.headers import RUN_HEADERS, Headers
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import MissingCodeError, StructuralLimitError
from outlast_workflow.history.events import (
    Event,
    SignalReceived,
    TimerFired,
    UpdateAccepted,
    WorkflowCancelRequested,
    WorkflowContinuedAsNew,
    WorkflowDequeued,
    WorkflowStartChanged,
    WorkflowStarted,
    last_input,
)
from outlast_workflow.loop import asyncio_fixes
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.eviction import close_loop
from outlast_workflow.loop.futures import DurableFuture, log_unawaited
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.source_lines import line_of, waiting_line
from outlast_workflow.loop.wait_condition import ConditionFuture
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.failure_types import NO_FAILURE_TYPES, FailureTypes
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.search_attributes import Document
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.activity_calls import ActivityCalls
from outlast_workflow.run.appliers import APPLIERS
from outlast_workflow.run.child_calls import ChildCalls
from outlast_workflow.run.external_signals import ExternalCalls
from outlast_workflow.run.handler_tasks import Considered, Handling
from outlast_workflow.run.info import WorkflowInfo, info_of
from outlast_workflow.run.interceptors import enter_intercepted
from outlast_workflow.run.recorded_markers import RecordedMarkers
from outlast_workflow.run.run_outcome import Outcomes
from outlast_workflow.run.stream_calls import StreamCalls

asyncio_fixes.mend()

NOTHING_RECORDED = RecordedMarkers()


class RunLoop(DeterministicLoop):
    """The loop of a run, through which the workflow functions find their run."""

    machine: WorkflowMachine | None = None

    def report(self, context: dict[str, Any]) -> None:
        """Log what a task raised that was never awaited."""
        machine = self.machine
        if machine is not None and not machine.replaying:
            log_unawaited(context, machine.started.workflow_id, machine.run_id)


class WorkflowMachine:
    """The code of one run.

    Args:
        definition: The workflow.
        run_id: The run.
        converter: Decodes inputs and results, encodes arguments and the run's own result.
        limits: Checked live only.
        default_activity_options: The activity options where neither the declaration nor the call gives any.
        failure_types: Which exceptions fail the run and which only the task, where the definition does not say.
        local_activities: The activities that can run in this process; ``None`` if that is not known.
        guarded: Whether the runtime guard, if one is installed, stops I/O of its code.

    Attributes:
        begins_at: The time of its first workflow task, in µs since the epoch; after a reset, of the first one since.
        handling_so_far: Its handlers; ``None`` before the first signal, update or query.
        limit: The nearest limit that the code has set on the run's time so far, in µs.
        time: The time of the last workflow task, in µs since the epoch: the latest of its clock, the one before, and
            the timers it applied.
        terminal: The event that ends the run, once it was issued.
        memo: The memo that the code has set, ``None`` before; likewise ``search_attributes``.
        progress: The run's progress as the code has last set it, as JSON text; ``None`` before.
        streams: What the code has done with streams, once it has asked for one.
        history_events: What ``workflow.info()`` shows in this workflow task.
        history_bytes: Likewise.
        continue_as_new_suggested: Likewise; once so, always so. ``suggestion_is_new``: since this workflow task.
        considered: The outcome of the updates that the last workflow task was given; ``None`` if there were none.
        resets: How often its history has been taken over from another run, up to where it is.
    """

    __slots__ = (
        "_arguments",
        "_broken",
        "_children",
        "_context",
        "_coroutine",
        "_externals",
        "_instance",
        "_outcomes",
        "_random",
        "_reset_seed",
        "_task",
        "begins_at",
        "calls",
        "considered",
        "continue_as_new_suggested",
        "converter",
        "default_activity_options",
        "definition",
        "guarded",
        "handling_so_far",
        "history_bytes",
        "history_events",
        "limit",
        "limits",
        "local_activities",
        "log",
        "loop",
        "markers",
        "memo",
        "patches",
        "progress",
        "resets",
        "run_id",
        "search_attributes",
        "started",
        "streams",
        "suggestion_is_new",
        "terminal",
        "time",
    )

    calls: ActivityCalls
    loop: RunLoop
    started: WorkflowStarted

    def __init__(
        self,
        definition: WorkflowDefinition,
        run_id: str,
        *,
        converter: DataConverter,
        limits: StructuralLimits,
        default_activity_options: ActivityOptions | None = None,
        failure_types: FailureTypes = NO_FAILURE_TYPES,
        local_activities: frozenset[str] | None = None,
        guarded: bool = True,
    ) -> None:
        self.definition = definition
        self.guarded = guarded
        self.run_id = run_id
        self.converter = converter
        self.limits = limits
        self.default_activity_options = default_activity_options
        self.local_activities = local_activities
        self.log = CommandLog(limits, run_id)
        self.time = self.resets = 0
        self.begins_at: int | None = None
        self.limit: int | None = None
        self.history_events = self.history_bytes = 0
        self.continue_as_new_suggested = self.suggestion_is_new = False
        self.terminal: Event | None = None
        self.patches: dict[str, bool] = {}
        self.markers = NOTHING_RECORDED
        self.memo: Payload | None = None
        self.progress: str | None = None
        self.streams: StreamCalls | None = None
        self.considered: Considered | None = None
        self._outcomes = Outcomes(self.log, definition, converter, failure_types)
        self.search_attributes: Document | None = None
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._task: Any = None
        self._children: ChildCalls | None = None
        self._random: Random | None = None
        self._reset_seed: int | None = None
        self._instance: object | None = None
        self._arguments: tuple[Any, ...] = ()
        self._broken: BaseException | None = None
        self.handling_so_far: Handling | None = None
        self._externals: ExternalCalls | None = None

    @property
    def replaying(self) -> bool:
        """Whether history is being replayed: then nothing is validated, encoded, limited or logged."""
        return self.log.replaying

    @replaying.setter
    def replaying(self, value: bool) -> None:
        self.log.replaying = value

    # --- a workflow task --------------------------------------------------------------------------------------------

    def run_workflow_task(
        self,
        events: Sequence[Event],
        at: int,
        *,
        history_events: int,
        history_bytes: int,
        suggested: bool | None = None,
        updates: Sequence[UpdateAccepted] = (),
    ) -> list[Event]:
        """Apply inbound events, in order, and run the code until it waits.

        Args:
            events: What has happened; the first one ever is ``WorkflowStarted``.
            at: The time, microseconds since the epoch.
            history_events: The length of the history, for ``workflow.info()``.
            history_bytes: Its size in bytes.
            suggested: Whether ``workflow.info()`` suggests continuing as new from now on; None: the limits decide.
            updates: Updates to be accepted or rejected, in order, as the events that they would be; they come last. The
                outcome is :attr:`considered`. Once the run has ended, the rest is left alone.

        Returns:
            The commands, in the order in which they were requested; a terminal one is last.

        Raises:
            WorkflowTaskError: The workflow task failed.
            SpoiledMachine: A validator tried to change the run.
            BaseException: It failed because of a callback's exception, or one that fails only the task by its type.
        """
        self.history_events, self.history_bytes = history_events, history_bytes
        if self.continue_as_new_suggested:
            self.suggestion_is_new = False
        else:
            if suggested is None:
                limits = self.limits
                most, size = limits.continue_as_new_events, limits.continue_as_new_bytes
                suggested = 0 < most <= history_events or 0 < size <= history_bytes
            self.continue_as_new_suggested = self.suggestion_is_new = suggested
        before = self.time
        loop = self._loop_at(events, at)
        outer_loop = asyncio_events._get_running_loop()
        outer_hooks = sys.get_asyncgen_hooks()
        asyncio_events._set_running_loop(loop)
        sys.set_asyncgen_hooks(loop.hold_generator, None)
        try:
            self._apply(events)
            if updates or self.considered is not None:
                self._consider(updates, alone=not events)
            if self._task is None:
                self._enter()
            if self.considered is None or not self.considered.alone:
                loop.run_ready()
        finally:
            sys.set_asyncgen_hooks(*outer_hooks)
            asyncio_events._set_running_loop(outer_loop)
        refusal = self.log.refusal
        if refusal is not None:
            return self._refused(refusal)
        if self.considered is not None and self.considered.alone:
            self.time = loop.now = before
            return []
        commands = self.log.take()
        if self.handling_so_far is not None and self.handling_so_far.unexpected:
            self.handling_so_far.log_unexpected()
        if self.terminal is not None:
            commands.append(self.terminal)
            if self.handling_so_far is not None:
                self.handling_so_far.log_unfinished()
        return commands

    @property
    def begun(self) -> bool:
        """Whether there is an instance to query: the first workflow task or :meth:`make` has run."""
        return hasattr(self, "loop")

    def make(self, events: Sequence[Event], at: int) -> None:
        """Create the instance of a run that has not started, to be queried and evicted. Its run method does not run.

        Args:
            events: What has happened; the first one is ``WorkflowStarted``.
            at: The time, microseconds since the epoch.
        """
        loop = self._loop_at(events, at)
        outer_loop = asyncio_events._get_running_loop()
        asyncio_events._set_running_loop(loop)
        try:
            self.apply_started(self.started)
        finally:
            asyncio_events._set_running_loop(outer_loop)

    def query(self, name: str, input: Payload, headers: Headers | None = None) -> Payload:
        """Answer a query. The run must have started and be at rest; it may have ended.

        Raises:
            UnknownHandlerError: The workflow has no such query.
            ReadOnlyContextError: It tried to change the run: evict this machine.
            Exception: What the handler or the constructor raised, or a payload that cannot be decoded or encoded.
        """
        if self._broken is not None:
            raise self._broken
        outer_loop = asyncio_events._get_running_loop()
        asyncio_events._set_running_loop(self.loop)
        try:
            return self.handling.query(name, input, headers)
        finally:
            asyncio_events._set_running_loop(outer_loop)

    def reseed(self, seed: int) -> None:
        """Change the run's seed from here on: its history up to here was taken from another run."""
        self._reset_seed = seed
        self.resets += 1
        self._random = None
        self.begins_at = None
        if hasattr(self, "loop"):
            self.loop.seed = seed

    @property
    def roused(self) -> bool:
        """Whether a condition that the code waits for holds although nothing has happened, as after a reset."""
        if self.terminal is not None or not hasattr(self, "loop"):
            return False
        outer_loop = asyncio_events._get_running_loop()
        asyncio_events._set_running_loop(self.loop)
        try:
            conditions = tuple(self.loop.conditions)
            return any(isinstance(one, ConditionFuture) and one.holds() for one in conditions)
        finally:
            asyncio_events._set_running_loop(outer_loop)

    def interrupt(self, reason: BaseException) -> None:
        """Fail the workflow task under way, whatever its code does next. Called by a monitor, from any thread."""
        self.log.refuse(reason)

    def _loop_at(self, events: Sequence[Event], at: int) -> RunLoop:
        """Return the loop with its clock set."""
        assert self.terminal is None, "the run has ended"
        at = max(at, self.time)
        for event in events:
            if type(event) is TimerFired and event.fire_at > at:
                at = event.fire_at
        self.time = at
        if self.begins_at is None:
            self.begins_at = at
        if not hasattr(self, "loop"):
            started = events[0]
            assert isinstance(started, WorkflowStarted), "a run begins with WorkflowStarted"
            if started.queue is not None or started.start_delay_seconds is not None:
                # What comes later may give it another run deadline or input; the event itself stays as it is.
                started = copy.copy(started)
                started.input = last_input(started, events)
            self.started = started
            self.log.whose = started.workflow_id
            self.loop = loop = RunLoop(self.log, self._reset_seed or started.seed)  # type: ignore[abstract]  # the rest is made from a table
            self._outcomes.headers = started.headers
            self.calls = ActivityCalls(
                loop, started, self.converter, self.default_activity_options, self.definition.interceptors
            )
            loop.machine = self
            loop.started_at = at
        self.loop.now = at
        return self.loop

    def _apply(self, events: Sequence[Event]) -> None:
        for event in events:
            applier = APPLIERS.get(type(event))
            if applier is None:
                raise MissingCodeError(
                    f"this version cannot apply {event.type}: run a worker of the version that wrote it",
                    name=event.type,
                )
            applier(self)(event)

    def _consider(self, updates: Sequence[UpdateAccepted], *, alone: bool) -> None:
        """Accept or reject updates, each after everything before it has run.

        See :mod:`outlast_workflow.run.handler_tasks`.
        """
        self.considered = considered = Considered() if updates else None
        if considered is None or self._broken is not None:
            return
        handling = self.handling
        for update in updates:
            self.loop.run_ready(conditions=False)
            if self.terminal is not None or self.log.refusal is not None:
                break
            failure = handling.rejection(update)
            if failure is not None:
                considered.rejected.append((update.update_id, failure))
            else:
                handling.update(update)
                considered.accepted.append(update)
        considered.alone = alone and not considered.accepted

    def _refused(self, refusal: BaseException) -> list[Event]:
        if not isinstance(refusal, StructuralLimitError):
            raise refusal
        self.terminal = terminal = self._outcomes.limited(refusal)
        return [terminal]

    # --- what events do -------------------------------------------------------------------------------------------

    def apply_started(self, event: WorkflowStarted) -> None:
        """Create the instance that the run method runs on."""
        signature = None if self.definition.plain_input else self.definition.signature
        self._arguments = arguments = tuple(self.converter.decode_args(self.started.input, signature))
        self._context = context = Context()
        if event.headers is not None:
            context.run(RUN_HEADERS.set, event.headers)
        if self.definition.cls is None:
            return
        try:
            self._instance = context.run(self.definition.instance, arguments)
        # The run method will raise it.
        except Exception as error:
            self._broken = error

    def _enter(self) -> None:
        """Enter the run method, after everything that came before the first workflow task."""
        if self.loop.ready or self.loop.conditions:
            self.loop.run_ready()
        self._coroutine = coroutine = self._run(self._arguments)
        self._arguments = ()
        self._task = self.loop.create_task(coroutine, name=self.started.workflow_id, context=self._context)

    async def _run(self, arguments: tuple[Any, ...]) -> None:
        try:
            if self._broken is not None:
                raise self._broken
            definition, instance = self.definition, self._instance
            if definition.interceptors:
                result = await enter_intercepted(definition, instance, arguments, self.started.headers)
            else:
                result = await definition.enter(instance, arguments)
        except BaseException as error:
            # The garbage collector closes what was left; Ctrl-C ends the program, not the run.
            if (isinstance(error, GeneratorExit) and not self.loop.is_running()) or is_ctrl_c(error):
                raise
            if not self.log.closed:
                self._end(self._outcomes.raised(error))
        else:
            self._end(self._outcomes.returned(result))

    def _end(self, event: Event | None) -> None:
        """End the run, unless it has already ended."""
        if self.terminal is None:
            self.terminal = event

    def apply_run_deadline(self, event: WorkflowDequeued | WorkflowStartChanged) -> None:
        """Take the run deadline that holds from here on."""
        self.set_run_deadline(event.run_deadline_at)

    def set_run_deadline(self, deadline: str | None) -> None:
        """Let another run deadline hold from here on. The first event itself stays as it is: others have it too."""
        self.started = self.calls.run = started = copy.copy(self.started)
        started.run_deadline_at = deadline
        if self._children is not None:
            self._children.run = started

    def apply_cancel_request(self, event: WorkflowCancelRequested) -> None:
        """Cancel the run method's task; later requests change nothing."""
        # Everything before the request is handled before it: the order of arrival decides, not the order in which
        # asyncio would look at a future that is done and a task that is cancelled.
        if self._task is None:
            self._enter()
        self.loop.run_ready()
        if self._outcomes.cancel_request is None:
            self._outcomes.cancel_request = event
            task: Any = self._task
            task.cancel(event.reason)

    def apply_update(self, event: UpdateAccepted) -> None:
        """Start the handler of an update that was accepted in an earlier workflow task."""
        self.loop.run_ready(conditions=False)
        self.handling.update(event)

    def apply_timer(self, event: TimerFired) -> None:
        """Resolve what waits for a timer."""
        self.loop.fire(event.command_id)

    # --- what the code may ask ------------------------------------------------------------------------------------

    @property
    def children(self) -> ChildCalls:
        """Return the run's children, created for the first of them."""
        if self._children is None:
            self._children = ChildCalls(self.loop, self.started, self.converter, self.definition.interceptors)
        return self._children

    @property
    def handling(self) -> Handling:
        """Return the run's handlers, created for the first signal, update or query."""
        if self.handling_so_far is None:
            self.handling_so_far = Handling(
                self.loop,
                self.definition,
                self._instance,
                self._context,
                self.converter,
                self._outcomes,
                self._end,
                lambda: isinstance(self.terminal, WorkflowContinuedAsNew),
                self.started.workflow_id,
            )
        return self.handling_so_far

    @property
    def externals(self) -> ExternalCalls:
        """Return the run's signals to other workflows, created for the first of them."""
        if self._externals is None:
            self._externals = ExternalCalls(self.loop, self.converter, self.definition.interceptors)
        return self._externals

    @property
    def buffered(self) -> Sequence[SignalReceived]:
        """Return the signals that wait without a handler, in order."""
        return self.handling_so_far.buffered if self.handling_so_far is not None else ()

    @property
    def handlers_running(self) -> int:
        """Return how many signals and updates are being handled."""
        return len(self.handling_so_far.running) if self.handling_so_far is not None else 0

    def info(self) -> WorkflowInfo:
        """Return what ``workflow.info()`` shows."""
        return info_of(
            self.started,
            run_id=self.run_id,
            memo=self.memo if self.memo is not None else self.started.memo,
            search_attributes=self.current_attributes(),
            start_time=self.loop.started_at,
            history_events=self.history_events,
            history_bytes=self.history_bytes,
            suggested=self.continue_as_new_suggested,
            resets=self.resets,
            converter=self.converter,
        )

    def current_attributes(self) -> Document:
        """Return the run's search attributes, as the code has set them so far."""
        known = self.search_attributes
        return (self.started.search_attributes if known is None else known) or {}

    def random(self) -> Random:
        """Return the run's own source of randomness."""
        if self.log.read_only is not None:
            self.log.read_only.refuse("take random numbers")
        if self._random is None:
            self._random = Random(self.loop.seed)
        return self._random

    def where(self, command_index: int | None = None) -> str:
        """Return the line of workflow code that requested a command of the last task, or at which the run waits."""
        asked_at = self.log.asked_at
        line = None
        if command_index is not None and command_index < len(asked_at):
            line = line_of(asked_at[command_index])
        if line is None and self._coroutine is not None:
            line = waiting_line(self._coroutine)
        return line or self.definition.source

    # --- leaving memory -------------------------------------------------------------------------------------------

    def evict(self) -> None:
        """Close the run's coroutines with commands switched off, and drop all references.

        User code runs no further than its ``finally`` blocks, where durable calls do nothing and waits end at once.
        """
        loop = getattr(self, "loop", None)
        if loop is None or self.log.closed:
            return
        if self.terminal is not None:
            loop.report_unseen()
        self.log.close()
        calls: list[DurableFuture[Any]] = list(self.calls.open.values())
        if self._children is not None:
            calls += self._children.forget()
        if self._externals is not None:
            calls += self._externals.open.values()
        close_loop(loop, calls, self.started.workflow_id)
        self.calls.open.clear()
        loop.machine = None
        self._task = self._coroutine = self._instance = self._broken = None
        self.handling_so_far = self._externals = None
