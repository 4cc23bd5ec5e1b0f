"""A run's signals to other workflows.

A signal is delivered in the transaction that records its command. The next workflow task learns the outcome.
"""

from __future__ import annotations

from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import InvalidOptionError, WorkflowTaskError
from outlast_workflow.history.events import (
    ExternalSignalDelivered,
    ExternalSignalFailed,
    ExternalSignalRequested,
)
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.futures import DurableFuture
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.primitives.interceptor_chain import NO_INTERCEPTORS, Chain
from outlast_workflow.primitives.payloads import NOT_NEEDED
from outlast_workflow.run.intercepted_calls import SignalExternal


class ExternalSignalFuture(DurableFuture[None]):
    """A signal on its way to another workflow. Once sent it cannot be withdrawn: cancelling ends only the wait."""

    __slots__ = ("calls", "command_id", "index", "workflow_task")

    def __init__(self, calls: ExternalCalls, command_id: int) -> None:
        super().__init__(calls.loop.hashes, calls.loop)
        self.calls = calls
        self.command_id = command_id
        self.workflow_task = 0
        self.index = 0

    def cancel(self, msg: Any | None = None) -> bool:
        """Withdraw the signal if it was not sent yet, and stop waiting."""
        if self.done():
            return False
        calls = self.calls
        if (
            calls.open.pop(self.command_id, None) is not None
            and self.workflow_task == calls.log.workflow_task
        ):
            calls.log.withdraw(self.index)
        return super().cancel(msg)

    def default_name(self) -> str:
        """Return the signal's command id, as ``signal#7``."""
        return f"signal#{self.command_id}"


class ExternalCalls:
    """The signals of one run whose outcome is open."""

    __slots__ = ("converter", "interceptors", "log", "loop", "open")

    def __init__(
        self, loop: DeterministicLoop, converter: DataConverter, interceptors: Chain = NO_INTERCEPTORS
    ) -> None:
        self.loop = loop
        self.log: CommandLog = loop.log
        self.converter = converter
        self.interceptors = interceptors
        self.open: dict[int, ExternalSignalFuture] = {}

    def signal(
        self,
        workflow_id: str,
        run_id: str | None,
        name: str,
        args: tuple[Any, ...],
        signature: CallSignature | None,
        headers: dict[str, str] | None = None,
    ) -> ExternalSignalFuture:
        """Add the command that sends a signal.

        Args:
            workflow_id: The workflow that gets it.
            run_id: The one run that may get it; ``None`` for the workflow's current run.
            name: The signal's name.
            args: Its arguments.
            signature: The signature of its handler, if that is known.
            headers: The headers that the interceptors left; ``None`` before they are called.

        Raises:
            PayloadEncodeError: An argument has no JSON form; fails the task.
            DurableCallError: An argument is not what the handler's type hint says; fails the task.
            StructuralLimitError: The arguments are too large; fails the run.
        """
        if self.interceptors and headers is None:
            return self.interceptors.call(
                "signal_external",
                SignalExternal(workflow_id, name, args),
                lambda call: self.signal(
                    call.workflow_id, run_id, call.name, call.args, signature, call.headers or {}
                ),
            )
        log = self.log
        command_id = log.next_id()
        input = NOT_NEEDED
        checked = None
        if not log.replaying:
            try:
                input = self.converter.encode_request(args, signature, f"signal {name!r}")
                checked = checked_headers(headers) if headers else None
            except (WorkflowTaskError, InvalidOptionError) as error:
                raise log.refuse(error) from None
            log.check("payload_bytes", len(input.json))
        future = ExternalSignalFuture(self, command_id)
        future.workflow_task = log.workflow_task
        future.index = log.add(ExternalSignalRequested(command_id, workflow_id, name, input, run_id, checked))
        self.open[command_id] = future
        return future

    def delivered(self, event: ExternalSignalDelivered) -> None:
        """Resolve the wait: the signal was delivered."""
        future = self.open.pop(event.command_id, None)
        if future is not None:
            future.set_result(None)

    def failed(self, event: ExternalSignalFailed) -> None:
        """Raise in the waiter: the signal could not be delivered."""
        future = self.open.pop(event.command_id, None)
        if future is not None:
            future.set_exception(exception_of(event.failure, self.converter))
