"""A run's activity calls: from the code's call, through the command, to the future that resolves.

An activity is open from its call until its end is applied or its future is cancelled, whichever comes first. What
history says about it later is ignored. A call is checked (arguments, options, a bound on its duration) live only: in
replay the recorded event stands, whatever the code would say today.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import activity_error
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DurableCallError, InvalidOptionError, WorkflowTaskError
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    WorkflowStarted,
)
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.futures import DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.options.activity import ActivityOptions, transactional_snapshot
from outlast_workflow.primitives.enums import CancellationType
from outlast_workflow.primitives.interceptor_chain import NO_INTERCEPTORS, Chain
from outlast_workflow.primitives.payloads import NOT_NEEDED
from outlast_workflow.run.intercepted_calls import StartActivity

T = TypeVar("T")

NO_OPTIONS = ActivityOptions()


@runtime_checkable
class ActivityCallable(Protocol):
    """What an activity needs to be callable from a workflow."""

    @property
    def name(self) -> str:
        """The activity type."""
        ...

    @property
    def options(self) -> ActivityOptions:
        """The options of its declaration."""
        ...

    @property
    def transactional(self) -> Any:
        """Whether it is declared so; histories tell it."""
        ...

    @property
    def signature(self) -> CallSignature:
        """Its parameters and its result."""
        ...


class ActivityFuture(DurableFuture[T]):
    """An activity under way: awaitable any number of times, with ``cancel()``, ``done()`` and ``result()``."""

    __slots__ = (
        "activity_type",
        "calls",
        "cancelling",
        "command_id",
        "hint",
        "index",
        "options",
        "workflow_task",
    )

    calls: ActivityCalls
    command_id: int
    activity_type: str
    hint: Any
    options: ActivityOptions
    cancelling: bool
    workflow_task: int
    index: int

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the activity: ask it to stop and cancel its waiter, as the cancellation type says."""
        if self.done():
            return False
        if self.calls.give_up(self):
            return super().cancel(msg)
        return True

    def default_name(self) -> str:
        """Return the activity's type and command id."""
        return f"{self.activity_type}#{self.command_id}"


