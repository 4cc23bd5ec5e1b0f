"""The legal order of events for each noun of a history: one small table, and the checker that reads it.

The states of a noun are the events themselves: the last event about an activity *is* its state. ``START`` precedes the
first one, and an event that nothing may follow closes its noun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from outlast_workflow.history.events import REGISTRY, Event, WorkflowTaskCompleted
from outlast_workflow.primitives.enums import RunStatus

START = "START"

STATUS_AFTER: dict[str, RunStatus] = {
    "WorkflowCompleted": RunStatus.COMPLETED,
    "WorkflowFailed": RunStatus.FAILED,
    "WorkflowTimedOut": RunStatus.TIMED_OUT,
    "WorkflowCancelled": RunStatus.CANCELLED,
    "WorkflowTerminated": RunStatus.TERMINATED,
    "WorkflowContinuedAsNew": RunStatus.CONTINUED_AS_NEW,
    "WorkflowReset": RunStatus.TERMINATED,
}
"""A run's status after each terminal event."""

Table = Mapping[str, frozenset[str]]


def _table(**rows: str) -> Table:
    return {state: frozenset(following.split()) for state, following in rows.items()}


RUN_TERMINALS = frozenset(name for name, event in REGISTRY.items() if event.terminal)

_ACTIVITY_ENDS = "ActivityCompleted ActivityFailed ActivityTimedOut ActivityCancelled"
_CHILD_ENDS = " ".join(
    f"ChildWorkflow{end}" for end in ("Completed", "Failed", "TimedOut", "Cancelled", "Terminated")
)
_RUN_GOES_ON = " ".join(
    [
        "WorkflowTaskCompleted WorkflowTaskFailed WorkflowCancelRequested WorkflowDequeued WorkflowStartChanged",
        *sorted(RUN_TERMINALS),
    ]
)

TRANSITIONS: dict[str, Table] = {
    "run": _table(
        START="WorkflowStarted",
        WorkflowStarted=_RUN_GOES_ON,
        WorkflowTaskCompleted=_RUN_GOES_ON,
        WorkflowTaskFailed=_RUN_GOES_ON,
        WorkflowCancelRequested=_RUN_GOES_ON,
        WorkflowDequeued=_RUN_GOES_ON,
        WorkflowStartChanged=_RUN_GOES_ON,
    ),
    "activity": _table(
        START="ActivityScheduled",
        ActivityScheduled=f"ActivityCancelRequested {_ACTIVITY_ENDS}",
        ActivityCancelRequested=_ACTIVITY_ENDS,
        # The code may cancel an activity before it learns that it has ended: the request is recorded and does nothing.
        ActivityCompleted="ActivityCancelRequested",
        ActivityFailed="ActivityCancelRequested",
        ActivityTimedOut="ActivityCancelRequested",
        ActivityCancelled="ActivityCancelRequested",
    ),
    "timer": _table(
        START="TimerScheduled",
        TimerScheduled="TimerFired TimerCancelled",
        TimerFired="TimerCancelled",
    ),
    "child": _table(
        START="ChildWorkflowScheduled",
        ChildWorkflowScheduled="ChildWorkflowStarted ChildWorkflowStartFailed",
        ChildWorkflowStarted=f"ChildWorkflowCancelRequested {_CHILD_ENDS}",
        ChildWorkflowCancelRequested=_CHILD_ENDS,
        # As with activities: one that has ended may still be cancelled, to no effect.
        **dict.fromkeys(_CHILD_ENDS.split(), "ChildWorkflowCancelRequested"),
    ),
    "update": _table(START="UpdateAccepted", UpdateAccepted="UpdateCompleted"),
    "external_signal": _table(
        START="ExternalSignalRequested",
        ExternalSignalRequested="ExternalSignalDelivered ExternalSignalFailed",
    ),
    "stream": _table(
        START="StreamWritten StreamClosed",
        StreamWritten="StreamWritten StreamClosed",
    ),
}
"""For each noun, what may follow each of its events. An event that is not listed may occur anywhere in a run."""

