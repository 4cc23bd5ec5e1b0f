"""The events of a run's history as a handle shows them, read page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from outlast.client.run_rows import row_of
from outlast.runtime.runtime import Runtime
from outlast_store.reads.histories import read_events
from outlast_workflow.history.events import stored_payload
from outlast_workflow.primitives.times import to_datetime

EVENTS_PER_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One event of a run's history: ``type`` is the event's name, ``payload`` holds plain JSON values."""

    seq: int
    type: str
    recorded_at: datetime
    payload: dict[str, Any]


async def history_page(
    runtime: Runtime, workflow_id: str, run_id: str, after_seq: int, *, check: bool
) -> list[HistoryEvent]:
    """Return the next events of a run, at most :data:`EVENTS_PER_PAGE`; none at the end.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: One of its runs.
        after_seq: The number of the last event that was read.
        check: Whether to make sure that the run exists, as for a first page.

    Raises:
        RunNotFoundError: The workflow has no such run.
        DamagedHistoryError: An event cannot be read.
    """
    rows = await runtime.read(read_events, run_id, after_seq, EVENTS_PER_PAGE)
    if check:
        _ = await row_of(runtime, workflow_id, run_id)
    return [
        HistoryEvent(seq, kind, to_datetime(recorded_at), stored_payload(payload, run_id, seq))
        for seq, kind, recorded_at, payload in rows
    ]