class ActivityCalls:
    """The open activities of one run."""

    __slots__ = ("converter", "default_options", "interceptors", "log", "loop", "open", "run")

    def __init__(
        self,
        loop: DeterministicLoop,
        run: WorkflowStarted,
        converter: DataConverter,
        default_options: ActivityOptions | None,
        interceptors: Chain = NO_INTERCEPTORS,
    ) -> None:
        self.loop = loop
        self.log: CommandLog = loop.log
        self.run = run
        self.converter = converter
        self.default_options = default_options
        self.interceptors = interceptors
        self.open: dict[int, ActivityFuture[Any]] = {}

    def schedule(
        self,
        activity_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        options: ActivityOptions,
        result_hint: Any,
        local: bool | None = None,
        headers: dict[str, str] | None = None,
        summary: str | None = None,
        transactional: bool = False,
    ) -> ActivityFuture[Any]:
        """Number a call, add its command, and return the future of its result.

        Args:
            activity_type: The activity's type.
            args: Its arguments.
            signature: Its signature, if that is known.
            options: The options of the declaration, overridden by those of the call.
            result_hint: How to read its result.
            local: Whether it runs in the process of its run.
            headers: The headers that the interceptors left; ``None`` before they are called.
            summary: What the call does, in place of what the options say.
            transactional: Whether it is declared so, if its declaration is known.

        Raises:
            DurableCallError: The call cannot be made as written; the workflow task fails even if this is caught.
            StructuralLimitError: A limit was exceeded; the run fails even if this is caught.
        """
        if self.interceptors and headers is None:
            call = StartActivity(activity_type, args, options, bool(local))
            return self.interceptors.call(
                "start_activity",
                call,
                lambda call: self.schedule(
                    call.activity_type,
                    call.args,
                    signature,
                    call.options,
                    result_hint,
                    local,
                    call.headers or {},
                    summary,
                    transactional,
                ),
            )
        log = self.log
        log.last_id = command_id = log.last_id + 1
        if log.replaying:
            command = ActivityScheduled(command_id, activity_type, "", NOT_NEEDED, NOT_NEEDED, 0, local)
        else:
            command = self._command(
                command_id, activity_type, args, signature, options, local, headers, transactional
            )
            if summary is not None:
                command.summary = summary
        future: ActivityFuture[Any] = ActivityFuture(self.loop.hashes, self.loop)
        future.calls = self
        future.command_id = command_id
        future.activity_type = activity_type
        future.hint = result_hint
        future.options = options
        future.cancelling = False
        future.workflow_task = log.workflow_task
        future.index = log.add(command)
        self.open[command_id] = future
        return future

    def _command(
        self,
        command_id: int,
        activity_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        options: ActivityOptions,
        local: bool | None,
        headers: dict[str, str] | None,
        transactional: bool,
    ) -> ActivityScheduled:
        log, run = self.log, self.run
        try:
            if signature is not None:
                signature.check(args)
            if local and options.queue is not None:
                raise _queued_locally(activity_type)
            if self.default_options is not None:
                options = self.default_options.merged(options)
            if not (options.is_bounded or run.execution_deadline_at or run.run_deadline_at):
                raise _unbounded(activity_type)
            if options.alerts is not None:
                _check_alerts(options)
            if options.partition_key is not None and options.queue is None:
                raise _partition_of_nothing(activity_type)
            payload = self.converter.encode_args(args, signature, activity_type)
            checked = checked_headers(headers) if headers else None
        except (WorkflowTaskError, InvalidOptionError) as error:
            raise log.refuse(error) from None
        near = log.near
        if len(payload.json) >= near["payload_bytes"]:
            log.check("payload_bytes", len(payload.json))
        if len(self.open) + 1 >= near["pending_activities"]:
            log.check("pending_activities", len(self.open) + 1)
        return ActivityScheduled(
            command_id,
            activity_type,
            run.task_queue if local else options.task_queue or run.task_queue,
            payload,
            transactional_snapshot(options) if transactional else options.snapshot,
            run.priority if options.priority is None else options.priority,
            local,
            headers=checked,
            summary=options.summary,
            queue=None if local else options.queue,
            partition_key=None if local else options.partition_key,
        )

    def give_up(self, future: ActivityFuture[Any]) -> bool:
        """Withdraw a call that was not sent yet, or else ask the activity to stop.

        Returns:
            Whether its future is cancelled now, rather than at the activity's end.
        """
        command_id, log = future.command_id, self.log
        if command_id not in self.open or log.closed:
            return True
        if future.workflow_task == log.workflow_task:
            log.withdraw(future.index)
        else:
            cancellation = self._cancellation_type(future.options)
            if cancellation is CancellationType.WAIT:
                if not future.cancelling:
                    future.cancelling = True
                    log.add(ActivityCancelRequested(command_id, wait=True))
                return False
            if cancellation is not CancellationType.ABANDON:
                log.add(ActivityCancelRequested(command_id))
        del self.open[command_id]
        return True

    def _cancellation_type(self, options: ActivityOptions) -> CancellationType | None:
        if options.cancellation_type is None and self.default_options is not None:
            return self.default_options.cancellation_type
        return options.cancellation_type

    # --- what history says ----------------------------------------------------------------------------------------

    def completed(self, event: ActivityCompleted) -> None:
        """Resolve with the result, read as the call's result hint says.

        Raises:
            PayloadDecodeError: The result cannot be read like this; the message names the activity.
        """
        future = self.open.pop(event.command_id, None)
        if future is not None:
            result = self.converter.decode(event.result, future.hint, f"the result of {future.activity_type}")
            future.set_result(result)

    def ended_badly(self, event: ActivityFailed | ActivityTimedOut) -> None:
        """Resolve with the failure, as an ActivityError."""
        future = self.open.pop(event.command_id, None)
        if future is not None:
            future.set_exception(activity_error(event, future.activity_type, self.converter))

    def cancelled(self, event: ActivityCancelled) -> None:
        """Cancel the future, and so whatever awaits it."""
        future = self.open.pop(event.command_id, None)
        if future is not None:
            future.cancel()


def _queued_locally(activity_type: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"local activity {activity_type} runs at once where its workflow does, so no queue can hold it back: leave "
        "queue out, or call it as an activity that is not local",
        field="queue",
    )


def _partition_of_nothing(activity_type: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"partition_key of activity {activity_type} needs a queue: give queue= as well", field="partition_key"
    )


def _unbounded(activity_type: str) -> DurableCallError:
    return DurableCallError(
        f"nothing bounds how long activity {activity_type} may take: give start_to_close_timeout, "
        "schedule_to_close_timeout or heartbeat_timeout at the call, on @activity.defn or as the worker's default "
        "activity options, or start the workflow with an execution or run timeout"
    )


def _check_alerts(options: ActivityOptions) -> None:
    assert options.alerts is not None
    # Loaded only for those who want alerts.
    from outlast_workflow.options.alerts import OF_ACTIVITIES, check_deadlines

    there = [kind for kind in OF_ACTIVITIES if getattr(options, f"{kind}_timeout") is not None]
    advice = f"give the activity one, for example {(options.alerts.kinds or OF_ACTIVITIES)[-1]}_timeout"
    check_deadlines(options.alerts, there, advice)
