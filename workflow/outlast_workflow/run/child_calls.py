"""A run's children: from the code's call, through the command, to the future that resolves.

A child is open from its call until its end is applied or its future is cancelled. What history says about it later is
ignored. As with activities, a call is checked live only: in replay the recorded event stands.

Cancelling a child's future asks the child to cancel. By default the future then waits for the child's end, so that the
child can clean up before its parent continues (and perhaps ends, which would terminate the child): see
:class:`~outlast_workflow.primitives.enums.CancellationType`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast, overload
from uuid import NAMESPACE_OID, uuid5

import orjson

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.handlers import SignalCall, call_of
from outlast_workflow.errors import InvalidOptionError, WorkflowTaskError
from outlast_workflow.history.events import (
    ChildWorkflowCancelled,
    ChildWorkflowCancelRequested,
    ChildWorkflowCompleted,
    ChildWorkflowScheduled,
    ChildWorkflowStarted,
    WorkflowStarted,
)
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.futures import DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.search_attributes import size_of, to_document
from outlast_workflow.options.start import StartOptions
from outlast_workflow.primitives.enums import CancellationType, ParentClosePolicy
from outlast_workflow.primitives.interceptor_chain import NO_INTERCEPTORS, Chain
from outlast_workflow.primitives.payloads import NOT_NEEDED, Payload
from outlast_workflow.primitives.times import iso
from outlast_workflow.run.child_failures import BadEnd, child_error
from outlast_workflow.run.intercepted_calls import StartChild

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOTHING = Payload(b"{}")


@dataclass(slots=True)
class ChildOptions:
    """The validated options of one call."""

    start: StartOptions
    task_queue: str | None
    priority: int | None
    parent_close_policy: ParentClosePolicy


class StartedFuture(DurableFuture[str]):
    """The start of a child: resolves with its run id."""

    __slots__ = ()

    def default_name(self) -> str:
        """Return ``child started``."""
        return "child started"


class ChildWorkflowHandle(DurableFuture[T]):
    """A child under way. It can be awaited any number of times, and has ``cancel()``, ``done()`` and ``result()``.

    Attributes:
        workflow_id: Its id.
        workflow_type: Its type.
        run_id: Its first run; ``None`` until it is known to have started.
    """

    __slots__ = (
        "calls",
        "cancellation",
        "cancelling",
        "command_id",
        "hint",
        "index",
        "run_id",
        "start",
        "workflow_id",
        "workflow_task",
        "workflow_type",
    )

    def __init__(
        self,
        calls: ChildCalls,
        command_id: int,
        workflow_id: str,
        workflow_type: str,
        hint: Any,
        cancellation: CancellationType,
    ) -> None:
        super().__init__(calls.loop.hashes, calls.loop)
        self.calls = calls
        self.command_id = command_id
        self.workflow_id = workflow_id
        self.workflow_type = workflow_type
        self.hint = hint
        self.cancellation = cancellation
        self.cancelling = False
        self.run_id: str | None = None
        self.start: StartedFuture | None = None
        self.workflow_task = 0
        self.index = 0

    def started(self) -> Coroutine[Any, Any, str]:
        """Wait until the child has been started, and return the id of its first run.

        Raises:
            ChildWorkflowError: When awaited: it was not started, because its id is taken.
        """
        if self.start is None:
            self.start = self.calls.start_of(self)
        return cast("Coroutine[Any, Any, str]", self.start)

    @overload
    def signal(self, signal: Callable[[*Ts], SignalCall], *args: *Ts) -> Coroutine[Any, Any, None]: ...

    @overload
    def signal(self, signal: str, *args: Any) -> Coroutine[Any, Any, None]: ...

    def signal(  # type: ignore[misc]  # mypy: `*args: Any` takes any `*Ts`
        self, signal: Any, *args: Any, **unknown: Any
    ) -> Any:
        """Send a signal, as ``workflow.external(child.workflow_id).signal(…)`` does, but only to this child's chain.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: Its arguments.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowClosedError: When awaited: the child has already ended.
        """
        loop: Any = self.calls.loop
        log = self.calls.log
        if log.read_only is not None:
            log.read_only.refuse("signal a child")
        try:
            if unknown:
                refuse_unknown("signal", unknown, ())
            call = call_of(SignalCall, signal, args)
        except (InvalidOptionError, WorkflowTaskError) as error:
            raise log.refuse(error) from None
        machine = loop.machine
        return machine.externals.signal(self.workflow_id, self.run_id, call.name, call.args, call.signature)

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the child to cancel. The cancellation type says whether its waiter is cancelled at once or at its end."""
        if self.done():
            return False
        if self.calls.give_up(self):
            return super().cancel(msg)
        return True

    def default_name(self) -> str:
        """Return the child's type and id."""
        return f"{self.workflow_type} {self.workflow_id}"


