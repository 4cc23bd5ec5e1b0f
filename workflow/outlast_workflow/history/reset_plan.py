"""The points from which a new run can continue a history, and what was open there.

A *point* is the last event that the new run keeps. It lies between workflow tasks: a workflow task's record and its
commands stay together, because replay compares them as one block. Nothing may be open there whose outcome would reach
only the old run: a signal to another workflow, an accepted update. A child may be open there: its end is known by now,
or the new run becomes its parent. A fork has no claim on a child that is open still.

=========================  =========================================================================================
``first-workflow-task``    keep nothing that the code has decided
``last-workflow-task``     repeat the last workflow task, with the same inbound events
``last-successful``        keep what came before the last failure of an activity or a child, and repeat it
``before-cancel``          keep what came before the first cancel request; without one, what the engine's end left
a number                   keep that event and those before it
=========================  =========================================================================================

Two more points have no name: that of a *resume*, which depends on how the run ended, and the one *before a command*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.errors.refusals import ResetRefusedError
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.search_attributes import Document, merged
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.payloads import Payload

NAMED: Final = ("first-workflow-task", "last-workflow-task", "last-successful", "before-cancel")

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
_CHILD_FAILURES = (
    events.ChildWorkflowStartFailed,
    events.ChildWorkflowFailed,
    events.ChildWorkflowTimedOut,
    events.ChildWorkflowTerminated,
)
_FAILURES = (events.ActivityFailed, events.ActivityTimedOut, *_CHILD_FAILURES)


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last run of a child's chain, as it is now.

    Attributes:
        run_id: The run.
        status: Its status.
        is_open: Whether it is open.
    """

    run_id: str
    status: str
    is_open: bool


FindChain = Callable[[str, str], "ChainEnd | None"]
"""Return the last run of a chain, by its workflow id and its first run; ``None`` if the chain was deleted."""


@dataclass(slots=True)
class OpenChild:
    """A child that had not ended at a point.

    Attributes:
        workflow_id: Its workflow id.
        first_run_id: The first run of its chain; empty while its start is not recorded.
        run_id: The last run of its chain, as it is now.
    """

    workflow_id: str
    first_run_id: str = ""
    run_id: str = ""


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
    children: dict[int, OpenChild] = field(default_factory=dict)
    """The children that have not ended there, by command id."""
    memo: Payload | None = None
    search_attributes: Document = field(default_factory=dict)
    limit: float | None = None
    """The timeout by which the code has lowered the run's deadline last, in seconds."""


History = Sequence[tuple[int, Event, int, int]]
"""Seq, event, when it was recorded (µs since the epoch), and the size of its payload in bytes."""


def plan_reset(history: History, to: str | int, find_chain: FindChain) -> ResetPlan:
    """Return what a new run of the same chain keeps from a point of a history.

    Args:
        history: The history.
        to: The point, by number or by name.
        find_chain: What became of children.

    Raises:
        InvalidOptionError: ``to`` is neither a number nor one of the names.
        ResetRefusedError: There is no such point, or the run cannot be reset to it.
    """
    points = _Points(history, find_chain, fork=False)
    return points.plan(to)


def plan_fork(history: History, to: str | int, before: int | None, find_chain: FindChain) -> ResetPlan:
    """Return what the first run of another chain keeps from a point of a history.

    Args:
        history: The history.
        to: The point, by number or by name.
        before: The id of a command instead: the point is the last possible one before the workflow task that gave it.
        find_chain: What became of children.

    Raises:
        InvalidOptionError: ``to`` is neither a number nor one of the names.
        ResetRefusedError: There is no such point or command, or the run cannot be forked there.
    """
    points = _Points(history, find_chain, fork=True)
    return points.plan(to) if before is None else points.last_good(points.before_command(before))


