"""Rows of activities, for tests that write them themselves."""

from __future__ import annotations

from typing import Any


def activity_row(run_id: str, **given: Any) -> dict[str, Any]:
    """The row of a pending activity."""
    usual: dict[str, Any] = {
        "run_id": run_id,
        "activity_id": 3,
        "activity_type": "charge",
        "task_queue": "default",
        "priority": 5,
        "scheduled_seq": 3,
        "status": "pending",
        "attempt": 1,
        "uncharged": 0,
        "rescues": 0,
        "scheduled_at": 0,
        "available_at": 0,
        "options": "{}",
        "cancel_requested": False,
        "local": False,
    }
    return {**usual, **given}
