"""The rows of an activity's attempts that did not succeed: reading one, deleting one that is no longer kept."""

from __future__ import annotations

from typing import Final

from outlast_store.database.sql_text import columns_of
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.ids import first_id_at
from outlast_store.schema.rows import AttemptRow
from outlast_workflow.primitives.enums import AttemptOutcome

_ATTEMPT: Final = "WHERE run_id = ? AND activity_id = ? AND attempt = ?"
_FAILURE: Final = (
    "DELETE FROM workflow_failures WHERE failure_id = (SELECT failure_id FROM workflow_failures "
    "WHERE run_id = ? AND failure_id >= ? AND recorded_at = ? AND source_kind = 'activity_execution' "
    "AND source_id = ? AND event_seq IS NULL ORDER BY failure_id LIMIT 1)"
)
_WITH_A_FAILURE: Final = (AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT)


def outcome_of_attempt(batch: Batch, run_id: str, activity_id: int, attempt: int) -> str | None:
    """Return how an attempt without success ended; ``None`` if there is no row of it, or no longer.

    Args:
        batch: The transaction; what it has written so far counts.
        run_id: The run that called the activity.
        activity_id: The activity.
        attempt: The attempt's number.
    """
    row = read_attempt(batch, run_id, activity_id, attempt)
    return row.outcome if row is not None else None


def read_attempt(batch: Batch, run_id: str, activity_id: int, attempt: int) -> AttemptRow | None:
    """Return the row of an attempt without success; ``None`` if there is none, or no longer.

    Args:
        batch: The transaction; what it has written so far counts.
        run_id: The run that called the activity.
        activity_id: The activity.
        attempt: The attempt's number.
    """
    key = (run_id, activity_id, attempt)
    for row in batch.attempts:
        if (row.run_id, row.activity_id, row.attempt) == key:
            return row
    names = ", ".join(columns_of(tables.activity_attempts))
    found = batch.scan(f"SELECT {names} FROM activity_attempts {_ATTEMPT}", key)
    return AttemptRow(*found[0]) if found else None


def delete_attempt(batch: Batch, run_id: str, activity_id: int, attempt: int) -> None:
    """Delete an attempt's row and, if it has one, its failure's row, which was written in the same batch.

    Args:
        batch: The transaction.
        run_id: The run that called the activity.
        activity_id: The activity.
        attempt: The attempt's number.
    """
    key = (run_id, activity_id, attempt)
    found = batch.scan(f"SELECT outcome, ended_at FROM activity_attempts {_ATTEMPT}", key)
    batch.execute(f"DELETE FROM activity_attempts {_ATTEMPT}", key)
    for outcome, ended_at in found:
        if outcome in _WITH_A_FAILURE:
            batch.execute(_FAILURE, (run_id, first_id_at(ended_at), ended_at, str(activity_id)))
