"""The points to which a run can be reset, and what was open there: computed from the events alone.

A *point* is the last event that the new run keeps. It lies between workflow tasks: a workflow task's record and its
commands stay together, because replay compares them as one block. Nothing may be open there whose outcome would reach
only the old run: a child, a signal to another workflow, an accepted update.

========================= ==========================================================================================
``first-workflow-task``      keep nothing that the code has decided
``last-workflow-task``       repeat the last workflow task, with the same inbound events
``last-successful``       keep what came before the last failure of an activity or a child, and repeat it
a number                  keep that event and those before it
========================= ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.search_attributes import Document, merged
from outlast_workflow.primitives.payloads import Payload

NAMED: Final = ("first-workflow-task", "last-workflow-task", "last-successful")

_ACTIVITY_ENDS = (
    events.ActivityCompleted,
    events.ActivityFailed,
    events.ActivityTimedOut,
    events.ActivityCancelled,
)
_CHILD_ENDS = (
    events.ChildWorkflowStartFailed,
    events.ChildWorkflowCompleted,
    events.ChildWorkflowFailed,
    events.ChildWorkflowTimedOut,
    events.ChildWorkflowCancelled,
    events.ChildWorkflowTerminated,
)
_FAILURES = (
    events.ActivityFailed,
    events.ActivityTimedOut,
    events.ChildWorkflowStartFailed,
    events.ChildWorkflowFailed,
    events.ChildWorkflowTimedOut,
    events.ChildWorkflowTerminated,
)


@dataclass(slots=True)
class ResetPlan:
    """What a new run keeps of a history, and what is open at its point."""

    seq: int = 0
    activated: bool = False
    task_failing: bool = False
    cancel_requested_at: int | None = None
    size: int = 0
    ended: list[int] = field(default_factory=list)
    """The activities that have ended."""
    scheduled: dict[int, tuple[int, events.ActivityScheduled]] = field(default_factory=dict)
    """The activities that have not ended, with the seq that scheduled each."""
    timers: dict[int, events.TimerScheduled] = field(default_factory=dict)
    """The timers that are open, by command id."""
    memo: Payload | None = None
    search_attributes: Document = field(default_factory=dict)


History = Sequence[tuple[int, Event, int, int]]
"""Seq, event, when it was recorded (µs since the epoch), and the size of its payload in bytes."""


def plan_reset(history: History, to: str | int) -> ResetPlan:
    """Return what a new run keeps from a point of a history.

    Raises:
        InvalidOptionError: ``to`` is neither a number nor one of the names.
        ResetRefusedError: There is no such point, or the run cannot be reset to it.
    """
    seq = _point(history, to)
    walk = _Walk()
    why: str | None = None
    for at, event, recorded_at, size in history:
        if at > seq:
            break
        walk.take(at, event, recorded_at, size)
    why = walk.in_the_way()
    if why is not None:
        raise ResetRefusedError(
            f"event {seq} is no point to reset to, because {why}: {_nearest(history, seq)}"
        )
    return walk.plan


def _point(history: History, to: str | int) -> int:
    records = [at for at, event, _, _ in history if isinstance(event, events.WorkflowTaskCompleted)]
    if isinstance(to, int) and not isinstance(to, bool):
        most = _last_of_the_code(history)
        if not 1 <= to <= most:
            raise ResetRefusedError(
                f"the history can be reset to events 1 to {most}, not {to}: `outlast history` shows them"
            )
        return to
    if to not in NAMED:
        raise InvalidOptionError(
            f"to must be the number of an event, or one of {', '.join(NAMED)}", field="to"
        )
    if to == "first-workflow-task":
        return records[0] - 1 if records else _last_of_the_code(history)
    if to == "last-workflow-task":
        return records[-1] - 1 if records else _last_of_the_code(history)
    failures = [at for at, event, _, _ in history if isinstance(event, _FAILURES)]
    if not failures:
        raise ResetRefusedError(
            "no activity and no child of the run has failed: give the number of an event, last-workflow-task or "
            "first-workflow-task"
        )
    return failures[-1] - 1


def _last_of_the_code(history: History) -> int:
    """Return the last event before those with which the engine ended the run."""
    last = len(history)
    if history[-1][1].terminal:
        last -= 1
        record = next(
            (at for at, event, _, _ in reversed(history) if isinstance(event, events.WorkflowTaskCompleted)),
            0,
        )
        if isinstance(history[-1][1], _BY_ITS_CODE) and getattr(history[-1][1], "by", None) is None:
            return record - 1  # the workflow task that ended it: its block holds the end
        while last > 1 and getattr(history[last - 1][1], "by", None) is not None:
            last -= 1
    return last


_BY_ITS_CODE = (
    events.WorkflowCompleted,
    events.WorkflowFailed,
    events.WorkflowCancelled,
    events.WorkflowContinuedAsNew,
)


def _nearest(history: History, seq: int) -> str:
    """Return the possible points on either side of an impossible one."""
    walk = _Walk()
    good: list[int] = []
    most = _last_of_the_code(history)
    for at, event, recorded_at, size in history:
        if at > most:
            break
        walk.take(at, event, recorded_at, size)
        if walk.in_the_way() is None:
            good.append(at)
    before = max((at for at in good if at < seq), default=None)
    after = min((at for at in good if at > seq), default=None)
    choices = [str(at) for at in (before, after) if at is not None]
    return f"{' and '.join(choices)} can be" if choices else "nor is any other"


class _Walk:
    """The state of a run at each event of its history."""

    def __init__(self) -> None:
        self.plan = ResetPlan()
        self.owed = 0
        self.open: dict[tuple[str, Any], str] = {}

    def take(self, at: int, event: Event, recorded_at: int, size: int) -> None:
        plan = self.plan
        plan.seq = at
        plan.size += size
        if isinstance(event, events.WorkflowTaskCompleted):
            plan.activated, plan.task_failing = True, False
            self.owed = event.commands
        elif event.command and getattr(event, "by", None) is None:
            self.owed -= 1
        if isinstance(event, events.WorkflowStarted):
            plan.memo = event.memo
            plan.search_attributes = merged(None, event.search_attributes or {})
        elif isinstance(event, events.MemoUpserted):
            plan.memo = event.memo
        elif isinstance(event, events.SearchAttributesUpserted):
            plan.search_attributes = merged(plan.search_attributes, event.attributes)
        elif isinstance(event, events.WorkflowTaskFailed):
            plan.task_failing = True
        elif isinstance(event, events.WorkflowCancelRequested):
            plan.cancel_requested_at = recorded_at
        else:
            self._nouns(at, event)

    def _nouns(self, at: int, event: Event) -> None:
        plan = self.plan
        if isinstance(event, events.ActivityScheduled):
            plan.scheduled[event.command_id] = (at, event)
        elif isinstance(event, _ACTIVITY_ENDS):
            if plan.scheduled.pop(event.command_id, None) is not None:
                plan.ended.append(event.command_id)
        elif isinstance(event, events.TimerScheduled):
            plan.timers[event.command_id] = event
        elif isinstance(event, events.TimerFired | events.TimerCancelled):
            plan.timers.pop(event.command_id, None)
        elif isinstance(event, events.ChildWorkflowScheduled):
            self.open["child", event.command_id] = f"its child {event.workflow_id} has not ended there"
        elif isinstance(event, _CHILD_ENDS):
            self.open.pop(("child", event.command_id), None)
        elif isinstance(event, events.ExternalSignalRequested):
            self.open["signal", event.command_id] = f"a signal to {event.workflow_id} is on its way there"
        elif isinstance(event, events.ExternalSignalDelivered | events.ExternalSignalFailed):
            self.open.pop(("signal", event.command_id), None)
        elif isinstance(event, events.UpdateAccepted):
            self.open["update", event.update_id] = f"its update {event.name!r} is under way there"
        elif isinstance(event, events.UpdateCompleted):
            self.open.pop(("update", event.update_id), None)

    def in_the_way(self) -> str | None:
        """Return why the run cannot be reset to here."""
        if self.owed > 0:
            return "it lies among the commands of a workflow task"
        return next(iter(self.open.values()), None)
