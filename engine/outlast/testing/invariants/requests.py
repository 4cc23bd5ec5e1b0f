"""What must hold of signals and updates: what was acknowledged exists exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.requests import COMPLETED, DELIVERED, OPEN, REJECTED
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

_ENDED_BY_ITS_CODE = (events.WorkflowCompleted, events.WorkflowFailed, events.WorkflowCancelled)

Histories = Mapping[str, Sequence[Event]]


def check_signals_applied(history: Sequence[Event]) -> Iterator[str]:
    """Check that a run which its own code ended has applied every signal."""
    last = history[-1]
    if not isinstance(last, _ENDED_BY_ITS_CODE) or getattr(last, "by", None) is not None:
        return
    through = max(
        (event.through for event in history if isinstance(event, events.WorkflowTaskCompleted)), default=0
    )
    for seq, event in enumerate(history, 1):
        if isinstance(event, events.SignalReceived) and seq > through:
            yield f"ended with signal {event.name!r} (event {seq}) unseen"


def check_messages(history: Sequence[Event]) -> Iterator[str]:
    """Check that no code waits to receive what is there, and that no more is unread than was sent."""
    sent = Counter[str]()
    for seq, event in enumerate(history, 1):
        if isinstance(event, events.SignalReceived):
            sent[event.name] += 1
        if not isinstance(event, events.WorkflowTaskCompleted):
            continue
        for name, unread in (event.buffered or {}).items():
            if name in (event.receiving or ()):
                yield f"waits at event {seq} to receive {name!r}, of which {unread} are there"
            if sent[name] < unread:
                yield f"has {unread} unread signals {name!r} at event {seq}, and was sent {sent[name]}"


def check_moved_signals(before: Sequence[Event], following: Sequence[Event]) -> Iterator[str]:
    """Check that a run passed its unhandled signals to the next one, in order."""
    left = _unhandled(before)
    moved: list[Event] = []
    for event in following[1:]:
        if not isinstance(event, events.SignalReceived) or len(moved) == len(left):
            break
        moved.append(event)
    if len(moved) < len(left):
        yield f"left {len(left)} signals to the next run, which starts with {len(moved)}"
    elif moved != left:
        yield "passed its signals on in another order, or others"


def _unhandled(history: Sequence[Event]) -> list[Event]:
    """Return the signals that no workflow task has applied, and those without a handler."""
    records = [event for event in history if isinstance(event, events.WorkflowTaskCompleted)]
    through = records[-1].through if records else 0
    without_handler = dict(records[-1].buffered or {}) if records else {}
    found: list[Event] = []
    for seq, event in reversed(list(enumerate(history, 1))):
        if not isinstance(event, events.SignalReceived):
            continue
        if seq > through:
            found.append(event)
        elif without_handler.get(event.name):
            without_handler[event.name] -= 1
            found.append(event)
    return found[::-1]


def check_requests(
    rows: Sequence[RequestRow],
    runs: Mapping[str, RunRow],
    histories: Histories,
    *,
    deleting: bool = False,
) -> Iterator[tuple[str, str]]:
    """Check that each request's row agrees with the histories. Yield the place, and a sentence."""
    for row in rows:
        where = f"{row.kind} {row.request_id} of chain {row.first_run_id}"
        if row.kind == "query":
            continue
        run = runs.get(row.run_id)
        if run is None and deleting:
            # It is deleted with the last run of its chain.
            continue
        if run is None or run.first_run_id != row.first_run_id:
            yield where, f"is about run {row.run_id}, which is not of its chain"
            continue
        history = histories.get(row.run_id)
        if history is None:
            continue
        at = history[row.answer_seq - 1] if row.answer_seq and row.answer_seq <= len(history) else None
        found = (
            _check_signal(row, history, at) if row.kind == "signal" else _check_update(row, run, history, at)
        )
        for what in found:
            yield where, what
    yield from _check_known(rows, runs, histories)


def _check_signal(row: RequestRow, history: Sequence[Event], at: Event | None) -> Iterator[str]:
    if row.state != DELIVERED:
        yield f"is {row.state}, which no signal can be"
    if not isinstance(at, events.SignalReceived) or at.request_id != row.request_id:
        yield f"is said to be event {row.answer_seq}, which it is not"
    there = [
        one for one in history if isinstance(one, events.SignalReceived) and one.request_id == row.request_id
    ]
    if len(there) != 1:
        yield f"is {len(there)} times in run {row.run_id}"


def _check_update(row: RequestRow, run: RunRow, history: Sequence[Event], at: Event | None) -> Iterator[str]:
    accepted = [
        one for one in history if isinstance(one, events.UpdateAccepted) and one.update_id == row.request_id
    ]
    completed = [
        one for one in history if isinstance(one, events.UpdateCompleted) and one.update_id == row.request_id
    ]
    expected = {OPEN: (len(accepted), 0), COMPLETED: (1, 1), REJECTED: (0, 0)}.get(row.state)
    if (len(accepted), len(completed)) != expected or len(accepted) > 1:
        yield f"is {row.state}, with {len(accepted)} acceptances and {len(completed)} completions in the history"
    if row.state == OPEN and run.closed_at is not None:
        yield f"is open, its run is {run.status}"
    if row.state == OPEN and bool(row.answer_seq) != bool(accepted):
        yield f"says it was accepted by event {row.answer_seq}; the history has {len(accepted)} acceptances"
    if row.state == COMPLETED and (
        not isinstance(at, events.UpdateCompleted) or at.update_id != row.request_id
    ):
        yield f"is said to be answered by event {row.answer_seq}, which it is not"
    if (row.state == REJECTED) != (row.answer is not None):
        yield f"is {row.state} and its answer is {'missing' if row.answer is None else 'in its row'}"


def _check_known(
    rows: Sequence[RequestRow], runs: Mapping[str, RunRow], histories: Histories
) -> Iterator[tuple[str, str]]:
    """Check that what was acknowledged has a row, without which it would be accepted again."""
    known = {row.key for row in rows}
    for run_id, history in histories.items():
        run = runs.get(run_id)
        if run is None:
            continue
        for event in history:
            if isinstance(event, events.UpdateAccepted):
                kind, request_id = "update", event.update_id
            elif isinstance(event, events.SignalReceived) and event.request_id is not None:
                kind, request_id = "signal", event.request_id
            else:
                continue
            if (run.first_run_id, kind, request_id) not in known:
                yield f"run {run_id}", f"has taken {kind} {request_id}, which has no row"
