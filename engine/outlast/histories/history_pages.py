"""The events of a run's history as a handle shows them, read page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

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


async def history_page(runtime: Runtime, run_id: str, after_seq: int) -> list[HistoryEvent]:
    """Return the next events of a run, at most :data:`EVENTS_PER_PAGE`; none at the end, or where there is no such run.

    Args:
        runtime: The database.
        run_id: The run.
        after_seq: The number of the last event that was read.

    Raises:
        DamagedHistoryError: An event cannot be read.
    """
    rows = await runtime.read(read_events, run_id, after_seq, EVENTS_PER_PAGE)
    return [
        HistoryEvent(seq, kind, to_datetime(recorded_at), stored_payload(payload, run_id, seq))
        for seq, kind, recorded_at, payload in rows
    ]
