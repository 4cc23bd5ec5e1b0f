"""Requests: keyed signals, updates and queries, one row each; the key deduplicates over a whole chain.

=======  ==========  ==================================================================================
kind     state       means
=======  ==========  ==================================================================================
signal   delivered   it is in the history of ``run_id``, at ``answer_seq``
update   open        nobody has accepted it yet; with ``answer_seq`` it was, by the event there
update   completed   ``UpdateCompleted`` stands in the history of ``run_id``, at ``answer_seq``
update   rejected    ``answer`` is the failure; nothing is in any history
query    open        somebody in another process waits for the answer, until ``expires_at``
query    answered    ``answer`` is it
=======  ==========  ==================================================================================

Rows are changed by statements of their own, at once, within the batch's transaction and under the run's guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection

from holdfast_store import tables
from holdfast_store.batch import Batch
from holdfast_store.queries import fetch
from holdfast_store.rows import Row, RunRow
from holdfast_store.statements import columns_of
from holdfast_workflow.events import Failure, SignalReceived, WorkflowTaskCompleted

OPEN, COMPLETED, REJECTED, DELIVERED, ANSWERED = "open", "completed", "rejected", "delivered", "answered"

RequestKey = tuple[str, str, str]
"""The first run of the chain, the kind, the request's id."""


@dataclass(eq=False)
class RequestRow(Row):
    """A request and what became of it."""

    first_run_id: str
    kind: str
    request_id: str
    run_id: str
    name: str
    input: str
    state: str
    answer: str | None
    answer_seq: int | None
    created_at: int
    expires_at: int | None

    @property
    def key(self) -> RequestKey:
        """The row's key."""
        return self.first_run_id, self.kind, self.request_id


_COLUMNS = ", ".join(columns_of(tables.workflow_requests))
_KEY = "first_run_id = ? AND kind = ? AND request_id = ?"
_SELECT = f"SELECT {_COLUMNS} FROM workflow_requests WHERE "
_WAITING = "run_id = ? AND state = 'open' AND kind = 'update' AND answer_seq IS NULL"


# --- in a batch -----------------------------------------------------------------------------------------------------


def find(batch: Batch, key: RequestKey) -> RequestRow | None:
    """The request of a key."""
    rows = batch.scan(_SELECT + _KEY, key)
    return RequestRow(*rows[0]) if rows else None


def add(batch: Batch, row: RequestRow) -> bool:
    """Insert a request; ``False`` where its key is taken (by another process, a moment ago)."""
    marks = ", ".join("?" * len(vars(row)))
    text = f"INSERT INTO workflow_requests ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    return batch.execute(text, tuple(vars(row).values())) == 1


def signal_delivered(batch: Batch, run: RunRow, signal: SignalReceived, seq: int) -> None:
    """A keyed signal stands elsewhere now: it moved with its chain."""
    if signal.request_id is not None:
        batch.execute(
            f"UPDATE workflow_requests SET run_id = ?, answer_seq = ? WHERE {_KEY}",
            (run.run_id, seq, run.first_run_id, "signal", signal.request_id),
        )


# --- signals --------------------------------------------------------------------------------------------------------


def unhandled_signals(batch: Batch, run: RunRow) -> int:
    """How many signals of a run wait: those that no activation has applied, and those without a handler."""
    through, buffered = _last_record(batch, run)
    text = "SELECT COUNT(*) FROM history_events WHERE run_id = ? AND seq > ? AND type = 'SignalReceived'"
    stored = int(batch.scan(text, (run.run_id, through))[0][0])
    fresh = sum(
        isinstance(event, SignalReceived) and seq > through for seq, event, _ in batch.appended(run.run_id)
    )
    return stored + fresh + buffered


def unapplied_signals(batch: Batch, run: RunRow, after_seq: int | None = None) -> list[SignalReceived]:
    """The signals of a run that no activation has applied, in order.

    Args:
        batch: The batch.
        run: The run.
        after_seq: Up to where signals were applied; asked of the history if not given.
    """
    if after_seq is None:
        after_seq, _ = _last_record(batch, run)
    text = (
        "SELECT seq, payload FROM history_events "
        "WHERE run_id = ? AND seq > ? AND type = 'SignalReceived' ORDER BY seq"
    )
    found = [
        SignalReceived.from_document(orjson.loads(payload))
        for _, payload in batch.scan(text, (run.run_id, after_seq))
    ]
    found += [
        event
        for seq, event, _ in batch.appended(run.run_id)
        if seq > after_seq and isinstance(event, SignalReceived)
    ]
    return found