class ChildCalls:
    """The open children of one run."""

    __slots__ = ("converter", "interceptors", "log", "loop", "open", "run")

    def __init__(
        self,
        loop: DeterministicLoop,
        run: WorkflowStarted,
        converter: DataConverter,
        interceptors: Chain = NO_INTERCEPTORS,
    ) -> None:
        self.loop = loop
        self.log: CommandLog = loop.log
        self.run = run
        self.converter = converter
        self.interceptors = interceptors
        self.open: dict[int, ChildWorkflowHandle[Any]] = {}

    def schedule(
        self,
        workflow_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        workflow_id: str | None,
        options: ChildOptions | None,
        result_hint: Any,
        cancellation: CancellationType,
        headers: dict[str, str] | None = None,
    ) -> ChildWorkflowHandle[Any]:
        """Number a call, add its command, and return its handle.

        Args:
            workflow_type: The child's type.
            args: Its arguments.
            signature: Its signature, if that is known.
            workflow_id: Its id; derived from the run's own if ``None``.
            options: The options of the call; ``None`` in replay.
            result_hint: How to read its result.
            cancellation: What cancelling its future does to it.
            headers: The headers that the interceptors left; ``None`` before they are called.

        Raises:
            DurableCallError: The call cannot be made as written; the workflow task fails even if this is caught.
            StructuralLimitError: A limit was exceeded; the run fails even if this is caught.
        """
        if self.interceptors and headers is None:
            return self.interceptors.call(
                "start_child",
                StartChild(workflow_type, args, workflow_id),
                lambda call: self.schedule(
                    call.workflow_type,
                    call.args,
                    signature,
                    call.workflow_id,
                    options,
                    result_hint,
                    cancellation,
                    call.headers or {},
                ),
            )
        log = self.log
        command_id = log.next_id()
        if workflow_id is None:
            workflow_id = self._own_id(command_id)
        if options is None:
            command = ChildWorkflowScheduled(
                command_id, workflow_id, workflow_type, "", NOT_NEEDED, NOT_NEEDED, "", 0
            )
        else:
            command = self._command(command_id, workflow_id, workflow_type, args, signature, options, headers)
        handle: ChildWorkflowHandle[Any] = ChildWorkflowHandle(
            self, command_id, workflow_id, workflow_type, result_hint, cancellation
        )
        handle.workflow_task = log.workflow_task
        handle.index = log.add(command)
        self.open[command_id] = handle
        return handle

    def _own_id(self, command_id: int) -> str:
        """Return an id that no other call has, the same on every replay."""
        return str(uuid5(NAMESPACE_OID, f"{self.run.workflow_id}/{self.loop.seed}/{command_id}"))

    def _command(
        self,
        command_id: int,
        workflow_id: str,
        workflow_type: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        options: ChildOptions,
        headers: dict[str, str] | None,
    ) -> ChildWorkflowScheduled:
        log, run = self.log, self.run
        try:
            if signature is not None:
                signature.check(args)
            payload = self.converter.encode_request(args, signature, workflow_type)
            snapshot = self._snapshot(options.start)
            checked = checked_headers(headers) if headers else None
        except (WorkflowTaskError, InvalidOptionError) as error:
            raise log.refuse(error) from None
        near = log.near
        if len(payload.json) >= near["payload_bytes"]:
            log.check("payload_bytes", len(payload.json))
        if len(self.open) + 1 >= near["open_children"]:
            log.check("open_children", len(self.open) + 1)
        return ChildWorkflowScheduled(
            command_id,
            workflow_id,
            workflow_type,
            options.task_queue or run.task_queue,
            payload,
            snapshot,
            options.parent_close_policy.value,
            run.priority if options.priority is None else options.priority,
            headers=checked,
            summary=options.start.summary,
        )

    def _snapshot(self, options: StartOptions) -> Payload:
        """Return the part of the options that the event records."""
        document: dict[str, Any] = {}
        if options.execution_timeout is not None:
            document["execution_timeout"] = options.execution_timeout
        if options.execution_deadline_us is not None:
            document["execution_deadline"] = iso(options.execution_deadline_us)
        if options.run_timeout is not None:
            document["run_timeout"] = options.run_timeout
        for name in ("queue", "partition_key", "start_delay", "schedule_to_start_timeout"):
            value = getattr(options, name)
            if value is not None:
                document[name] = value
        if options.retry_policy is not None:
            document["retry_policy"] = options.retry_policy.to_document()
        if options.alerts is not None:
            self._check_alerts(options.alerts, options)
            document["alerts"] = options.alerts.to_document()
        if options.memo:
            memo = self.converter.encode(options.memo, "the child's memo")
            self.log.check("memo_bytes", len(memo.json))
            document["memo"] = memo.value
        if options.search_attributes:
            attributes = to_document(options.search_attributes)
            self.log.check("search_attributes_bytes", size_of(attributes))
            document["search_attributes"] = attributes
        return Payload(orjson.dumps(document)) if document else NOTHING

    def _check_alerts(self, alerts: AlertPolicy, options: StartOptions) -> None:
        # Loaded only for those who want alerts.
        from outlast_workflow.options.alerts import check_deadlines
        from outlast_workflow.primitives.enums import AlertKind

        given = {
            AlertKind.EXECUTION: options.execution_timeout
            or options.execution_deadline_us
            # A child may get its parent's as a cap.
            or self.run.execution_deadline_at,
            AlertKind.RUN: options.run_timeout,
            AlertKind.SCHEDULE_TO_START: options.schedule_to_start_timeout,
        }
        there = [kind for kind, value in given.items() if value is not None]
        check_deadlines(alerts, there, "give the child one, for example run_timeout")

    def give_up(self, handle: ChildWorkflowHandle[Any]) -> bool:
        """Withdraw or cancel a child; return whether its future is cancelled now, rather than at the child's end."""
        log = self.log
        if self.open.get(handle.command_id) is not handle or log.closed:
            return True
        if handle.workflow_task == log.workflow_task:
            log.withdraw(handle.index)
        elif handle.cancellation is not CancellationType.ABANDON:
            if not handle.cancelling and handle.run_id is not None:
                log.add(ChildWorkflowCancelRequested(handle.command_id, handle.workflow_id, handle.run_id))
            handle.cancelling = True
            if handle.cancellation is CancellationType.WAIT:
                return False
        del self.open[handle.command_id]
        return True

    def start_of(self, handle: ChildWorkflowHandle[Any]) -> StartedFuture:
        """Return the future of a child's start."""
        future = StartedFuture(self.loop.hashes, self.loop)
        if handle.run_id is not None:
            future.set_result(handle.run_id)
        elif handle.done():
            error = None if handle.cancelled() else handle.exception()
            if error is None:
                future.cancel()
            else:
                future.set_exception(error)
        return future

    def awaits_start(self, command_id: int) -> bool:
        """Return whether the code waits for a child's start."""
        handle = self.open.get(command_id)
        return handle is not None and handle.start is not None and not handle.start.done()

    def forget(self) -> list[DurableFuture[Any]]:
        """Drop the open children, and return the futures that coroutines may await."""
        handles = list(self.open.values())
        self.open.clear()
        return [*handles, *(handle.start for handle in handles if handle.start is not None)]

    # --- what history says ----------------------------------------------------------------------------------------

    def started(self, event: ChildWorkflowStarted) -> None:
        """Record the id of the child's first run, and resolve the waiter of its start."""
        handle = self.open.get(event.command_id)
        if handle is None:
            return
        handle.run_id = event.run_id
        if handle.start is not None and not handle.start.done():
            handle.start.set_result(event.run_id)

    def completed(self, event: ChildWorkflowCompleted) -> None:
        """Resolve with the result, read by the call's result hint."""
        handle = self.open.pop(event.command_id, None)
        if handle is not None:
            handle.set_result(
                self.converter.decode(event.result, handle.hint, f"the result of {handle.workflow_type}")
            )

    def ended_badly(self, event: BadEnd) -> None:
        """Resolve with the error; cancel the future if the code itself cancelled the child."""
        handle = self.open.pop(event.command_id, None)
        if handle is None:
            return
        if isinstance(event, ChildWorkflowCancelled) and handle.cancelling:
            handle.cancel()
            return
        error = child_error(event, handle.workflow_type, handle.workflow_id, handle.run_id, self.converter)
        if handle.start is not None and not handle.start.done():
            handle.start.set_exception(error)
        handle.set_exception(error)
