"""What a client sends to a run, encoded and checked: a signal, an update, a query."""

from __future__ import annotations

from typing import Any

from outlast.client.context import ClientContext
from outlast_runs.queries import QueryRequest
from outlast_runs.updates import UpdateRequest
from outlast_workflow.declare.handlers import HandlerCall, QueryCall, SignalCall, UpdateCall
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.options import validate_name
from outlast_workflow.primitives.payloads import Payload

StoredHeaders = dict[str, Any] | None
"""Headers that were checked; ``None`` where there are none."""


def encoded(context: ClientContext, call: HandlerCall, workflow_id: str) -> Payload:
    """Return the arguments of a call as its handler can read them.

    Args:
        context: The converter and the limits.
        call: The handler's name and its arguments.
        workflow_id: The workflow that gets them, for the message of an error.

    Raises:
        PayloadEncodeError: An argument has no JSON form.
        StructuralLimitError: The arguments are too large.
    """
    payload = context.converter.encode_request(call.args, call.signature, call.name)
    if len(payload.json) >= context.limits.near["payload_bytes"]:
        context.limits.check("payload_bytes", len(payload.json), whose=workflow_id)
    return payload


def signal_event(
    context: ClientContext, call: SignalCall, request_id: str | None, headers: StoredHeaders, workflow_id: str
) -> SignalReceived:
    """Return the event of a signal; whatever can be wrong with the signal is found here.

    Args:
        context: The converter and the limits.
        call: The signal.
        request_id: The caller's key, if any.
        headers: What interceptors have given it.
        workflow_id: The workflow that gets it, for the message of an error.

    Raises:
        InvalidOptionError: The key cannot be used.
        PayloadEncodeError: An argument has no JSON form.
        StructuralLimitError: The arguments are too large.
    """
    if request_id is not None:
        validate_name("request id", request_id)
    return SignalReceived(call.name, encoded(context, call, workflow_id), request_id, headers)


def update_request(
    context: ClientContext, call: UpdateCall[Any], update_id: str, headers: StoredHeaders, workflow_id: str
) -> UpdateRequest:
    """Return the request of an update; the arguments and errors are those of :func:`signal_event`."""
    validate_name("update id", update_id)
    return UpdateRequest(
        update_id, call.name, encoded(context, call, workflow_id), context.limits, headers=headers
    )


def query_request(
    context: ClientContext, call: QueryCall[Any], headers: StoredHeaders, workflow_id: str
) -> QueryRequest:
    """Return the request of a query; the arguments and errors are those of :func:`signal_event`."""
    return QueryRequest(call.name, encoded(context, call, workflow_id), headers=headers)
