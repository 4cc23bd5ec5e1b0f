"""Conditions and messages to wait for, running handlers, signals to others. Part of ``outlast.workflow``."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast, overload

from outlast_workflow.api.context import checked_summary, current_machine, reading_machine
from outlast_workflow.declare.handlers import SignalCall, call_of
from outlast_workflow.errors import DurableCallError, InvalidOptionError, WorkflowTaskError
from outlast_workflow.loop.wait_condition import ConditionFuture
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import duration_seconds, validate_name, validate_workflow_id
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run.handler_tasks import CURRENT_UPDATE, UpdateInfo
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.mailbox import NO_DEFAULT

D = TypeVar("D")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def wait_condition(
    predicate: Callable[[], Any],
    timeout: float | timedelta | None = None,
    *,
    timeout_summary: str | None = None,
) -> Coroutine[Any, Any, None]:
    """Wait until a predicate holds. It still holds when this returns.

    The predicate is evaluated whenever nothing else of the run is ready. It must not change anything.

    Args:
        predicate: A plain function of no arguments that computes from the workflow's own state.
        timeout: How long to wait at most, in seconds or as a timedelta, durably; without one, as long as it takes.
        timeout_summary: What the timer of the timeout is for; see the ``summary`` of :func:`outlast.workflow.sleep`.

    Raises:
        TimeoutError: When awaited: the timeout passed, and the predicate did not hold even then.
    """
    machine = current_machine()
    seconds = _timeout(machine, "wait_condition timeout", timeout)
    if timeout_summary is not None:
        timeout_summary = checked_summary(machine, "timeout summary", timeout_summary)
    if not callable(predicate):
        raise machine.log.refuse(
            DurableCallError(
                "wait_condition takes a function without arguments, such as `lambda: self.approved`"
            )
        )
    return cast(
        "Coroutine[Any, Any, None]", ConditionFuture(machine.loop, predicate, seconds, timeout_summary)
    )


def _timeout(machine: WorkflowMachine, field: str, timeout: float | timedelta | None) -> float | None:
    """Return a timeout in seconds. One that has passed already is as good as any other that has."""
    if timeout is None:
        return None
    given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if type(given) in (int, float) and -math.inf < given <= 0:
        return cast(float, given)
    try:
        return duration_seconds(field, given)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None


@overload
def receive(
    name: str, *, timeout: float | timedelta | None = None, result_type: type[T]
) -> Coroutine[Any, Any, T]: ...


@overload
def receive(
    name: str, *, timeout: float | timedelta, default: D, result_type: type[T]
) -> Coroutine[Any, Any, T | D]: ...


@overload
def receive(
    name: str, *, timeout: float | timedelta | None = None, default: Any = ..., result_type: Any = None
) -> Coroutine[Any, Any, Any]: ...


def receive(
    name: str,
    *,
    timeout: float | timedelta | None = None,
    default: Any = NO_DEFAULT,
    result_type: Any = None,
) -> Coroutine[Any, Any, Any]:
    """Receive the oldest signal of a name that was not received yet, or wait for one.

    A signal of one argument is a message: the argument. Without arguments the message is ``None``, of several a list.
    Messages of a name are received in the order in which they arrived, each once, by whoever waits for them in the
    order of the calls. A wait that is cancelled takes no message. What nobody receives moves on to the next run.

    Args:
        name: The name of the signal. The workflow has no handler for it.
        timeout: How long to wait at most, in seconds or as a timedelta, durably; without one, as long as it takes. With
            0, only what is there already is received.
        default: What to return when the timeout passes; without one, :class:`TimeoutError` is raised.
        result_type: What to read the message as; by default plain JSON. Several arguments are read as
            ``tuple[str, int]``.

    Raises:
        TimeoutError: When awaited: no message came in time, and there is no default.
        DurableCallError: Handlers take the signals of this name; fails the task, not the run.
        InvalidOptionError: The name, the timeout or the default cannot be used; fails the task, not the run.
        PayloadDecodeError: The message cannot be read as that type; fails the task, not the run, and loses nothing.
    """
    machine = current_machine()
    try:
        validate_name("signal name", name, segment=True)
        if default is not NO_DEFAULT and timeout is None:
            raise InvalidOptionError(
                "receive with a default needs a timeout, because it waits for ever without one: give timeout=0 to "
                "receive only what is there already",
                field="default",
            )
        if machine.definition.handlers.find("signal", name) is not None:
            raise DurableCallError(
                f"signal {name!r} has a handler in {machine.definition.name}, which gets every signal of that name: "
                "receive another name, or remove the handler"
            )
    except (InvalidOptionError, DurableCallError) as error:
        raise machine.log.refuse(error) from None
    seconds = _timeout(machine, "receive timeout", timeout)
    return cast(
        "Coroutine[Any, Any, Any]", machine.handling.mailbox.receive(name, seconds, default, result_type)
    )


def all_handlers_finished() -> bool:
    """Return whether no handler is running. Await ``wait_condition(all_handlers_finished)`` before the run ends."""
    return reading_machine().handlers_running == 0


def current_update_info() -> UpdateInfo | None:
    """Return the id and name of the update that the calling handler or validator serves; ``None`` elsewhere."""
    reading_machine()
    return CURRENT_UPDATE.get()


class ExternalWorkflow:
    """Another workflow, seen from a workflow."""

    __slots__ = ("run_id", "workflow_id")

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ExternalWorkflow")

    def __init__(self, workflow_id: str, run_id: str | None = None) -> None:
        self.workflow_id = workflow_id
        self.run_id = run_id

    @overload
    def signal(self, signal: Callable[[*Ts], SignalCall], *args: *Ts) -> Coroutine[Any, Any, None]: ...

    @overload
    def signal(self, signal: str, *args: Any) -> Coroutine[Any, Any, None]: ...

    def signal(  # type: ignore[misc]  # mypy: `*args: Any` takes any `*Ts`
        self, signal: Any, *args: Any, **unknown: Any
    ) -> Any:
        """Send a signal. It is sent with this workflow task's other commands, awaited or not.

        Awaiting it waits until it is delivered.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: Its arguments.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            WorkflowNotFoundError: When awaited: there is no such workflow.
            WorkflowClosedError: When awaited: it has already ended.
        """
        machine = current_machine()
        try:
            if unknown:
                refuse_unknown("signal", unknown, ())
            call = call_of(SignalCall, signal, args)
        except (InvalidOptionError, WorkflowTaskError) as error:
            raise machine.log.refuse(error) from None
        return machine.externals.signal(self.workflow_id, self.run_id, call.name, call.args, call.signature)


def external(workflow_id: str, *, run_id: str | None = None) -> ExternalWorkflow:
    """Return a handle of another workflow, to send signals to.

    Args:
        workflow_id: Its id.
        run_id: Signal only this run (or the runs that followed it); by default the latest run.
    """
    machine = current_machine()
    try:
        return ExternalWorkflow(validate_workflow_id(workflow_id), run_id)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None
