"""The run whose code is calling, found through the running event loop."""

from __future__ import annotations

from asyncio import events

from outlast_workflow.errors import DurableCallError, InvalidOptionError
from outlast_workflow.options.validation import validate_summary
from outlast_workflow.run.machine import RunLoop, WorkflowMachine


def in_workflow() -> bool:
    """Return whether the caller is workflow code."""
    return isinstance(events._get_running_loop(), RunLoop)


def in_replay() -> bool:
    """Return whether the caller is workflow code in replay. For interceptors and logs, never for decisions."""
    loop = events._get_running_loop()
    return isinstance(loop, RunLoop) and loop.machine is not None and loop.machine.replaying


def current_machine() -> WorkflowMachine:
    """Return the run whose code is calling, to change it.

    Raises:
        DurableCallError: The caller is not workflow code.
        ReadOnlyContextError: The caller is a query, a validator or a predicate.
    """
    loop = events._get_running_loop()
    machine = loop.machine if isinstance(loop, RunLoop) else None
    if machine is None:
        raise _outside()
    if machine.log.read_only is not None:
        machine.log.read_only.refuse("make a durable call")
    return machine


def checked_summary(machine: WorkflowMachine, field: str, summary: str) -> str | None:
    """Return the summary of a durable call. It is checked live only: in replay the recorded event stands.

    Args:
        machine: The run.
        field: What messages call it, in words.
        summary: The text.

    Raises:
        InvalidOptionError: It is too long, or no text; the workflow task fails even if this is caught.
    """
    if machine.replaying:
        return None
    try:
        return validate_summary(summary, field)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None


def reading_machine() -> WorkflowMachine:
    """Return the run whose code is calling, to read from it: a query, a validator or a predicate may call too.

    Raises:
        DurableCallError: The caller is not workflow code.
    """
    loop = events._get_running_loop()
    machine = loop.machine if isinstance(loop, RunLoop) else None
    if machine is None:
        raise _outside()
    return machine


def _outside() -> DurableCallError:
    return DurableCallError(
        "this can only be called in a workflow: start one with client.start(…), "
        "or call the plain function where you need no durability"
    )
