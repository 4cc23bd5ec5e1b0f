"""What the end of a workflow's code becomes: its terminal event, or an error that fails the task."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.errors import (
    ContinueAsNew,
    DurableCallError,
    InvalidOptionError,
    PayloadEncodeError,
    StructuralLimitError,
)
from outlast_workflow.errors.control_flow import CancelRun
from outlast_workflow.history.events import (
    Event,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.options.failure_types import ENGINE_ERRORS, FailureTypes, verdict
from outlast_workflow.options.search_attributes import size_of, to_document
from outlast_workflow.primitives.payloads import NOT_NEEDED
from outlast_workflow.run.intercepted_calls import ContinueAsNewCall

BY_LIMIT = "structural_limit"
"""The ``by`` of a run that exceeded a limit: the engine ended it, not the code, so replay does not expect it."""
BY_CLOSED_STREAM = "stream_closed"
"""The ``by`` of a run that wrote to a stream that another run of its chain had closed; likewise."""
BY_FAILURE_TYPE = "workflow_failure_types"
"""The ``by`` of a run whose workflow task failed with one of the ``workflow_failure_types``; likewise."""


def _explain(error: TypeError) -> None:
    """Say what to call instead, where ``asyncio.sleep`` was given a timedelta."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    asleep = traceback is not None and traceback.tb_frame.f_code is asyncio.sleep.__code__
    if asleep and "timedelta" in str(error):
        error.args = (f"{error}: asyncio.sleep takes seconds; workflow.sleep takes a timedelta, too",)


class Outcomes:
    """The end of one run."""

    __slots__ = ("cancel_request", "converter", "definition", "failure_types", "headers", "log")

    def __init__(
        self,
        log: CommandLog,
        definition: WorkflowDefinition,
        converter: DataConverter,
        failure_types: FailureTypes,
    ) -> None:
        self.log = log
        self.definition = definition
        self.converter = converter
        self.failure_types = failure_types
        self.cancel_request: WorkflowCancelRequested | None = None
        self.headers: dict[str, Any] | None = None  # what the run was started with, and the next one will be

    def returned(self, result: Any) -> Event | None:
        """Return the event of a run whose code returned a value."""
        log = self.log
        if log.replaying:
            return WorkflowCompleted(NOT_NEEDED)
        try:
            payload = self.converter.encode(result, f"the result of workflow {self.definition.name}")
            if len(payload.json) >= log.near["payload_bytes"]:
                log.check("payload_bytes", len(payload.json))
        except (PayloadEncodeError, StructuralLimitError) as error:
            log.refuse(error)
            return None
        return WorkflowCompleted(payload)

    def raised(self, error: BaseException) -> Event | None:
        """Return the event of a run whose code raised: continuing as new, a cancellation, or the failure of the run."""
        if self.log.refusal is not None:
            return None
        if isinstance(error, TypeError):
            _explain(error)
        if isinstance(error, ContinueAsNew):
            return self.continued(error)
        if isinstance(error, asyncio.CancelledError) and self.cancel_request is not None:
            return WorkflowCancelled(self.cancel_request.reason)
        if isinstance(error, CancelRun):
            return WorkflowCancelled(error.reason)
        if self.fails_the_task(error):
            self.log.refuse(error)
            return None
        return WorkflowFailed(failure_of(error, self.converter))

    def fails_the_task(self, error: BaseException) -> bool:
        """Return whether an exception that has left the code fails the task. What becomes of the run is not said here.

        In replay history says what failed the run, whatever the lists say by now.
        """
        if isinstance(error, ENGINE_ERRORS):
            return True
        if self.log.replaying:
            return False
        return verdict(error, self.definition.failure_types, self.failure_types) is False

    def limited(self, error: StructuralLimitError) -> WorkflowFailed:
        """Return the event of a run that exceeded a limit."""
        return WorkflowFailed(failure_of(error, self.converter), by=BY_LIMIT)

    def continued(self, request: ContinueAsNew) -> Event | None:
        """Return the event of a run that continues as new."""
        if self.definition.interceptors:
            self._intercept(request)
        log = self.log
        name = request.workflow_type or self.definition.name
        if log.replaying:
            return WorkflowContinuedAsNew(name, NOT_NEEDED)
        signature = self.definition.signature if name == self.definition.name else None
        memo = attributes = None
        try:
            arguments = self.converter.encode_request(request.arguments, signature, "the next run's input")
            log.check("payload_bytes", len(arguments.json))
            if request.memo is not None:
                memo = self.converter.encode(request.memo, "the next run's memo")
                log.check("memo_bytes", len(memo.json))
            if request.search_attributes is not None:
                attributes = to_document(request.search_attributes)
                log.check("search_attributes_bytes", size_of(attributes))
        except (DurableCallError, PayloadEncodeError, StructuralLimitError) as error:
            log.refuse(error)
            return None
        return WorkflowContinuedAsNew(
            name,
            arguments,
            task_queue=request.task_queue,
            run_timeout_seconds=request.run_timeout,
            memo=memo,
            headers=self.headers,
            search_attributes=attributes,
            retry_policy=request.retry_policy,
            start_delay_seconds=request.start_delay,
        )

    def _intercept(self, request: ContinueAsNew) -> None:
        """Pass the next run through the interceptors, which may change its arguments and headers."""
        name = request.workflow_type or self.definition.name
        call = ContinueAsNewCall(name, request.arguments, dict(self.headers or {}))
        self.definition.interceptors.call(
            "continue_as_new", call, lambda call: self._let_through(request, call)
        )

    def _let_through(self, request: ContinueAsNew, call: ContinueAsNewCall) -> None:
        request.arguments = call.args
        self.headers = None
        if not self.log.replaying:
            try:
                self.headers = checked_headers(call.headers)
            except InvalidOptionError as error:
                raise self.log.refuse(error) from None
