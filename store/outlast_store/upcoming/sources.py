"""Where what lies ahead stands: five indexes by instant, each read from any place on in bounded chunks.

A watchdog finds what is due by the same indexes. Each holds the key of its rows behind the instant, so that equal
instants have an order, and a page begins amid them without reading those before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from outlast_store.database.sql_text import Values, fetch, marks
from outlast_store.schema.rows import LOCAL
from outlast_workflow.primitives.enums import UpcomingKind


class Place(NamedTuple):
    """Where a walk through all that lies ahead has come to.

    Attributes:
        due_at: The instant, in microseconds.
        rank: The source, by its place in :data:`SOURCES`.
        key: The key of the row in its source.
    """

    due_at: int
    rank: int
    key: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """Something that lies ahead, or is past and not enforced yet.

    Attributes:
        kind: What it is.
        due_at: When, in microseconds.
        run_id: Its run; ``None`` for a schedule.
        workflow_id: Its workflow; ``None`` for a schedule.
        workflow_type: The type of its workflow, or of those that the schedule starts.
        task_queue: The task queue of the activity that it is about, or else of the workflow.
        command_id: The activity or the timer.
        name: The type of the workflow or of the activity, the timer's summary, or the schedule's id.
        alert_kind: What the alert is about.
        mark: The alert's mark.
        place: Where it stands.
    """

    kind: UpcomingKind
    due_at: int
    run_id: str | None
    workflow_id: str | None
    workflow_type: str
    task_queue: str
    command_id: int | None
    name: str | None
    alert_kind: str | None
    mark: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Source:
    """A table that holds instants.

    Attributes:
        kinds: What it holds.
        table: Its name.
        instant: The column of the instant.
        key: The columns that follow in the index: the table's key.
        partial: Whether the index leaves out rows without an instant.
        columns: What else is read of a row.
        kind: Which kind a row of ``ahead`` is of, in SQL.
        shown: Its run, workflow id, workflow type, task queue, command and name, and those of an alert, in SQL.
        joins: The joins that this takes.
    """

    kinds: frozenset[UpcomingKind]
    table: str
    instant: str
    key: tuple[str, ...]
    partial: bool
    columns: tuple[str, ...]
    kind: str
    shown: str
    joins: str = ""

    def nearest(self, bounds: str = "") -> str:
        """Return the statement that reads the rows with the nearest instants; its last mark is how many."""
        conditions = [f"{self.instant} IS NOT NULL"] if self.partial else []
        where = " AND ".join([*conditions, *([bounds] if bounds else [])])
        order = ", ".join((self.instant, *self.key))
        columns = ", ".join((self.instant, *self.key, *self.columns))
        return (
            f"SELECT {columns} FROM {self.table}{f' WHERE {where}' if where else ''} ORDER BY {order} LIMIT ?"
        )

    def read(
        self, connection: Connection, rank: int, after: Place | None, until: int | None, limit: int
    ) -> list[Due]:
        """Return what stands next, in order.

        Args:
            connection: Where to read.
            rank: The source's place among all.
            after: Where to begin: behind this place.
            until: The last instant, in microseconds; ``None`` for no end.
            limit: Rows at most.
        """
        bounds: list[str] = []
        values: list[Any] = []
        if after is not None and rank == after.rank:
            bounds.append(f"({', '.join((self.instant, *self.key))}) > ({marks((0, *after.key))})")
            values += [after.due_at, *after.key]
        elif after is not None:
            bounds.append(f"{self.instant} {'>' if rank < after.rank else '>='} ?")
            values.append(after.due_at)
        if until is not None:
            bounds.append(f"{self.instant} <= ?")
            values.append(until)
        keys = ", ".join(f"ahead.{name}" for name in self.key)
        text = (
            f"SELECT ahead.{self.instant}, {keys}, {self.kind}, {self.shown} "
            f"FROM ({self.nearest(' AND '.join(bounds))}) AS ahead{self.joins} "
            f"ORDER BY ahead.{self.instant}, {keys}"
        )
        return [self._due(row, rank) for row in fetch(connection, text, (*values, limit))]

    def _due(self, row: Values, rank: int) -> Due:
        due_at, key, shown = row[0], row[1 : 1 + len(self.key)], row[1 + len(self.key) :]
        kind, run_id, workflow_id, workflow_type, task_queue, command_id, name, *alert = shown
        alert_kind, mark = alert or (None, None)
        return Due(
            kind=UpcomingKind(kind),
            due_at=due_at,
            run_id=run_id,
            workflow_id=workflow_id,
            workflow_type=workflow_type or "",
            task_queue=(task_queue or "").removeprefix(LOCAL),
            command_id=command_id,
            name=name,
            alert_kind=alert_kind,
            mark=mark,
            place=Place(due_at, rank, key),
        )


def _first_of(columns: dict[str, UpcomingKind], otherwise: UpcomingKind) -> str:
    """Return which deadline the nearest one of a row is: the first of those columns that are equal to it."""
    cases = "".join(f" WHEN ahead.{column} THEN '{kind.value}'" for column, kind in columns.items())
    return f"CASE ahead.next_deadline_at{cases} ELSE '{otherwise.value}' END"


# Each row belongs to an open run: a left join lets no planner begin with the runs.
_JOIN_RUN: Final = " LEFT JOIN workflow_runs AS run ON run.run_id = ahead.run_id"
_JOIN_ACTIVITY: Final = (
    " LEFT JOIN activity_executions AS activity "
    "ON activity.run_id = ahead.run_id AND activity.activity_id = ahead.activity_id"
)
# Where two of them are at one instant, the one that is enforced comes first.
_OF_RUNS: Final = {
    "execution_deadline_at": UpcomingKind.EXECUTION_TIMEOUT,
    "run_deadline_at": UpcomingKind.RUN_TIMEOUT,
}
_OF_ACTIVITIES: Final = {
    "schedule_to_close_deadline_at": UpcomingKind.SCHEDULE_TO_CLOSE,
    "schedule_to_start_deadline_at": UpcomingKind.SCHEDULE_TO_START,
    "start_to_close_deadline_at": UpcomingKind.START_TO_CLOSE,
}

RUNS: Final = Source(
    kinds=frozenset({*_OF_RUNS.values(), UpcomingKind.SCHEDULE_TO_START}),
    table="workflow_runs",
    instant="next_deadline_at",
    key=("run_id",),
    partial=True,
    columns=("workflow_id", "workflow_type", "task_queue", *_OF_RUNS),
    kind=_first_of(_OF_RUNS, UpcomingKind.SCHEDULE_TO_START),
    shown="ahead.run_id, ahead.workflow_id, ahead.workflow_type, ahead.task_queue, NULL, ahead.workflow_type",
)
ACTIVITIES: Final = Source(
    kinds=frozenset({*_OF_ACTIVITIES.values(), UpcomingKind.HEARTBEAT}),
    table="activity_executions",
    instant="next_deadline_at",
    key=("run_id", "activity_id"),
    partial=True,
    columns=("activity_type", "task_queue", *_OF_ACTIVITIES),
    kind=_first_of(_OF_ACTIVITIES, UpcomingKind.HEARTBEAT),
    shown=(
        "ahead.run_id, run.workflow_id, run.workflow_type, ahead.task_queue, ahead.activity_id, "
        "ahead.activity_type"
    ),
    joins=_JOIN_RUN,
)
TIMERS: Final = Source(
    kinds=frozenset({UpcomingKind.TIMER}),
    table="timers",
    instant="fire_at",
    key=("run_id", "timer_id"),
    partial=False,
    columns=("summary",),
    kind=f"'{UpcomingKind.TIMER.value}'",
    shown="ahead.run_id, run.workflow_id, run.workflow_type, run.task_queue, ahead.timer_id, ahead.summary",
    joins=_JOIN_RUN,
)
ALERTS: Final = Source(
    kinds=frozenset({UpcomingKind.ALERT}),
    table="alert_timers",
    instant="due_at",
    key=("run_id", "activity_id", "kind", "mark"),
    partial=False,
    columns=(),
    kind=f"'{UpcomingKind.ALERT.value}'",
    shown=(
        "ahead.run_id, run.workflow_id, run.workflow_type, COALESCE(activity.task_queue, run.task_queue), "
        "NULLIF(ahead.activity_id, 0), COALESCE(activity.activity_type, run.workflow_type), ahead.kind, ahead.mark"
    ),
    joins=_JOIN_RUN + _JOIN_ACTIVITY,
)
SCHEDULES: Final = Source(
    kinds=frozenset({UpcomingKind.SCHEDULE}),
    table="schedules",
    instant="next_look_at",
    key=("schedule_id",),
    partial=True,
    columns=("workflow_type", "task_queue"),
    kind=f"'{UpcomingKind.SCHEDULE.value}'",
    shown="NULL, NULL, ahead.workflow_type, ahead.task_queue, NULL, ahead.schedule_id",
)
SOURCES: Final = (RUNS, ACTIVITIES, TIMERS, ALERTS, SCHEDULES)
