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
NO_START = events.ChildWorkflowStartFailed


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
    chains: dict[str, list[RunRow]] = defaultdict(list)
    for run in sorted(runs.values(), key=lambda run: run.run_number):
        chains[run.first_run_id].append(run)
        if run.parent_run_id is not None:
            children[run.parent_run_id].append(run)
    for run in runs.values():
        where = f"run {run.run_id} of {run.workflow_id}"
        history = histories.get(run.run_id)
        if history is None:
            continue
        for what in _child(run, runs, history):
            yield where, what
        for what in _parent(run, runs, chains, history, children[run.run_id]):
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
    parents = {said["run_id"], *(event.parent_run_id for _, event in history.of_type(events.ParentReset))}
    if run.parent_run_id not in parents or said["close_policy"] != run.parent_close_policy:
        yield f"closes with {run.parent_run_id} by {run.parent_close_policy}, WorkflowStarted says {said}"
    if run.parent_command_id not in (said["command_id"], None):
        yield f"is command {run.parent_command_id} of its parent, WorkflowStarted says {said}"
    parent = runs.get(run.parent_run_id or "")
    if parent is None:
        # Retention has deleted it.
        return
    if parent.workflow_id != said["workflow_id"]:
        yield f"says that its parent is {said['workflow_id']}, it is {parent.workflow_id}"
    cap = parent.execution_deadline_at
    if run.parent_close_policy == "terminate" and cap is not None and parents == {parent.run_id}:
        deadline = run.execution_deadline_at
        if deadline is None or deadline > cap:
            yield f"may run until {deadline}, longer than its parent, which terminates it ({cap})"
    for _, applied in history.of_type(events.ParentClosePolicyApplied):
        if applied.policy != run.parent_close_policy or applied.parent_run_id not in parents:
            yield f"met the policy {applied.policy} of {applied.parent_run_id}, which is not its own"
        if runs.get(applied.parent_run_id, parent).closed_at is None:
            yield "met its parent's close policy, but the parent is open"


def _parent(
    run: RunRow,
    runs: Mapping[str, RunRow],
    chains: Mapping[str, list[RunRow]],
    history: Story,
    children: list[RunRow],
) -> Iterator[str]:
    """Check a run against its children.

    Those that had ended before its point belong to the run that its history was taken from. Those that were open there
    are its own since, unless a later run of its chain has taken them over in turn.
    """
    since = point_of(history)
    if run.closed_at is None and run.cascade_at not in (None, NOT_YET):
        yield f"is open, but has cascade_at={run.cascade_at}"
    before = {event.command_id for seq, event in history.of_type(*ENDS, NO_START) if seq <= since}
    scheduled = {
        event.command_id: event
        for _, event in history.of_type(events.ChildWorkflowScheduled)
        if event.command_id not in before
    }
    kinds = (events.ChildWorkflowStarted, NO_START)
    answered = {event.command_id: event for _, event in history.of_type(*kinds)}
    ended = {event.command_id: event for seq, event in history.of_type(*ENDS) if seq > since}
    own = {event.command_id for seq, event in history.of_type(events.ChildWorkflowScheduled) if seq > since}
    for command_id, event in scheduled.items():
        answer = answered.get(command_id)
        if answer is None and run.closed_at is None:
            yield f"child {command_id} was neither started nor refused"
        if isinstance(answer, events.ChildWorkflowStarted):
            chain = chains.get(answer.run_id)
            child = chain[0] if chain else None
            if child is None or child.run_id != answer.run_id:
                # Retention has deleted it.
                continue
            if child.workflow_id != event.workflow_id or (
                command_id in own and child.parent_run_id != run.run_id and not _handed_over(run, child, runs)
            ):
                yield f"started child {command_id} as run {answer.run_id}, which is not its child"
            elif child.parent_close_policy != event.parent_close_policy:
                yield f"child {command_id} has another close policy than it was given"
    first_runs = {child.parent_command_id: child for child in children if child.run_number == 1}
    for command_id, child in first_runs.items():
        if command_id is not None and command_id not in scheduled:
            yield f"has a child {child.workflow_id} that it did not schedule"
    for command_id, answer in answered.items():
        if isinstance(answer, events.ChildWorkflowStarted) and command_id in scheduled:
            yield from _end_of_child(run, command_id, chains.get(answer.run_id, []), ended.get(command_id))
    if run.closed_at is not None and run.next_run_id is None and run.cascade_at is None:
        for child in children:
            if (
                child.closed_at is None
                and child.parent_close_policy != "abandon"
                and child.parent_command_id is not None
            ):
                yield f"has ended, its child {child.workflow_id} is open, and no close policy will be applied"


def _end_of_child(run: RunRow, command_id: int, chain: list[RunRow], end: Any) -> Iterator[str]:
    """Check what a parent knows of the end of a child's chain. What was reset since had ended before."""
    if not chain:
        # Retention has deleted it.
        return
    last = chain[-1]
    if end is None:
        told = last.closed_at is not None and last.parent_run_id == run.run_id
        if told and last.parent_command_id is not None and run.closed_at is None:
            yield f"was not notified that its child {last.workflow_id} has ended"
        if run.closed_at is None and last.closed_at is None and last.parent_run_id != run.run_id:
            yield f"awaits its child {last.workflow_id}, whose parent is {last.parent_run_id}"
        return
    statuses = [child.status for child in chain if child.closed_at is not None]
    if not any(isinstance(end, END_OF.get(status, ())) for status in statuses):
        if statuses == [] or last.closed_at is None:
            yield f"has the end of child {command_id}, which has not ended"
        else:
            yield f"has {end.type} of its child {last.workflow_id}, which is {last.status}"


def _handed_over(run: RunRow, child: RunRow, runs: Mapping[str, RunRow]) -> bool:
    """Return whether a child belongs to a later run of its parent's chain by now."""
    parent = runs.get(child.parent_run_id or "")
    return parent is not None and (
        parent.first_run_id == run.first_run_id and parent.run_number > run.run_number
    )


def point_of(history: Story) -> int:
    """Return the seq up to which a run's history was taken from another run; 0 if none of it was."""
    first = history.events[0]
    if not isinstance(first, events.WorkflowStarted):
        return 0
    return int((first.reset or first.forked_from or {}).get("seq", 0))
