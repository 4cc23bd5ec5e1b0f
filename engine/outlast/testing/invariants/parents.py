"""What must hold between parents and their children."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from outlast_store.schema.rows import RunRow
from outlast_store.transitions.parents import NOT_YET
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

END_OF = {
    "completed": events.ChildWorkflowCompleted,
    "failed": events.ChildWorkflowFailed,
    "timed_out": events.ChildWorkflowTimedOut,
    "cancelled": events.ChildWorkflowCancelled,
    "terminated": events.ChildWorkflowTerminated,
}
ENDS = tuple(END_OF.values())


class Story(Protocol):
    """A run's history."""

    @property
    def events(self) -> list[Event]:
        """Its events, in order."""
        ...

    def of_type(self, *types: type[Event]) -> list[tuple[int, Any]]:
        """Return the events of these types with their seqs."""
        ...


def check_parents(runs: Mapping[str, RunRow], histories: Mapping[str, Story]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong: the place, and a sentence."""
    children: dict[str, list[RunRow]] = defaultdict(list)
    for run in runs.values():
        if run.parent_run_id is not None:
            children[run.parent_run_id].append(run)
    for run in runs.values():
        where = f"run {run.run_id} of {run.workflow_id}"
        history = histories.get(run.run_id)
        if history is None:
            continue
        for what in _child(run, runs, history):
            yield where, what
        for what in _parent(run, runs, histories, history, children[run.run_id]):
            yield where, what


def _child(run: RunRow, runs: Mapping[str, RunRow], history: Story) -> Iterator[str]:
    """Check a run against its parent."""
    started = history.events[0]
    if not isinstance(started, events.WorkflowStarted):
        return
    said = started.parent
    if (said is None) != (run.parent_run_id is None):
        yield f"has the parent {run.parent_run_id}, WorkflowStarted says {said}"
        return
    if said is None:
        if run.parent_command_id is not None or run.parent_close_policy is not None:
            yield "has a parent's command or policy, but no parent"
        return
    if (said["run_id"], said["close_policy"]) != (run.parent_run_id, run.parent_close_policy):
        yield f"closes with {run.parent_run_id} by {run.parent_close_policy}, WorkflowStarted says {said}"
    if run.parent_command_id not in (said["command_id"], None):
        yield f"is command {run.parent_command_id} of its parent, WorkflowStarted says {said}"
    parent = runs.get(said["run_id"])
    if parent is None:
        # Retention has deleted it.
        return
    if parent.workflow_id != said["workflow_id"]:
        yield f"says that its parent is {said['workflow_id']}, it is {parent.workflow_id}"
    cap = parent.execution_deadline_at
    if run.parent_close_policy == "terminate" and cap is not None:
        deadline = run.execution_deadline_at
        if deadline is None or deadline > cap:
            yield f"may run until {deadline}, longer than its parent, which terminates it ({cap})"
    for _, applied in history.of_type(events.ParentClosePolicyApplied):
        if applied.policy != run.parent_close_policy or applied.parent_run_id != run.parent_run_id:
            yield f"met the policy {applied.policy} of {applied.parent_run_id}, which is not its own"
        if parent.closed_at is None:
            yield "met its parent's close policy, but the parent is open"


def _parent(
    run: RunRow,
    runs: Mapping[str, RunRow],
    histories: Mapping[str, Story],
    history: Story,
    children: list[RunRow],
) -> Iterator[str]:
    """Check a run against its children. Those before the point of a reset belong to the run that was reset."""
    first = history.events[0]
    since = first.reset["seq"] if isinstance(first, events.WorkflowStarted) and first.reset else 0
    if run.closed_at is None and run.cascade_at not in (None, NOT_YET):
        yield f"is open, but has cascade_at={run.cascade_at}"
    scheduled = {
        event.command_id: event
        for seq, event in history.of_type(events.ChildWorkflowScheduled)
        if seq > since
    }
    kinds = (events.ChildWorkflowStarted, events.ChildWorkflowStartFailed)
    answered = {event.command_id: event for seq, event in history.of_type(*kinds) if seq > since}
    ended = {event.command_id: event for seq, event in history.of_type(*ENDS) if seq > since}
    first_runs = {child.parent_command_id: child for child in children if child.run_number == 1}
    for command_id, event in scheduled.items():
        answer = answered.get(command_id)
        if answer is None and run.closed_at is None:
            yield f"child {command_id} was neither started nor refused"
        if isinstance(answer, events.ChildWorkflowStarted):
            child = runs.get(answer.run_id)
            if child is None:
                # Retention has deleted it.
                continue
            if child.parent_run_id != run.run_id or child.workflow_id != event.workflow_id:
                yield f"started child {command_id} as run {answer.run_id}, which is not its child"
            elif child.parent_close_policy != event.parent_close_policy:
                yield f"child {command_id} has another close policy than it was given"
    for command_id, child in first_runs.items():
        if command_id is not None and command_id not in scheduled:
            yield f"has a child {child.workflow_id} that it did not schedule"
    last_of_chain = [child for child in children if child.closed_at is not None and child.next_run_id is None]
    for child in last_of_chain:
        if child.parent_command_id is None:
            continue
        end = ended.get(child.parent_command_id)
        if end is None:
            if run.closed_at is None:
                yield f"was not notified that its child {child.workflow_id} has ended"
        elif not isinstance(end, END_OF[child.status]):
            yield f"has {end.type} of its child {child.workflow_id}, which is {child.status}"
    for command_id in ended:
        answer = answered.get(command_id)
        if isinstance(answer, events.ChildWorkflowStarted) and answer.run_id not in runs:
            # Retention has deleted it.
            continue
        if not any(child.parent_command_id == command_id for child in last_of_chain):
            yield f"has the end of child {command_id}, which has not ended"
    if run.closed_at is not None and run.next_run_id is None and run.cascade_at is None:
        for child in children:
            if (
                child.closed_at is None
                and child.parent_close_policy != "abandon"
                and child.parent_command_id is not None
            ):
                yield f"has ended, its child {child.workflow_id} is open, and no close policy will be applied"
