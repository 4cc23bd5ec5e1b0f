"""Events of timers."""

from __future__ import annotations

from outlast_workflow.history.event import Event, record


@record
class TimerScheduled(Event):
    """The code began to wait. ``fire_at`` is in microseconds since the epoch."""

    command = True
    command_id: int
    fire_at: int


@record
class TimerFired(Event):
    """The time came. ``fire_at`` again: the workflow task is at least as late."""

    inbound = True
    command_id: int
    fire_at: int


@record
class TimerCancelled(Event):
    """The code stopped waiting; ``by`` when the engine closed it with its run."""

    command = True
    command_id: int
    by: str | None = None
