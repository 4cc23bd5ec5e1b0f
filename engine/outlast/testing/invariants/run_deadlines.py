"""What must hold of the run deadline: history says which one holds, and the code only ever brings it nearer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.primitives.times import from_iso

RUN_DEADLINES = (
    events.WorkflowStarted,
    events.WorkflowDequeued,
    events.WorkflowStartChanged,
    events.WorkflowDeadlineLowered,
)
"""The events that say which run deadline holds from there on."""


def run_deadline_of(history: Sequence[Event]) -> str | None:
    """Return the run deadline that a history says holds at its end."""
    said = [event for event in history if isinstance(event, RUN_DEADLINES)]
    return said[-1].run_deadline_at if said else None


def last_lowering(history: Sequence[Event]) -> tuple[int, int | None]:
    """Return the last seq of the workflow task with the code's last limit, and the run deadline before that task.

    A limit may be over when it is set. What its workflow task did with it, it did in time.

    Args:
        history: The events of a run, in order.
    """
    end = 0
    deadline: int | None = None
    found: tuple[int, int | None] = (0, None)
    for seq, event in enumerate(history, 1):
        if isinstance(event, events.WorkflowTaskCompleted):
            end = seq + event.commands
        elif isinstance(event, events.WorkflowDeadlineLowered) and end != found[0]:
            found = (end, deadline)
        if isinstance(event, RUN_DEADLINES):
            deadline = from_iso(event.run_deadline_at) if event.run_deadline_at is not None else None
    return found


def check_lowered(history: Sequence[Event]) -> Iterator[str]:
    """Check that each limit of the code is shorter than those before it, and that none moves the deadline away.

    Args:
        history: The events of a run, in order.
    """
    deadline: str | None = None
    shortest: float | None = None
    for event in history:
        if not isinstance(event, RUN_DEADLINES):
            continue
        if isinstance(event, events.WorkflowStarted):
            shortest = event.run_timeout_seconds
        elif isinstance(event, events.WorkflowDeadlineLowered):
            if deadline is not None and from_iso(event.run_deadline_at) > from_iso(deadline):
                yield f"the code moved the run deadline from {deadline} to {event.run_deadline_at}, which is later"
            if shortest is not None and event.timeout_seconds >= shortest:
                yield f"a limit of {event.timeout_seconds} s was recorded beside a timeout of {shortest} s"
            shortest = event.timeout_seconds
        deadline = event.run_deadline_at
