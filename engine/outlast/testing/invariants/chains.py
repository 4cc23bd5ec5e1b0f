"""What must hold of chains of runs, and of the workflow ids that point to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from typing import Protocol

from outlast.testing.invariants.requests import check_moved_signals
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

FOLLOWED = frozenset({"continued_as_new", "failed", "timed_out", "terminated"})
CARRIED = ("workflow_id", "execution_timeout", "execution_deadline_at")

Found = Iterator[tuple[str, str]]
"""The place, and a sentence."""


class Story(Protocol):
    """A run's history."""

    events: list[Event]
    recorded_at: list[int]


Histories = Mapping[str, Story]


def check_chains(runs: Mapping[str, RunRow], histories: Histories, *, deleting: bool = False) -> Found:
    """Yield what is wrong between the runs of each chain."""
    by_chain = sorted(runs.values(), key=lambda run: (run.first_run_id, run.run_number))
    for first_run_id, members in groupby(by_chain, key=lambda run: run.first_run_id):
        yield from _check_chain(f"chain {first_run_id}", list(members), histories, deleting)


def _check_chain(where: str, chain: list[RunRow], histories: Histories, deleting: bool) -> Found:
    numbers = [run.run_number for run in chain]
    # Retention has deleted the runs before.
    begun = deleting and numbers[0] > 1
    if numbers != list(range(numbers[0] if begun else 1, numbers[-1] + 1)):
        yield where, f"has run numbers {numbers}"
    if begun:
        pass
    elif chain[0].run_id != chain[0].first_run_id or chain[0].previous_run_id is not None:
        yield where, "does not begin with its first run"
    if chain[-1].next_run_id is not None:
        yield where, f"ends with a run that names a next one, {chain[-1].next_run_id}"
    for run, following in pairwise(chain):
        if run.next_run_id != following.run_id or following.previous_run_id != run.run_id:
            yield where, f"runs {run.run_number} and {following.run_number} do not point to each other"
        if is_reset(histories.get(following.run_id)):
            yield from _check_reset(where, run, following, histories)
            continue
        if run.status not in FOLLOWED:
            yield where, f"run {run.run_number} is {run.status} but is followed by another"
        for name in CARRIED:
            if getattr(run, name) != getattr(following, name):
                before, after = getattr(run, name), getattr(following, name)
                yield where, f"{name} changed from {before} to {after} in run {following.run_number}"
        fresh = run.status == "continued_as_new"
        before_it, after_it = histories.get(run.run_id), histories.get(following.run_id)
        if before_it is not None and after_it is not None:
            for what in check_moved_signals(before_it.events, after_it.events):
                yield f"run {run.run_id} of {run.workflow_id}", what
            for what in _check_handed_on(following.run_number, before_it.events, after_it.events):
                yield where, what
        if following.attempt != (1 if fresh else run.attempt + 1):
            yield where, f"run {following.run_number} is attempt {following.attempt} after a {run.status} run"
        if run.closed_at is not None and following.created_at > run.closed_at:
            yield (
                where,
                f"run {following.run_number} was not created in the transaction that ended the one before",
            )


def _check_handed_on(number: int, before: list[Event], after: list[Event]) -> Iterator[str]:
    """Check that a run's first event has the last failure and the last result that the run before it hands on."""
    first, end, following = before[0], before[-1], after[0]
    if not isinstance(first, events.WorkflowStarted) or not isinstance(following, events.WorkflowStarted):
        return
    known = following.last_failure
    if isinstance(end, events.WorkflowTimedOut):
        handed_on = known is not None and known.get("timeout_kind") == end.timeout_kind
    else:
        handed_on = known == (end.failure if isinstance(end, events.WorkflowFailed) else first.last_failure)
    if not handed_on:
        yield f"run {number} has another last failure than the run before it hands on"
    if following.last_result != first.last_result:
        yield f"run {number} has another last result than the run before it"
    if following.schedule != first.schedule:
        yield f"run {number} has another schedule than the run before it"


def is_reset(history: Story | None) -> bool:
    """Return whether a run continues the history of another one after a reset."""
    return reset_point(history) > 0


def reset_point(history: Story | None) -> int:
    """Return the seq up to which a run's history comes from another run; 0 if none of it does."""
    started = history.events[0] if history is not None else None
    reset = started.reset if isinstance(started, events.WorkflowStarted) else None
    return int(reset["seq"]) if reset is not None else 0


def _check_reset(where: str, run: RunRow, following: RunRow, histories: Histories) -> Found:
    """Check that a reset run starts with the events of the run that was reset."""
    taken, own = histories.get(run.run_id), histories[following.run_id]
    if taken is None:
        return
    reset = getattr(own.events[0], "reset", None) or {}
    seq = reset.get("seq", 0)
    if reset.get("run_id") != run.run_id or len(own.events) < seq:
        yield where, f"run {following.run_number} was reset from {reset}, which is not the run before it"
    if own.events[1:seq] != taken.events[1:seq] or own.recorded_at[:seq] != taken.recorded_at[:seq]:
        yield where, f"run {following.run_number} does not start as the run that it was reset from"
    said = [event for event in taken.events[seq:] if isinstance(event, events.SignalReceived)]
    moved = [event for event in own.events[seq:] if isinstance(event, events.SignalReceived)]
    if reset.get("signals", True) and moved[: len(said)] != said:
        yield where, f"run {following.run_number} lacks the signals that came after its point"


def check_instances(instances: Mapping[str, InstanceRow], runs: Mapping[str, RunRow]) -> Found:
    """Yield what is wrong between workflow ids and their runs."""
    open_runs: dict[str, list[str]] = defaultdict(list)
    newest: dict[str, str] = {}
    for run in runs.values():
        if run.closed_at is None:
            open_runs[run.workflow_id].append(run.run_id)
        newest[run.workflow_id] = max(newest.get(run.workflow_id, ""), run.run_id)
    for workflow_id in sorted(newest.keys() - instances.keys()):
        yield f"workflow {workflow_id}", "has runs but no instance"
    for workflow_id, instance in instances.items():
        where = f"workflow {workflow_id}"
        current = runs.get(instance.current_run_id)
        if current is None or current.workflow_id != workflow_id:
            yield where, f"points to run {instance.current_run_id}, which is not one of its runs"
            continue
        if current.next_run_id is not None:
            yield where, f"points to run {current.run_number} of its chain, which is not the newest"
        if instance.run_count != current.run_number or instance.workflow_type != current.workflow_type:
            yield (
                where,
                f"run_count is {instance.run_count} and type {instance.workflow_type}, its run differs",
            )
        if any(run_id != current.run_id for run_id in open_runs[workflow_id]):
            yield where, f"has open runs {open_runs[workflow_id]} next to {current.run_id}"
