"""The timeline of one run: its activities with all attempts, what else took time, and its chain.

It is bounded, so that a run of 20,000 events is shown as quickly as a short one: it holds the latest of each kind, and
says whether there are more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import fetch, marks, select
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow, AttemptRow

MOST_ACTIVITIES: Final = 100
MOST_EVENTS: Final = 300
MOST_RUNS: Final = 50
SHOWN_EVENTS: Final = (
    "TimerScheduled",
    "TimerFired",
    "TimerCancelled",
    "SignalReceived",
    "UpdateAccepted",
    "UpdateCompleted",
    "ChildWorkflowScheduled",
    "ChildWorkflowStarted",
    "ChildWorkflowStartFailed",
    "ChildWorkflowCompleted",
    "ChildWorkflowFailed",
    "ChildWorkflowTimedOut",
    "ChildWorkflowCancelled",
    "ChildWorkflowTerminated",
    "WorkflowCancelRequested",
    "WorkflowTaskFailed",
)
"""Events that take time or mark a moment. Activities are not among them: their rows are read."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that the timeline shows."""

    seq: int
    type: str
    recorded_at: int
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A run of a workflow id."""

    run_id: str
    run_number: int
    first_run_id: str
    status: str
    created_at: int
    closed_at: int | None


@dataclass(slots=True)
class RunTimeline:
    """What happened in a run, each list in order.

    ``more_activities`` and ``more_events`` say whether there are earlier ones.
    """

    activities: list[ActivityRow]
    attempts: list[AttemptRow]
    events: list[Happening]
    more_activities: bool
    more_events: bool
    runs: list[ChainLink]
    parent_workflow_id: str | None


def run_timeline(
    connection: Connection, run_id: str, workflow_id: str, parent_run_id: str | None
) -> RunTimeline:
    """Return what happened in a run.

    Args:
        connection: Where to read.
        run_id: Which run.
        workflow_id: Its workflow, whose runs are listed.
        parent_run_id: The run that started it, if one did.
    """
    with snapshot(connection):
        activities = _latest_activities(connection, run_id)
        shown = activities[:MOST_ACTIVITIES][::-1]
        attempts = _attempts_from(connection, run_id, shown[0].activity_id) if shown else []
        events = fetch(
            connection,
            "SELECT seq, type, recorded_at, payload FROM history_events "
            f"WHERE run_id = ? AND type IN ({marks(SHOWN_EVENTS)}) ORDER BY seq DESC LIMIT ?",
            (run_id, *SHOWN_EVENTS, MOST_EVENTS + 1),
        )
        runs = fetch(
            connection,
            "SELECT run_id, run_number, first_run_id, status, created_at, closed_at FROM workflow_runs "
            "WHERE workflow_id = ? ORDER BY run_id DESC LIMIT ?",
            (workflow_id, MOST_RUNS),
        )
        parent = (
            fetch(connection, "SELECT workflow_id FROM workflow_runs WHERE run_id = ?", (parent_run_id,))
            if parent_run_id is not None
            else []
        )
    return RunTimeline(
        activities=shown,
        attempts=attempts,
        events=[
            Happening(seq, kind, at, orjson.loads(payload))
            for seq, kind, at, payload in events[:MOST_EVENTS][::-1]
        ],
        more_activities=len(activities) > MOST_ACTIVITIES,
        more_events=len(events) > MOST_EVENTS,
        runs=[ChainLink(*row) for row in runs],
        parent_workflow_id=parent[0][0] if parent else None,
    )


def _latest_activities(connection: Connection, run_id: str) -> list[ActivityRow]:
    text = select(tables.activity_executions, "run_id = ? ORDER BY activity_id DESC LIMIT ?")
    return [ActivityRow(*row) for row in fetch(connection, text, (run_id, MOST_ACTIVITIES + 1))]


def _attempts_from(connection: Connection, run_id: str, activity_id: int) -> list[AttemptRow]:
    text = select(tables.activity_attempts, "run_id = ? AND activity_id >= ? ORDER BY activity_id, attempt")
    return [AttemptRow(*row) for row in fetch(connection, text, (run_id, activity_id))]
