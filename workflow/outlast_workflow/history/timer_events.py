"""Events of timers."""

from __future__ import annotations

from outlast_workflow.history.event import Event, record


@record
class TimerScheduled(Event):
    """The code started a timer. ``fire_at`` is in microseconds since the epoch."""

    command = True
    command_id: int
    fire_at: int
    summary: str | None = None


@record
class TimerFired(Event):
    """The timer fired. ``fire_at`` is repeated, because the workflow task's time must not lie before it."""

    inbound = True
    command_id: int
    fire_at: int


@record
class TimerCancelled(Event):
    """The code cancelled the timer; ``by`` if the engine closed it with its run."""

    command = True
    command_id: int
    by: str | None = None
