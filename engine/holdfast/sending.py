"""What clients send to a run: a signal."""

from __future__ import annotations

from typing import Any

from holdfast.requests import RunChange
from holdfast.signalling import deliver, was_delivered
from holdfast_store.batch import Batch
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.events import SignalReceived
from holdfast_workflow.handlers import HandlerCall, SignalCall, call_of
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import validate_name
from holdfast_workflow.payloads import Payload


def encoded(call: HandlerCall, converter: DataConverter, limits: StructuralLimits, whose: str) -> Payload:
    """The arguments of a call, within their limit."""
    payload = converter.encode_args(call.args, call.signature, call.name)
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


class SendSignal(RunChange):
    """Append a signal to a run, once for each key."""

    def __init__(self, workflow_id: str, run_id: str, signal: SignalReceived, most: int) -> None:
        super().__init__(workflow_id, run_id)
        self.signal = signal
        self.most = most
        self.weight = 512 + len(signal.input.json)

    def apply(self, batch: Batch) -> str | None:
        """Returns the run to ask instead, if the chain has gone on (empty: its deadline has just ended it)."""
        known = batch.run(self.run_id)
        if known is not None and was_delivered(batch, known, self.signal):
            return None
        run = self.open_run(batch)
        if isinstance(run, str):
            return run
        deliver(batch, run, self.signal, self.most)
        return None