NOUN_OF: dict[str, str] = {
    name: noun
    for noun, table in TRANSITIONS.items()
    for name in {*table, *(event for row in table.values() for event in row)} - {START}
}
"""Return the noun that an event type is about."""

_IDENTITY: dict[str, str] = {"run": "", "update": "update_id", "stream": "name"}
_ENDS_TWICE = {  # what the code asked for about something that had ended
    ("activity", "ActivityCancelRequested"),
    ("timer", "TimerCancelled"),
    ("child", "ChildWorkflowCancelRequested"),
}


def check_history(events: Iterable[Event]) -> list[str]:
    """Return what is wrong with a history: one sentence per violation, an empty list if it is sound.

    Args:
        events: The whole history so far, in order, from seq 1.
    """
    checker = _Checker()
    for seq, event in enumerate(events, 1):
        checker.take(seq, event)
    checker.finish()
    return checker.violations


class _Checker:
    """One walk along a history."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.states: dict[tuple[str, Any], str] = {}
        self.inbound: list[int] = []  # seqs not applied yet
        self.owed = 0  # commands that the last workflow task record announces and that are still to come
        self.last_task_at = 0
        self.closed_at: int | None = None

    def say(self, seq: int, event: Event, what: str) -> None:
        self.violations.append(f"event {seq} ({event.type}) {what}")

    def take(self, seq: int, event: Event) -> None:
        if self.closed_at is not None:
            self.say(seq, event, f"stands after the terminal event {self.closed_at}")
        if seq == 1 and event.type != "WorkflowStarted":
            self.say(seq, event, "is first: a history begins with WorkflowStarted")
        self.step(seq, event)
        by_engine = getattr(event, "by", None) is not None
        if isinstance(event, WorkflowTaskCompleted):
            self.workflow_task(seq, event)
        elif event.command and not by_engine:
            self.owed -= 1
            if self.owed < 0:
                self.say(seq, event, "is a command that no workflow task record announces")
        elif event.inbound and not by_engine:
            if self.owed > 0:
                self.say(seq, event, f"stands among commands: {self.owed} more were announced")
            self.inbound.append(seq)
        if event.terminal:
            self.closed_at = seq

    def step(self, seq: int, event: Event) -> None:
        noun = NOUN_OF.get(event.type)
        if noun is None:
            return
        key = (noun, getattr(event, _IDENTITY.get(noun, "command_id"), None))
        state = self.states.get(key, START)
        if event.type not in TRANSITIONS[noun].get(state, ()):
            who = noun if key[1] is None else f"{noun} {key[1]}"
            said = "nothing yet" if state == START else state
            self.say(seq, event, f"cannot be: the last word on {who} was {said}")
        if state != START and (noun, event.type) in _ENDS_TWICE and state in _closed_states(noun):
            self.states[key] = event.type + "*"
        else:
            self.states[key] = event.type

    def workflow_task(self, seq: int, event: WorkflowTaskCompleted) -> None:
        if self.owed > 0:
            self.say(
                seq, event, f"comes before {self.owed} commands that the workflow task before it announced"
            )
        self.owed = event.commands
        if event.at < self.last_task_at:
            self.say(seq, event, "went back in time")
        self.last_task_at = event.at
        own = [one for one in self.inbound if one >= seq - event.own] if event.own else []
        if own != list(range(seq - event.own, seq)):
            self.say(seq, event, f"claims {event.own} inbound events just before it; there are {len(own)}")
        if event.through >= seq - event.own:
            self.say(seq, event, f"applied through {event.through}, which is not before it")
        self.inbound = [one for one in self.inbound if one > event.through and one not in own]

    def finish(self) -> None:
        if self.owed > 0:
            self.violations.append(f"the history ends with {self.owed} announced commands missing")
        if not self.states:
            self.violations.append("the history is empty")


def _closed_states(noun: str) -> frozenset[str]:
    table = TRANSITIONS[noun]
    return frozenset(
        name for row in table.values() for name in row if not table.get(name, frozenset()) - _asked(noun)
    )


def _asked(noun: str) -> frozenset[str]:
    return frozenset(name for about, name in _ENDS_TWICE if about == noun)
