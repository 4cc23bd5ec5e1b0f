"""The timeline of one run: its activities with all attempts, what else took time, and its chain.

Of each activity it reads only how long it took; the rows of those that are drawn by themselves are read afterwards. Of
other events it reads the latest, and says whether there are more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from outlast_store.database.snapshots import snapshot
from outlast_store.database.sql_text import columns_of, fetch, marks
from outlast_store.schema import tables
from outlast_store.schema.rows import AttemptRow
from outlast_workflow.history.events import stored_payload

MOST_EVENTS: Final = 600
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


@dataclass(frozen=True, slots=True)
class ActivitySpan:
    """How long an activity took."""

    activity_id: int
    activity_type: str
    status: str
    attempt: int
    scheduled_at: int
    started_at: int | None
    closed_at: int | None


@dataclass(slots=True)
class RunTimeline:
    """What happened in a run, each list in order. ``more_events`` says whether there are earlier ones."""

    activities: list[ActivitySpan]
    events: list[Happening]
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
        activities = fetch(
            connection,
            "SELECT activity_id, activity_type, status, attempt, scheduled_at, started_at, closed_at "
            "FROM activity_executions WHERE run_id = ? ORDER BY activity_id",
            (run_id,),
        )
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
        activities=[ActivitySpan(*row) for row in activities],
        events=[
            Happening(seq, kind, at, stored_payload(payload, run_id, seq))
            for seq, kind, at, payload in events[:MOST_EVENTS][::-1]
        ],
        more_events=len(events) > MOST_EVENTS,
        runs=[ChainLink(*row) for row in runs],
        parent_workflow_id=parent[0][0] if parent else None,
    )


_ATTEMPT: Final = ", ".join(
    "NULL" if name == "failure" else name for name in columns_of(tables.activity_attempts)
)


def find_attempts(connection: Connection, run_id: str, activity_ids: Sequence[int]) -> list[AttemptRow]:
    """Return the unsuccessful attempts of some activities (a few hundred at most), without their failures."""
    text = (
        f"SELECT {_ATTEMPT} FROM activity_attempts WHERE run_id = ? AND activity_id IN ({marks(activity_ids)}) "
        "ORDER BY activity_id, attempt"
    )
    return [AttemptRow(*row) for row in fetch(connection, text, (run_id, *activity_ids))]


def timer_starts(connection: Connection, run_id: str) -> dict[int, int]:
    """Return when the latest timers of a run were started, by their ids.

    Args:
        connection: Where to read.
        run_id: Which run.
    """
    text = (
        "SELECT seq, recorded_at, payload FROM history_events WHERE run_id = ? AND type = 'TimerScheduled' "
        "ORDER BY seq DESC LIMIT ?"
    )
    rows = fetch(connection, text, (run_id, MOST_EVENTS))
    return {stored_payload(payload, run_id, seq)["command_id"]: at for seq, at, payload in rows}
