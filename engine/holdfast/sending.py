"""What clients send to a run: a signal, an update, a query."""

from __future__ import annotations

from typing import Any

from holdfast.questions import Question
from holdfast.requests import RunChange
from holdfast.signalling import deliver, was_delivered
from holdfast.updating import UpdateRequest
from holdfast_store.batch import Batch
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.events import SignalReceived
from holdfast_workflow.handlers import HandlerCall, QueryCall, SignalCall, UpdateCall, call_of
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import validate_name
from holdfast_workflow.payloads import Payload


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


def question_of(
    query: object,
    args: tuple[Any, ...],
    *,
    converter: DataConverter,
    limits: StructuralLimits,
    whose: str,
) -> tuple[Question, Any]:
    """A query that a client asks, and what its answer is read as."""
    call = call_of(QueryCall, query, args)
    return Question(call.name, encoded(call, converter, limits, whose)), call.result_hint


class SendSignal(RunChange):
    """Append a signal to a run, once for each key."""

    def __init__(
        self, workflow_id: str, run_id: str, signal: SignalReceived, limits: StructuralLimits
    ) -> None:
        super().__init__(workflow_id, run_id)
        self.signal = signal
        self.limits = limits
        self.weight = 512 + len(signal.input.json)

    def apply(self, batch: Batch) -> str | None:
        """Returns the run to ask instead, if the chain has gone on (empty: its deadline has just ended it)."""
        known = batch.run(self.run_id)
        if known is not None and was_delivered(batch, known, self.signal):
            return None
        run = self.open_run(batch)
        if isinstance(run, str):
            return run
        deliver(batch, run, self.signal, self.limits)
        return None
