"""Requests: keyed signals, updates and queries, one row each, deduplicated by key over a whole chain.

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

import orjson

from outlast_store.journal.batch import Batch
from outlast_store.reads.requests import COLUMNS as _COLUMNS
from outlast_store.reads.requests import KEY as _KEY
from outlast_store.reads.requests import LAST_RECORD as _LAST_RECORD
from outlast_store.reads.requests import SELECT as _SELECT
from outlast_store.reads.requests import WAITING as _WAITING
from outlast_store.reads.requests import read_record as _read_record
from outlast_store.schema.rows import RequestKey, RequestRow, RunRow
from outlast_store.transitions.queued_runs import join_line
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import WorkflowClosedError
from outlast_workflow.history.events import (
    Failure,
    SignalReceived,
    UpdateCompleted,
    WorkflowTaskCompleted,
    stored_event,
)

OPEN, COMPLETED, REJECTED, DELIVERED, ANSWERED = "open", "completed", "rejected", "delivered", "answered"

ACCEPTED = "accepted"
"""Not a state of a row, but of its notification: the row is open and was accepted."""

DELETED = "deleted"
"""Not a state of a row either: the notification that the row is gone."""

_PLAIN = DataConverter()


# --- in a batch -----------------------------------------------------------------------------------------------------


def find(batch: Batch, key: RequestKey) -> RequestRow | None:
    """Return the request of a key, if there is one."""
    rows = batch.scan(_SELECT + _KEY, key)
    return RequestRow(*rows[0]) if rows else None


def add(batch: Batch, row: RequestRow) -> bool:
    """Insert a request; return ``False`` if its key is in use, because another process has just inserted it."""
    marks = ", ".join("?" * len(vars(row)))
    text = f"INSERT INTO workflow_requests ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    return batch.execute(text, tuple(vars(row).values())) == 1


def signal_delivered(batch: Batch, run: RunRow, signal: SignalReceived, seq: int) -> None:
    """Write the new place of a keyed signal that moved with its chain.

    Args:
        batch: The batch.
        run: The run that has it now.
        signal: The signal.
        seq: Its seq there.
    """
    if signal.request_id is not None:
        batch.execute(
            f"UPDATE workflow_requests SET run_id = ?, answer_seq = ? WHERE {_KEY}",
            (run.run_id, seq, run.first_run_id, "signal", signal.request_id),
        )


# --- signals --------------------------------------------------------------------------------------------------------


def unhandled_signals(batch: Batch, run: RunRow) -> int:
    """Return how many signals of a run wait: those not applied by a workflow task, and those without a handler."""
    through, buffered = _last_record(batch, run)
    waiting = sum(buffered.values())
    text = "SELECT COUNT(*) FROM history_events WHERE run_id = ? AND seq > ? AND type = 'SignalReceived'"
    stored = int(batch.scan(text, (run.run_id, through))[0][0])
    fresh = sum(
        isinstance(event, SignalReceived) and seq > through for seq, event, _ in batch.appended(run.run_id)
    )
    return stored + fresh + waiting


def unapplied_signals(batch: Batch, run: RunRow, after_seq: int) -> list[SignalReceived]:
    """Return the signals of a run after a seq, in order.

    Args:
        batch: The batch.
        run: The run.
        after_seq: The seq up to which signals were applied.
    """
    return [signal for _, signal in _signals(batch, run, after_seq)]


def unhandled(batch: Batch, run: RunRow) -> list[SignalReceived]:
    """Return the signals of a run that were not handled, in order: those without a handler, and those never applied.

    This does not need the workflow's code: the record of the last workflow task says how many signals of each name had
    no handler, and they are the latest of that name.
    """
    through, buffered = _last_record(batch, run)
    left = dict(buffered)
    found: list[SignalReceived] = []
    for seq, signal in reversed(_signals(batch, run, 0 if left else through)):
        if seq > through:
            found.append(signal)
        elif left.get(signal.name):
            left[signal.name] -= 1
            found.append(signal)
    return found[::-1]


def _signals(batch: Batch, run: RunRow, after_seq: int) -> list[tuple[int, SignalReceived]]:
    text = (
        "SELECT seq, payload FROM history_events "
        "WHERE run_id = ? AND seq > ? AND type = 'SignalReceived' ORDER BY seq"
    )
    found: list[tuple[int, SignalReceived]] = []
    for seq, payload in batch.scan(text, (run.run_id, after_seq)):
        event = stored_event(run.run_id, seq, SignalReceived.type, payload)
        assert isinstance(event, SignalReceived)
        found.append((seq, event))
    found += [
        (seq, event)
        for seq, event, _ in batch.appended(run.run_id)
        if seq > after_seq and isinstance(event, SignalReceived)
    ]
    return found


def _last_record(batch: Batch, run: RunRow) -> tuple[int, dict[str, int]]:
    """Return the seq that the last workflow task had applied, and how many signals it left without a handler."""
    for _, event, _ in reversed(batch.appended(run.run_id)):
        if isinstance(event, WorkflowTaskCompleted):
            return event.through, event.buffered or {}
    return _read_record(batch.scan(_LAST_RECORD, (run.run_id,)), run.run_id)


def move_signals(batch: Batch, following: RunRow, signals: Sequence[SignalReceived]) -> None:
    """Append signals that a run did not handle to the next run of its chain, in order.

    Args:
        batch: The batch.
        following: The next run.
        signals: The signals.
    """
    for signal in signals:
        seq = batch.append(following, signal)
        signal_delivered(batch, following, signal, seq)


def end_start_delay(batch: Batch, run: RunRow) -> None:
    """End the start delay of a run; a backoff continues. A run of a queue joins its line."""
    if not run.start_delayed:
        return
    if run.status == "queued":
        join_line(batch, run, batch.now)
    else:
        run.start_delayed = False
        run.not_before = 0


# --- updates --------------------------------------------------------------------------------------------------------


def open_updates(batch: Batch, run_id: str, *, accepted: bool = True) -> list[RequestRow]:
    """Return the updates of a run that have no answer, oldest first.

    Args:
        batch: The batch.
        run_id: The run.
        accepted: Whether to include those that were accepted.
    """
    where = "run_id = ? AND state = 'open' AND kind = 'update'" if accepted else _WAITING
    return [
        RequestRow(*row) for row in batch.scan(f"{_SELECT}{where} ORDER BY created_at, request_id", (run_id,))
    ]


def count_open_updates(batch: Batch, run_id: str) -> int:
    """Return how many updates of a run have no answer."""
    text = "SELECT COUNT(*) FROM workflow_requests WHERE run_id = ? AND state = 'open' AND kind = 'update'"
    return int(batch.scan(text, (run_id,))[0][0])


def accepted(batch: Batch, key: RequestKey, seq: int) -> bool:
    """Write that an update was accepted; return ``False`` if it no longer waits for that.

    Args:
        batch: The batch.
        key: The update's key.
        seq: The seq of its ``UpdateAccepted``.
    """
    text = (
        f"UPDATE workflow_requests SET answer_seq = ? WHERE {_KEY} AND state = 'open' AND answer_seq IS NULL"
    )
    batch.answered[key] = (ACCEPTED, None)
    return batch.execute(text, (seq, *key)) == 1


def completed(batch: Batch, key: RequestKey, seq: int, event: UpdateCompleted) -> bool:
    """Write that an update was answered; return ``False`` if it was not open.

    Args:
        batch: The batch.
        key: The update's key.
        seq: The seq of its ``UpdateCompleted``.
        event: That event.
    """
    text = f"UPDATE workflow_requests SET state = 'completed', answer_seq = ? WHERE {_KEY} AND state = 'open'"
    batch.answered[key] = (COMPLETED, event)
    return batch.execute(text, (seq, *key)) == 1


def rejected(batch: Batch, key: RequestKey, failure: Failure) -> bool:
    """Write that an update was rejected; return ``False`` if it was not open.

    Args:
        batch: The batch.
        key: The update's key, under which the answer is kept.
        failure: Why it was rejected.
    """
    text = f"UPDATE workflow_requests SET state = 'rejected', answer = ? WHERE {_KEY} AND state = 'open'"
    batch.answered[key] = (REJECTED, failure)
    return batch.execute(text, (orjson.dumps(failure).decode(), *key)) == 1


def answer_open_updates(batch: Batch, run: RunRow, status: str, by: str) -> None:
    """Answer the open updates of a run that ends with a failure, whether they were accepted or not.

    Args:
        batch: The batch.
        run: The run.
        status: Its terminal status.
        by: What ended it; the events carry it.
    """
    ended = failure_of(WorkflowClosedError(run.workflow_id, run_id=run.run_id, status=status), _PLAIN)
    for row in open_updates(batch, run.run_id):
        if row.answer_seq is None:
            message = f"workflow {run.workflow_id!r} ended ({status}) before it accepted the update"
            rejected(batch, row.key, {**ended, "message": message})
        else:
            message = (
                f"run {run.run_id} of workflow {run.workflow_id!r} ended ({status}) before the update was finished: "
                "let its code wait for workflow.all_handlers_finished before it ends"
            )
            failure = {**ended, "message": message}
            event = UpdateCompleted(row.request_id, failure=failure, by=by)
            completed(batch, row.key, batch.append(run, event), event)


def move_updates(batch: Batch, run: RunRow, following: RunRow) -> None:
    """Move the updates that were not accepted to the next run of a chain.

    Args:
        batch: The batch.
        run: The run that ends.
        following: The next run.
    """
    moved = batch.execute(
        f"UPDATE workflow_requests SET run_id = ? WHERE {_WAITING}", (following.run_id, run.run_id)
    )
    if moved:
        following.inbox += moved


# --- outside of batches ---------------------------------------------------------------------------------------------
