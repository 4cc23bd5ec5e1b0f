"""Conditions to wait for, running handlers, and signals to other workflows. Part of ``outlast.workflow``."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVarTuple, cast, overload

from outlast_workflow.api.context import checked_summary, current_machine, reading_machine
from outlast_workflow.declare.handlers import SignalCall, call_of
from outlast_workflow.errors import DurableCallError, InvalidOptionError, WorkflowTaskError
from outlast_workflow.loop.wait_condition import ConditionFuture
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import duration_seconds, validate_workflow_id
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run.handler_tasks import CURRENT_UPDATE, UpdateInfo

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
    seconds: float | None = None
    if timeout is not None:
        given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if type(given) not in (int, float) or not -math.inf < given <= 0:
            try:
                given = duration_seconds("wait_condition timeout", given)
            except InvalidOptionError as error:
                raise machine.log.refuse(error) from None
        seconds = given
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