def _last_record(batch: Batch, run: RunRow) -> tuple[int, int]:
    """Up to which seq the last activation had applied events, and how many signals it left without a handler."""
    for _, event, _ in reversed(batch.appended(run.run_id)):
        if isinstance(event, WorkflowTaskCompleted):
            return event.through, event.buffered or 0
    text = (
        "SELECT payload FROM history_events WHERE run_id = ? AND type = 'WorkflowTaskCompleted' "
        "ORDER BY seq DESC LIMIT 1"
    )
    rows = batch.scan(text, (run.run_id,))
    if not rows:
        return 0, 0
    record: dict[str, Any] = orjson.loads(rows[0][0])
    return record["through"], record.get("buffered") or 0


def move_signals(batch: Batch, following: RunRow, signals: Sequence[SignalReceived]) -> None:
    """Give the next run of a chain the signals that the one before it did not handle, in order."""
    for signal in signals:
        seq = batch.append(following, signal)
        signal_delivered(batch, following, signal, seq)


def end_start_delay(run: RunRow) -> None:
    """A run that waits for its start delay begins now; a backoff goes on."""
    if run.start_delayed:
        run.start_delayed = False
        run.not_before = 0


# --- updates --------------------------------------------------------------------------------------------------------


def open_updates(batch: Batch, run_id: str) -> list[RequestRow]:
    """The updates of a run that have no answer, oldest first."""
    where = "run_id = ? AND state = 'open' AND kind = 'update' ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in batch.scan(_SELECT + where, (run_id,))]


def count_open_updates(batch: Batch, run_id: str) -> int:
    """How many there are."""
    text = "SELECT COUNT(*) FROM workflow_requests WHERE run_id = ? AND state = 'open' AND kind = 'update'"
    return int(batch.scan(text, (run_id,))[0][0])


def accepted(batch: Batch, key: RequestKey, seq: int) -> bool:
    """An update was accepted, by the event at ``seq``; ``False`` where it is no longer open."""
    text = f"UPDATE workflow_requests SET answer_seq = ? WHERE {_KEY} AND state = 'open'"
    return _noted(batch, key, batch.execute(text, (seq, *key)))


def completed(batch: Batch, key: RequestKey, seq: int) -> bool:
    """An update was answered, by the event at ``seq``."""
    text = f"UPDATE workflow_requests SET state = 'completed', answer_seq = ? WHERE {_KEY}"
    return _noted(batch, key, batch.execute(text, (seq, *key)))


def rejected(batch: Batch, key: RequestKey, failure: Failure) -> bool:
    """An update was not accepted; the answer is remembered for its id."""
    text = f"UPDATE workflow_requests SET state = 'rejected', answer = ? WHERE {_KEY} AND state = 'open'"
    return _noted(batch, key, batch.execute(text, (orjson.dumps(failure).decode(), *key)))


def move_updates(batch: Batch, run: RunRow, following: RunRow) -> None:
    """Give the next run of a chain the updates that nobody has accepted."""
    moved = batch.execute(
        f"UPDATE workflow_requests SET run_id = ? WHERE {_WAITING}", (following.run_id, run.run_id)
    )
    if moved:
        following.inbox += moved


def _noted(batch: Batch, key: RequestKey, changed: int) -> bool:
    batch.answered.add(key)
    return changed == 1


# --- outside of batches ---------------------------------------------------------------------------------------------


def waiting_updates(connection: Connection, run_id: str) -> list[RequestRow]:
    """The updates of a run that nobody has accepted, oldest first."""
    text = _SELECT + _WAITING + " ORDER BY created_at, request_id"
    return [RequestRow(*row) for row in fetch(connection, text, (run_id,))]


def request(connection: Connection, key: RequestKey) -> RequestRow | None:
    """The request of a key."""
    rows = fetch(connection, _SELECT + _KEY, key)
    return RequestRow(*rows[0]) if rows else None