def plan_resume(history: History, find_chain: FindChain) -> ResetPlan:
    """Return what a new run keeps that takes up a run that was stopped or has failed.

    Of a cancelled run that is the last possible point before the first cancel request. A run that the engine ended goes
    on where it was. One that its code ended repeats its last workflow task.

    Args:
        history: The history of a closed run.
        find_chain: What became of children.

    Raises:
        ResetRefusedError: There is no possible point.
    """
    asked = _first_cancel_request(history) if isinstance(history[-1][1], events.WorkflowCancelled) else None
    return _Points(history, find_chain, fork=False).last_good(
        _last_of_the_code(history) if asked is None else asked - 1
    )


class _Points:
    """The points of one history."""

    def __init__(self, history: History, find_chain: FindChain, *, fork: bool) -> None:
        self.history = history
        self.fork = fork
        self.verb = "fork from" if fork else "reset to"
        self._find_chain = find_chain
        self._chains: dict[str, ChainEnd | None] = {}

    def chain(self, workflow_id: str, first_run_id: str) -> ChainEnd | None:
        """Return the last run of a child's chain."""
        if first_run_id not in self._chains:
            self._chains[first_run_id] = self._find_chain(workflow_id, first_run_id)
        return self._chains[first_run_id]

    def plan(self, to: str | int) -> ResetPlan:
        """Return the plan of a point that a caller names."""
        if to == "before-cancel":
            return self.last_good(self._before_cancel())
        seq = self._point(to)
        walk = self._walk_to(seq)
        why = self._in_the_way(walk)
        if why is not None:
            raise ResetRefusedError(
                f"event {seq} is no point to {self.verb}, because {why}: {self._nearest(seq)}"
            )
        return walk.plan

    def last_good(self, most: int) -> ResetPlan:
        """Return the plan of the last possible point up to a seq."""
        walk = self._walk_to(most)
        if self._in_the_way(walk) is None:
            return walk.plan
        good = max((at for at in self._good(most) if at < most), default=None)
        if good is None:
            raise ResetRefusedError(
                f"no event up to {most} is a point to {self.verb}: start the workflow anew"
            )
        return self._walk_to(good).plan

    def before_command(self, command_id: int) -> int:
        """Return the last event before the workflow task that gave a command."""
        record = 0
        for at, event, _, _ in self.history:
            if isinstance(event, events.WorkflowTaskCompleted):
                record = at
            elif event.command and getattr(event, "command_id", None) == command_id:
                return record - 1
        raise ResetRefusedError(
            f"the history has no command {command_id}: `outlast history` shows the commands and their ids"
        )

    def _walk_to(self, seq: int) -> _Walk:
        walk = _Walk()
        for at, event, recorded_at, size in self.history:
            if at > seq:
                break
            walk.take(at, event, recorded_at, size)
        return walk

    def _good(self, most: int) -> list[int]:
        """Return the possible points up to a seq."""
        walk = _Walk()
        good: list[int] = []
        for at, event, recorded_at, size in self.history:
            if at > most:
                break
            walk.take(at, event, recorded_at, size)
            if self._in_the_way(walk) is None:
                good.append(at)
        return good

    def _nearest(self, seq: int) -> str:
        """Return the possible points on either side of an impossible one."""
        good = self._good(_last_of_the_code(self.history))
        before = max((at for at in good if at < seq), default=None)
        after = min((at for at in good if at > seq), default=None)
        choices = [str(at) for at in (before, after) if at is not None]
        return f"{' and '.join(choices)} can be" if choices else "nor is any other"

    def _in_the_way(self, walk: _Walk) -> str | None:
        """Return why no new run can continue from where a walk is."""
        if walk.owed > 0:
            return "it lies among the commands of a workflow task"
        if walk.open:
            return next(iter(walk.open.values()))
        for child in walk.plan.children.values():
            if not child.first_run_id:
                return f"the start of its child {child.workflow_id} is not recorded there"
            found = self.chain(child.workflow_id, child.first_run_id)
            if found is None:
                return f"its child {child.workflow_id} has not ended there, and was deleted since"
            if self.fork and found.is_open:
                return f"its child {child.workflow_id} has not ended yet, and a fork has no claim on it"
            child.run_id = found.run_id
        return None

    # --- points by name ---------------------------------------------------------------------------------------------

    def _point(self, to: str | int) -> int:
        history = self.history
        if isinstance(to, int) and not isinstance(to, bool):
            most = _last_of_the_code(history)
            if not 1 <= to <= most:
                raise ResetRefusedError(
                    f"the history can be {'forked from' if self.fork else 'reset to'} events 1 to {most}, not {to}: "
                    "`outlast history` shows them"
                )
            return to
        if to not in NAMED:
            raise InvalidOptionError(
                f"to must be the number of an event, or one of {', '.join(NAMED)}", field="to"
            )
        if to == "last-successful":
            return self._before_failure()
        records = [at for at, event, _, _ in history if isinstance(event, events.WorkflowTaskCompleted)]
        if not records:
            return _last_of_the_code(history)
        return (records[0] if to == "first-workflow-task" else records[-1]) - 1

    def _before_failure(self) -> int:
        """Return the point before the last failure, or before the start of the child that failed.

        A child that was taken up since, or has completed by now, need not be started again.
        """
        failures = [(at, event) for at, event, _, _ in self.history if isinstance(event, _FAILURES)]
        if not failures:
            raise ResetRefusedError(
                "no activity and no child of the run has failed: give the number of an event, last-workflow-task or "
                "first-workflow-task"
            )
        at, event = failures[-1]
        if not isinstance(event, _CHILD_FAILURES):
            return at - 1
        child = self._walk_to(at - 1).plan.children.get(event.command_id)
        if child is not None and child.first_run_id:
            found = self.chain(child.workflow_id, child.first_run_id)
            if found is not None and (found.is_open or found.status == RunStatus.COMPLETED):
                return at - 1
        return self.before_command(event.command_id)

    def _before_cancel(self) -> int:
        history = self.history
        asked = _first_cancel_request(history)
        if asked is not None:
            return asked - 1
        if not history[-1][1].terminal or _ended_by_its_code(history[-1][1]):
            raise ResetRefusedError(
                "nobody has asked to cancel the run: give the number of an event, last-workflow-task or "
                "first-workflow-task"
            )
        return _last_of_the_code(history)


