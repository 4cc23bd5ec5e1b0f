"""What clients send to a run: a signal, an update, a query."""

from __future__ import annotations

from typing import Any

from outlast_runs.queries import QueryRequest
from outlast_runs.updates import UpdateRequest
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.handlers import HandlerCall, QueryCall, SignalCall, UpdateCall, call_of
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import validate_name
from outlast_workflow.primitives.payloads import Payload


def encoded(call: HandlerCall, converter: DataConverter, limits: StructuralLimits, whose: str) -> Payload:
    """The arguments of a call, as its handler can read them, within their limit."""
    payload = converter.encode_request(call.args, call.signature, call.name)
    limits.check("payload_bytes", len(payload.json), whose=whose)
    return payload


def signal_event(
    signal: object,
    args: tuple[Any, ...],
    request_id: str | None,
    *,
    converter: DataConverter,
    limits: StructuralLimits,
    whose: str,
) -> SignalReceived:
    """The event of a signal that a client sends; what can be wrong with it is found here."""
    call = call_of(SignalCall, signal, args)
    if request_id is not None:
        validate_name("request id", request_id)
    return SignalReceived(call.name, encoded(call, converter, limits, whose), request_id)


def update_request(
    update: object,
    args: tuple[Any, ...],
    update_id: str,
    *,
    converter: DataConverter,
    limits: StructuralLimits,
    whose: str,
) -> tuple[UpdateRequest, Any]:
    """An update that a client asks for, and what its answer is read as."""
    call = call_of(UpdateCall, update, args)
    validate_name("update id", update_id)
    input = encoded(call, converter, limits, whose)
    return UpdateRequest(update_id, call.name, input, limits), call.result_hint


def query_request_of(
    query: object,
    args: tuple[Any, ...],
    *,
    converter: DataConverter,
    limits: StructuralLimits,
    whose: str,
) -> tuple[QueryRequest, Any]:
    """A query that a client asks, and what its answer is read as."""
    call = call_of(QueryCall, query, args)
    return QueryRequest(call.name, encoded(call, converter, limits, whose)), call.result_hint
