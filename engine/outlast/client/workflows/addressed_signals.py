"""Signals with the workflows that they are for, sent together: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVarTuple, overload

from outlast.client.context import ClientContext
from outlast.client.intercepted_calls import SignalMany, SignalWorkflow
from outlast.client.workflows.encoded_calls import signal_event
from outlast_runs.signals import SendSignals
from outlast_store.reads.runs import find_current_runs
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.handlers import SignalCall, call_of
from outlast_workflow.errors import InvalidOptionError, WorkflowNotFoundError
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.validation import validate_list, validate_workflow_id

Ts = TypeVarTuple("Ts")

MOST_SIGNALS: Final = 1000
"""How many signals are sent together at most."""


class SignalTo:
    """A signal and the workflow that it is for: ``SignalTo("order-1", Order.approve, "ada", request_id="k")``.

    Attributes:
        workflow_id: The workflow.
        call: The signal with its arguments.
        request_id: A key of the caller's own: signals with the same key reach the workflow once.
    """

    __slots__ = ("call", "request_id", "workflow_id")

    @overload
    def __init__(
        self,
        workflow_id: str,
        signal: Callable[[*Ts], SignalCall],
        *args: *Ts,
        request_id: str | None = None,
    ) -> None: ...

    @overload
    def __init__(self, workflow_id: str, signal: SignalCall, *, request_id: str | None = None) -> None: ...

    @overload
    def __init__(self, workflow_id: str, signal: str, *args: Any, request_id: str | None = None) -> None: ...

    def __init__(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
        self, workflow_id: str, signal: Any, *args: Any, request_id: str | None = None
    ) -> None:
        """Address a signal.

        Args:
            workflow_id: The workflow.
            signal: ``Order.approve``, ``Order.approve("ada")``, or a signal's name.
            *args: The signal's arguments.
            request_id: A key of your own.

        Raises:
            InvalidOptionError: The id or the signal cannot be one.
            DurableCallError: The number of arguments is wrong.
        """
        self.workflow_id = validate_workflow_id(workflow_id)
        self.call = call_of(SignalCall, signal, args)
        self.request_id = request_id

    def __repr__(self) -> str:
        return f"<SignalTo {self.workflow_id!r} {self.call.name}>"


async def signal_many(
    context: ClientContext, signals: Iterable[SignalTo], *, to_forks: bool, connection: object = None
) -> Sequence[str]:
    """Send signals in one transaction.

    Args:
        context: The client's.
        signals: The signals, in order.
        to_forks: Whether the forks of those workflows get them too.
        connection: A connection of the user's, in whose transaction they are written to the outbox.

    Raises:
        OutlastError: As for :meth:`outlast.Client.signal_many`.
    """
    given = _checked(signals)
    if to_forks and connection is not None:
        raise InvalidOptionError(
            "the forks that there are when your transaction commits are not known yet: give to_forks or connection",
            field="to_forks",
        )
    if not context.interceptors:
        plain = [(one, None) for one in given]
        return await _send(context, plain, to_forks=to_forks, connection=connection)

    async def innermost(call: SignalMany) -> Sequence[str]:
        changed: list[tuple[SignalTo, dict[str, Any] | None]] = []
        for one, before in zip(call.signals, given, strict=True):
            signal = SignalTo(one.workflow_id, one.name, *one.args, request_id=one.request_id)
            signal.call = SignalCall(one.name, one.args, before.call.signature)
            changed.append((signal, checked_headers(one.headers)))
        return await _send(context, changed, to_forks=call.to_forks, connection=connection)

    call = SignalMany(
        [
            SignalWorkflow(one.workflow_id, None, one.call.name, one.call.args, one.request_id)
            for one in given
        ],
        to_forks,
    )
    found: Sequence[str] = await context.interceptors.call("signal_many", call, innermost)
    return found


def _checked(signals: Iterable[SignalTo]) -> list[SignalTo]:
    given: list[SignalTo] = validate_list("signals", signals, "SignalTo(workflow_id, signal, …)")
    for one in given:
        if not isinstance(one, SignalTo):
            raise InvalidOptionError(
                f"signal_many takes a list of SignalTo(workflow_id, signal, …), not {type(one).__name__}",
                field="signals",
            )
    if len(given) > MOST_SIGNALS:
        raise InvalidOptionError(
            f"signal_many takes at most {MOST_SIGNALS:,} signals, not {len(given):,}: they are one transaction; send "
            "several lists",
            field="signals",
        )
    keys: set[tuple[str, str]] = set()
    for one in given:
        if one.request_id is None:
            continue
        key = one.workflow_id, one.request_id
        if key in keys:
            raise InvalidOptionError(
                f"workflow {one.workflow_id!r} is sent two signals with the request id {one.request_id!r}: the second "
                "would be dropped; give each its own",
                field="request_id",
            )
        keys.add(key)
    return given


async def _send(
    context: ClientContext,
    signals: Sequence[tuple[SignalTo, dict[str, Any] | None]],
    *,
    to_forks: bool,
    connection: object,
) -> Sequence[str]:
    if not signals:
        return []
    events: list[tuple[str, SignalReceived]] = [
        (
            one.workflow_id,
            signal_event(context, one.call, one.request_id, headers, one.workflow_id),
        )
        for one, headers in signals
    ]
    if connection is not None:
        from outlast.outbox.writing import write_signals

        return await write_signals(context.runtime, connection, events)
    wanted = list(dict.fromkeys(workflow_id for workflow_id, _ in events))
    while True:
        current = await context.runtime.read(find_current_runs, wanted)
        for workflow_id in wanted:
            if workflow_id not in current:
                raise WorkflowNotFoundError(workflow_id)
        change = SendSignals(events, current, context.limits, to_forks=to_forks)
        sent = await context.runtime.journal.apply(change)
        if sent is not None:
            return sent
