"""The open activities, timers and children of a run, by command id.

An owner that knows that nothing is open closes the run without a query.
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
"""The commands that open an activity, a timer or a child."""

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
"""The events that close one."""


def note_open(open_ids: set[int], events: Iterable[Any]) -> None:
    """Update the ids for events that were written, or are about to be."""
    for event in events:
        kind = type(event)
        if kind in OPENS:
            open_ids.add(event.command_id)
        elif kind in ENDS:
            open_ids.discard(event.command_id)
