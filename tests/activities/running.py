"""The row of an activity that is being tried, as an attempt's own code gets it."""

from __future__ import annotations

from typing import Any

from outlast_store.schema.rows import ActivityRow
from outlast_workflow.options.options import ActivityOptions

START = 1_800_000_000_000_000


def running_row(options: ActivityOptions, **columns: Any) -> ActivityRow:
    """A first attempt under way, without deadlines."""
    given: dict[str, Any] = {
        **dict.fromkeys(ActivityRow.__annotations__),
        "run_id": "run-1",
        "activity_id": 1,
        "activity_type": "work",
        "task_queue": "default",
        "priority": 5,
        "scheduled_seq": 3,
        "status": "running",
        "attempt": 1,
        "uncharged": 0,
        "rescues": 0,
        "scheduled_at": START,
        "available_at": START,
        "claimed_by": "worker-1",
        "started_at": START,
        "options": options.snapshot.json.decode(),
        "cancel_requested": False,
        "local": False,
    }
    return ActivityRow(**{**given, **columns})