def _first_cancel_request(history: History) -> int | None:
    return next(
        (at for at, event, _, _ in history if isinstance(event, events.WorkflowCancelRequested)), None
    )


def _last_of_the_code(history: History) -> int:
    """Return the last event before those with which the engine ended the run."""
    last = len(history)
    if history[-1][1].terminal:
        last -= 1
        record = next(
            (at for at, event, _, _ in reversed(history) if isinstance(event, events.WorkflowTaskCompleted)),
            0,
        )
        if _ended_by_its_code(history[-1][1]):
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


def _ended_by_its_code(end: Event) -> bool:
    return isinstance(end, _BY_ITS_CODE) and getattr(end, "by", None) is None


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
        elif isinstance(event, events.WorkflowDeadlineLowered):
            plan.limit = event.timeout_seconds
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
            plan.children[event.command_id] = OpenChild(event.workflow_id)
        elif isinstance(event, events.ChildWorkflowStarted):
            plan.children[event.command_id].first_run_id = event.run_id
        elif isinstance(event, _CHILD_ENDS):
            plan.children.pop(event.command_id, None)
        elif isinstance(event, events.ExternalSignalRequested):
            self.open["signal", event.command_id] = f"a signal to {event.workflow_id} is on its way there"
        elif isinstance(event, events.ExternalSignalDelivered | events.ExternalSignalFailed):
            self.open.pop(("signal", event.command_id), None)
        elif isinstance(event, events.UpdateAccepted):
            self.open["update", event.update_id] = f"its update {event.name!r} is under way there"
        elif isinstance(event, events.UpdateCompleted):
            self.open.pop(("update", event.update_id), None)
