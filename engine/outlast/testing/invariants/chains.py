"""What must hold of chains of runs, and of the workflow ids that point to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any, Protocol

from outlast.testing.invariants.requests import check_moved_signals
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE

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
    started = history.events[0] if history is not None else None
    return isinstance(started, events.WorkflowStarted) and started.reset is not None


def copied_point(history: Story | None) -> int:
    """Return the seq up to which a run's history comes from another run, by a reset or a fork; 0 if none of it does."""
    started = history.events[0] if history is not None else None
    if not isinstance(started, events.WorkflowStarted):
        return 0
    return int((started.reset or started.forked_from or {}).get("seq", 0))


def check_forks(runs: Mapping[str, RunRow], histories: Histories) -> Found:
    """Yield what is wrong between forks and their originals, which may have been deleted since."""
    for run in runs.values():
        history = histories.get(run.run_id)
        started = history.events[0] if history is not None else None
        if history is None or not isinstance(started, events.WorkflowStarted):
            continue
        where = f"run {run.run_id} of {run.workflow_id}"
        fork, listed = started.forked_from, (started.search_attributes or {}).get(FORK_ATTRIBUTE)
        if fork is None:
            first = histories.get(run.first_run_id)
            told = first.events[0] if first is not None else None
            known = (told.forked_from or {}) if isinstance(told, events.WorkflowStarted) else None
            if known is not None and listed != known.get("workflow_id"):
                yield where, f"is listed with the forks of {listed}, its chain says {known}"
            continue
        if listed != fork["workflow_id"] or listed == run.workflow_id:
            yield where, f"is listed with the forks of {listed}, its history says {fork}"
        if run.run_id != run.first_run_id and started.reset is None:
            yield where, "says that it was forked, and does not begin its chain"
        original = runs.get(fork["run_id"])
        if original is not None and original.workflow_id != fork["workflow_id"]:
            yield where, f"was forked from {fork}, which is a run of {original.workflow_id}"
        taken = histories.get(fork["run_id"])
        if started.reset is None and taken is not None:
            yield from _check_copy(where, "", "forked", history, taken, fork)


def _check_copy(where: str, who: str, how: str, own: Story, taken: Story, told: dict[str, Any]) -> Found:
    """Check that a run begins with the events of the run that it was taken from, and draws other numbers after them."""
    seq = told.get("seq", 0)
    if own.events[1:seq] != taken.events[1:seq] or own.recorded_at[:seq] != taken.recorded_at[:seq]:
        yield where, f"{who}does not start as the run that it was {how} from"
    before, mine = _seeds(taken.events[0]), told.get("seeds") or [[0, 0]]
    if mine[:-1] != [pair for pair in before[1:] if pair[0] < seq] or mine[-1][0] != seq:
        yield where, f"{who}was {how} at {seq}, and has seeds for {[at for at, _ in mine]}"
    elif mine[-1][1] in [seed for _, seed in before]:
        yield where, f"{who}was {how} at {seq}, and draws the same numbers after it"


def _seeds(started: Event) -> list[list[int]]:
    """Return the seeds of a run, each with the seq after which it holds."""
    if not isinstance(started, events.WorkflowStarted):
        return []
    source = started.reset or started.forked_from or {}
    return [[0, started.seed], *source.get("seeds", ())]


def _check_reset(where: str, run: RunRow, following: RunRow, histories: Histories) -> Found:
    """Check that a reset run starts with the events of the run that was reset."""
    taken, own = histories.get(run.run_id), histories[following.run_id]
    if taken is None:
        return
    reset = getattr(own.events[0], "reset", None) or {}
    seq = reset.get("seq", 0)
    if reset.get("run_id") != run.run_id or len(own.events) < seq:
        yield where, f"run {following.run_number} was reset from {reset}, which is not the run before it"
    yield from _check_copy(where, f"run {following.run_number} ", "reset", own, taken, reset)
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
