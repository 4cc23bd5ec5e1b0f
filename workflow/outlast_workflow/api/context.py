"""The run whose code is calling, found through the running event loop."""

from __future__ import annotations

from asyncio import events

from outlast_workflow.errors import DurableCallError
from outlast_workflow.run.machine import RunLoop, WorkflowMachine


def in_workflow() -> bool:
    """Whether the caller is workflow code."""
    return isinstance(events._get_running_loop(), RunLoop)


def in_replay() -> bool:
    """Whether the caller is workflow code that is being replayed: for interceptors and logs, never for decisions."""
    loop = events._get_running_loop()
    return isinstance(loop, RunLoop) and loop.machine is not None and loop.machine.replaying


def current_machine() -> WorkflowMachine:
    """The run whose code is calling.

    Raises:
        DurableCallError: No run's is.
        ReadOnlyContextError: It is, but this part of it may only look.
    """
    machine = reading_machine()
    if machine.log.looking is not None:
        machine.log.looking.refuse("make a durable call")
    return machine


def reading_machine() -> WorkflowMachine:
    """The run whose code is calling, which may be code that only looks (a query, a validator, a predicate).

    Raises:
        DurableCallError: No run's is.
    """
    loop = events._get_running_loop()
    machine = loop.machine if isinstance(loop, RunLoop) else None
    if machine is None:
        raise DurableCallError(
            "this can only be called in a workflow: start one with client.start(…), "
            "or call the plain function where you need no durability"
        )
    return machine
