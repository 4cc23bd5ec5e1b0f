"""What a run has open: its activities, timers and children, by command id.

An owner that knows there is nothing closes the run without asking the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    ChildWorkflowCancelled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowScheduled,
    ChildWorkflowStartFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Event,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
)

OPENS: Final[frozenset[type[Event]]] = frozenset((ActivityScheduled, TimerScheduled, ChildWorkflowScheduled))
"""The commands that open something."""

ENDS: Final[frozenset[type[Event]]] = frozenset(
    (
        ActivityCompleted,
        ActivityFailed,
        ActivityTimedOut,
        ActivityCancelled,
        TimerFired,
        TimerCancelled,
        ChildWorkflowCompleted,
        ChildWorkflowFailed,
        ChildWorkflowTimedOut,
        ChildWorkflowCancelled,
        ChildWorkflowTerminated,
        ChildWorkflowStartFailed,
    )
)
"""The events after which it is open no more."""


def note_open(open_ids: set[int], events: Iterable[Any]) -> None:
    """Events were written, or are about to be."""
    for event in events:
        kind = type(event)
        if kind in OPENS:
            open_ids.add(event.command_id)
        elif kind in ENDS:
            open_ids.discard(event.command_id)
