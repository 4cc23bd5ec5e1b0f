"""Tracing by OpenTelemetry: ``Client.connect(url, interceptors=[TracingInterceptor()])``.

A workflow may live for months and in many processes, so no single span covers it. Spans are short, and linked by the
context that travels in headers (W3C trace context, or the propagator that the process has set), as Temporal's are::

    StartWorkflow:Order                     the client
    ├── RunWorkflow:Order                   a run begins (each run of the chain; no duration)
    ├── StartActivity:charge                the code calls an activity (no duration)
    │   ├── RunActivity:charge              an attempt, as long as it takes
    │   └── RunActivity:charge              the next attempt, in any process
    ├── StartChildWorkflow:Parcel
    │   └── RunWorkflow:Parcel
    └── CompleteWorkflow:Order              a run ends by its code
    SignalWorkflow:approve                  the client, or another workflow (SignalExternalWorkflow)
    └── HandleSignal:approve                linked to the run that handles it
    UpdateWorkflow:set_price                likewise; QueryWorkflow:status is a span of its own
    └── HandleUpdate:set_price

Replay makes no spans. If a commit is lost or refused, the code runs that workflow task again and makes its spans again:
each span is made at least once, and nearly always once. Errors are recorded by type, never with messages or arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from outlast import workflow
from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.update_handle import UpdateHandle
from outlast.interceptors import (
    HandleQuery,
    HandleSignal,
    HandleUpdate,
    Interceptor,
    QueryWorkflow,
    ReceiveMessage,
    RunActivity,
    RunWorkflow,
    SignalExternal,
    SignalMany,
    SignalWorkflow,
    StartActivity,
    StartChild,
    StartWorkflow,
    UpdateWorkflow,
)
from outlast.version import __version__
from outlast_workflow.data.headers import RUN_HEADERS
from outlast_workflow.errors.control_flow import ContinueAsNew
from outlast_workflow.loop.eviction import RunEvicted
from outlast_workflow.run.activity_calls import ActivityFuture
from outlast_workflow.run.child_calls import ChildWorkflowHandle
from outlast_workflow.run.external_signals import ExternalSignalFuture

__all__ = ["TracingInterceptor"]

Attributes = dict[str, str | int]

_NO_ERRORS = (asyncio.CancelledError, ContinueAsNew, RunEvicted, GeneratorExit)


class TracingInterceptor(Interceptor):
    """Makes spans for what clients, workflows and activities do; see the module.

    Args:
        tracer_provider: Where spans go; by default the process's own, whether it is set before or after.
        propagator: How the context is written into headers; by default the process's own (W3C unless it was changed).
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, propagator: TextMapPropagator | None = None
    ) -> None:
        self._tracer: Tracer = trace.get_tracer("outlast", __version__, tracer_provider)
        self._propagator = propagator

    # --- clients ----------------------------------------------------------------------------------------------------

    async def start_workflow(
        self, call: StartWorkflow, next: Callable[[StartWorkflow], Coroutine[Any, Any, WorkflowHandle[Any]]]
    ) -> WorkflowHandle[Any]:
        """Make a span around a start."""
        name = "StartWorkflow"
        if call.signal is not None or call.update is not None:
            name = "SignalWithStartWorkflow" if call.update is None else "UpdateWithStartWorkflow"
        attributes: Attributes = {"outlast.workflow.type": call.workflow_type}
        with self._span(f"{name}:{call.workflow_type}", SpanKind.PRODUCER, attributes) as span:
            self._inject(call.headers)
            handle = await next(call)
            span.set_attribute("outlast.workflow.id", handle.workflow_id)
            if handle.run_id is not None:
                span.set_attribute("outlast.run.id", handle.run_id)
            return handle

    async def signal_workflow(
        self, call: SignalWorkflow, next: Callable[[SignalWorkflow], Coroutine[Any, Any, None]]
    ) -> None:
        """Make a span around a signal."""
        attributes: Attributes = {"outlast.workflow.id": call.workflow_id}
        with self._span(f"SignalWorkflow:{call.name}", SpanKind.PRODUCER, attributes):
            self._inject(call.headers)
            await next(call)

    async def signal_many(
        self, call: SignalMany, next: Callable[[SignalMany], Coroutine[Any, Any, Sequence[str]]]
    ) -> Sequence[str]:
        """Make a span around signals that are sent together."""
        with self._span("SignalMany", SpanKind.PRODUCER, {"outlast.signals": len(call.signals)}):
            for signal in call.signals:
                self._inject(signal.headers)
            return await next(call)

    async def update_workflow(
        self, call: UpdateWorkflow, next: Callable[[UpdateWorkflow], Coroutine[Any, Any, UpdateHandle[Any]]]
    ) -> UpdateHandle[Any]:
        """Make a span around the sending of an update."""
        attributes: Attributes = {"outlast.workflow.id": call.workflow_id, "outlast.update.id": call.id}
        with self._span(f"UpdateWorkflow:{call.name}", SpanKind.PRODUCER, attributes):
            self._inject(call.headers)
            return await next(call)

    async def query_workflow(
        self, call: QueryWorkflow, next: Callable[[QueryWorkflow], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Make a span around a query."""
        attributes: Attributes = {"outlast.workflow.id": call.workflow_id}
        with self._span(f"QueryWorkflow:{call.name}", SpanKind.CLIENT, attributes):
            self._inject(call.headers)
            return await next(call)

    # --- workflows --------------------------------------------------------------------------------------------------

    async def run_workflow(
        self, call: RunWorkflow, next: Callable[[RunWorkflow], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Make a span where a run begins and one where it ends; its code runs in the context of its start."""
        contexts.attach(self._extract(call.headers))
        self._moment(f"RunWorkflow:{call.workflow_type}", SpanKind.CONSUMER)
        name = f"CompleteWorkflow:{call.workflow_type}"
        try:
            result = await next(call)
        except BaseException as error:
            if not isinstance(error, RunEvicted | GeneratorExit):
                self._moment(name, SpanKind.INTERNAL, error=error)
            raise
        self._moment(name, SpanKind.INTERNAL)
        return result

    async def handle_signal(
        self, call: HandleSignal, next: Callable[[HandleSignal], Coroutine[Any, Any, None]]
    ) -> None:
        """Make a span where a signal is handled: in its sender's trace, linked to the run in whose context it runs."""
        self._arrived(f"HandleSignal:{call.name}", call.headers)
        await next(call)

    def receive_message(self, call: ReceiveMessage, next: Callable[[ReceiveMessage], Any]) -> Any:
        """Make a span where the code receives a message, as for a signal; the code's own context stays."""
        self._arrived(f"ReceiveMessage:{call.name}", call.headers, enters=False)
        return next(call)

    async def handle_update(
        self, call: HandleUpdate, next: Callable[[HandleUpdate], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Make a span where an update is handled, as for a signal."""
        self._arrived(f"HandleUpdate:{call.name}", call.headers)
        return await next(call)

    def handle_query(self, call: HandleQuery, next: Callable[[HandleQuery], Any]) -> Any:
        """Make a span around a query's handler, in the trace of its sender."""
        with self._span(
            f"HandleQuery:{call.name}", SpanKind.SERVER, _run_attributes(), self._extract(call.headers)
        ):
            return next(call)

    def start_activity(
        self, call: StartActivity, next: Callable[[StartActivity], ActivityFuture[Any]]
    ) -> ActivityFuture[Any]:
        """Make a span where the code calls an activity."""
        attributes: Attributes = {"outlast.activity.type": call.activity_type}
        self._moment(f"StartActivity:{call.activity_type}", SpanKind.PRODUCER, attributes, into=call.headers)
        return next(call)

    def start_child(
        self, call: StartChild, next: Callable[[StartChild], ChildWorkflowHandle[Any]]
    ) -> ChildWorkflowHandle[Any]:
        """Make a span where the code starts a child."""
        name = f"StartChildWorkflow:{call.workflow_type}"
        self._moment(name, SpanKind.PRODUCER, into=call.headers)
        return next(call)

    def signal_external(
        self, call: SignalExternal, next: Callable[[SignalExternal], ExternalSignalFuture]
    ) -> ExternalSignalFuture:
        """Make a span where the code signals another workflow."""
        name = f"SignalExternalWorkflow:{call.name}"
        self._moment(name, SpanKind.PRODUCER, {"outlast.to": call.workflow_id}, into=call.headers)
        return next(call)

    # --- activities -------------------------------------------------------------------------------------------------

    async def run_activity(
        self, call: RunActivity, next: Callable[[RunActivity], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Make a span around an attempt; it is the current span of the activity's code."""
        info = call.info
        attributes: Attributes = {
            "outlast.workflow.id": info.workflow_id,
            "outlast.workflow.type": info.workflow_type,
            "outlast.run.id": info.run_id,
            "outlast.activity.id": info.activity_id,
            "outlast.activity.type": info.activity_type,
            "outlast.attempt": info.attempt,
        }
        name = f"RunActivity:{info.activity_type}"
        with self._span(name, SpanKind.CONSUMER, attributes, self._extract(call.headers)):
            return await next(call)

    # --- spans ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _span(
        self, name: str, kind: SpanKind, attributes: Attributes, context: Context | None = None
    ) -> Generator[Span]:
        """Make a span current for as long as something takes."""
        with self._tracer.start_as_current_span(
            name,
            context,
            kind,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _record(span, error)
                raise

    def _moment(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes | None = None,
        *,
        error: BaseException | None = None,
        into: dict[str, str] | None = None,
    ) -> None:
        """Make a span of no duration for workflow code, with its run's attributes; none in replay."""
        if workflow.in_replay():
            return
        context = contexts.get_current()
        span = self._tracer.start_span(name, context, kind, {**_run_attributes(), **(attributes or {})})
        if error is not None:
            _record(span, error)
        if into is not None:
            self._inject(into, trace.set_span_in_context(span, context))
        span.end()

    def _arrived(self, name: str, headers: Mapping[str, str], *, enters: bool = True) -> None:
        """Make a span where a message is handled, in its sender's trace.

        Args:
            name: The span's name.
            headers: The message's headers.
            enters: Whether the code that follows is a handler, which runs in the context of its run.
        """
        run = self._extract(RUN_HEADERS.get() or {})
        if enters:
            contexts.attach(run)
        if workflow.in_replay():
            return
        sender = self._extract(headers)
        of_run = trace.get_current_span(run).get_span_context()
        known = trace.get_current_span(sender).get_span_context().is_valid
        links = [Link(of_run)] if known and of_run.is_valid else None
        span = self._tracer.start_span(
            name, sender if known else run, SpanKind.CONSUMER, _run_attributes(), links
        )
        span.end()

    # --- headers ----------------------------------------------------------------------------------------------------

    def _inject(self, headers: dict[str, str], context: Context | None = None) -> None:
        propagator: Any = self._propagator or get_global_textmap()
        propagator.inject(headers, context)

    def _extract(self, headers: Mapping[str, str]) -> Context:
        return (self._propagator or get_global_textmap()).extract(headers, Context())


def _run_attributes() -> Attributes:
    """Return the attributes of the run whose code is running."""
    info = workflow.info()
    return {
        "outlast.workflow.id": info.workflow_id,
        "outlast.workflow.type": info.workflow_type,
        "outlast.run.id": info.run_id,
    }


def _record(span: Span, error: BaseException) -> None:
    """Record an error by its type; control flow is recorded as an outcome, not as an error."""
    name = type(error).__qualname__
    if isinstance(error, ContinueAsNew):
        span.set_attribute("outlast.outcome", "continued_as_new")
    elif isinstance(error, _NO_ERRORS):
        span.set_attribute("outlast.outcome", "cancelled")
    else:
        span.add_event("exception", {"exception.type": f"{type(error).__module__}.{name}"})
        span.set_status(Status(StatusCode.ERROR, name))
