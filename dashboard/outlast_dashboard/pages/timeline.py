"""A run as a drawing to scale: how long each part took, and when timers and deadlines are due.

The functions are pure: rows in, lanes out. Times are microseconds; a drawing is :data:`WIDTH` units wide. The future is
drawn as it is planned: timers until they fire, deadlines as marks.

::

    run        ██████████████████████▒▒▒▒▒▒▒│ run deadline
    charge     ──██✗──██████████▒▒▒▒▒▒│ start-to-close
    timer 3        ██████████████▒▒▒▒▒▒▒▒▒▒│ fires
                                 now
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from outlast_store.reads.timeline import Happening, RunTimeline
from outlast_store.schema.rows import ActivityRow, AttemptRow, RunRow
from outlast_workflow.primitives.enums import ActivityStatus, TimeoutKind

WIDTH: Final = 1000.0
LEAST_SPAN_US: Final = 1_000
LEAST_WIDTH: Final = 3.0
MOST_TICKS: Final = 5
FARTHEST_AHEAD: Final = 4
"""How many times longer than the past the future may be; later instants are drawn at the edge."""

_SECOND: Final = 1_000_000
_STEPS: Final = tuple(
    [unit * number for unit in (1_000, 10_000, 100_000) for number in (1, 2, 5)]
    + [_SECOND * number for number in (1, 2, 5, 10, 15, 30)]
    + [_SECOND * 60 * number for number in (1, 2, 5, 10, 15, 30)]
    + [_SECOND * 3600 * number for number in (1, 2, 3, 6, 12)]
    + [_SECOND * 86400 * number for number in (1, 2, 5, 10, 30, 100, 365, 1000, 3650, 36500)]
)
"""The possible distances between marks of the axis, in microseconds."""

_DEADLINES: Final = (
    ("schedule_to_start_deadline_at", TimeoutKind.SCHEDULE_TO_START),
    ("start_to_close_deadline_at", TimeoutKind.START_TO_CLOSE),
    ("heartbeat_deadline_at", TimeoutKind.HEARTBEAT),
    ("schedule_to_close_deadline_at", TimeoutKind.SCHEDULE_TO_CLOSE),
)
_CHILD_ENDS: Final = {
    "ChildWorkflowStartFailed": "failed",
    "ChildWorkflowCompleted": "completed",
    "ChildWorkflowFailed": "failed",
    "ChildWorkflowTimedOut": "timed_out",
    "ChildWorkflowCancelled": "cancelled",
    "ChildWorkflowTerminated": "terminated",
}


@dataclass(slots=True)
class Span:
    """Something that takes time. ``end`` is ``None`` until it is over; ``look`` names how it is drawn."""

    start: int
    end: int | None
    look: str
    words: str


@dataclass(slots=True)
class Mark:
    """An instant: a deadline, a signal."""

    at: int
    look: str
    words: str


@dataclass(slots=True)
class Lane:
    """One line of the drawing."""

    kind: str
    label: str
    state: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    workflow_id: str | None = None
    """The child workflow that the lane is about."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A rectangle of the drawing."""

    x: float
    width: float
    look: str
    words: str


@dataclass(slots=True)
class Timeline:
    """The lanes of a run between two instants."""

    start: int
    end: int
    now: int
    lanes: list[Lane]

    def x(self, at: int) -> float:
        """Return where an instant is drawn. Instants outside the drawing are at its edge."""
        share = (at - self.start) / (self.end - self.start)
        return round(min(max(share, 0.0), 1.0) * WIDTH, 2)

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """The marks of the axis: their places, and their distances from the start in seconds."""
        span = self.end - self.start
        step = next((step for step in _STEPS if span // step <= MOST_TICKS), _STEPS[-1])
        # The last mark needs room for its label.
        room = span - span // 25
        return [(self.x(self.start + at), at / _SECOND) for at in range(step, room, step)]

    @property
    def cut_off(self) -> bool:
        """Whether a mark is later than the end of the drawing."""
        return any(mark.at > self.end for lane in self.lanes for mark in lane.marks)

    def drawn(self, lane: Lane) -> list[Drawn]:
        """Return the rectangles of a lane: the past, the future, and the marks over them."""
        found: list[Drawn] = []
        for span in lane.spans:
            end = span.end if span.end is not None else self.now
            found.append(self._rectangle(span.start, min(end, self.now), span.look, span.words))
            if end > self.now:
                found.append(self._rectangle(max(span.start, self.now), end, "ahead", span.words))
        for mark in lane.marks:
            found.append(Drawn(min(self.x(mark.at), WIDTH - LEAST_WIDTH), LEAST_WIDTH, mark.look, mark.words))
        return found

    def _rectangle(self, start: int, end: int, look: str, words: str) -> Drawn:
        left = self.x(start)
        return Drawn(left, max(self.x(end) - left, LEAST_WIDTH), look, words)


def timeline(run: RunRow, found: RunTimeline, now: int) -> Timeline:
    """Return the drawing of a run.

    Args:
        run: The run.
        found: Its activities, attempts and events.
        now: The current time, in microseconds.
    """
    lanes = [_run_lane(run)]
    attempts: dict[int, list[AttemptRow]] = {}
    for attempt in found.attempts:
        attempts.setdefault(attempt.activity_id, []).append(attempt)
    by_start: list[tuple[int, Lane]] = [
        (row.scheduled_at, _activity_lane(row, attempts.get(row.activity_id, []))) for row in found.activities
    ]
    by_start += _timer_lanes(found.events)
    by_start += _child_lanes(found.events)
    by_start.sort(key=lambda pair: pair[0])
    lanes += [lane for _, lane in by_start]
    messages = _message_lane(found.events)
    if messages.marks:
        lanes.insert(1, messages)
    start = run.created_at
    last = run.closed_at if run.closed_at is not None else now
    end = max(last, start + LEAST_SPAN_US)
    if run.closed_at is None:
        ahead = [at for lane in lanes for at in _ahead(lane, now)]
        end = min(max([end, *ahead]), end + FARTHEST_AHEAD * max(end - start, 1_000_000))
        end += (end - start) // 50
    return Timeline(start=start, end=end, now=min(now, last), lanes=lanes)


def _ahead(lane: Lane, now: int) -> Iterable[int]:
    for span in lane.spans:
        if span.end is not None and span.end > now:
            yield span.end
    for mark in lane.marks:
        if mark.at > now:
            yield mark.at


def _run_lane(run: RunRow) -> Lane:
    lane = Lane("run", "run", run.status)
    begun = run.started_at
    if begun is None:
        ahead = run.not_before if run.closed_at is None and run.not_before > run.created_at else run.closed_at
        lane.spans.append(Span(run.created_at, ahead, "waiting", "waits to start"))
    else:
        if begun > run.created_at:
            lane.spans.append(Span(run.created_at, begun, "waiting", "waited to start"))
        lane.spans.append(Span(begun, run.closed_at, run.status, run.status))
    for at, words in (
        (run.execution_deadline_at, "execution deadline"),
        (run.run_deadline_at, "run deadline"),
    ):
        if at is not None:
            lane.marks.append(Mark(at, "deadline", words))
    return lane


def _activity_lane(row: ActivityRow, attempts: list[AttemptRow]) -> Lane:
    lane = Lane("activity", f"{row.activity_type} #{row.activity_id}", row.status)
    at = row.scheduled_at
    for attempt in attempts:
        began = attempt.started_at if attempt.started_at is not None else attempt.ended_at
        if began > at:
            lane.spans.append(Span(at, began, "waiting", "waited"))
        words = f"attempt {attempt.attempt}: {attempt.timeout_kind or attempt.outcome}"
        lane.spans.append(Span(began, attempt.ended_at, _attempt_look(attempt), words))
        at = attempt.ended_at
    last = row.closed_at
    tried = attempts[-1].attempt if attempts else 0
    if row.started_at is not None and row.started_at >= at and (row.attempt > tried or not attempts):
        if row.started_at > at:
            lane.spans.append(Span(at, row.started_at, "waiting", "waited"))
        words = f"attempt {row.attempt}: {row.status}"
        lane.spans.append(Span(row.started_at, last, row.status, words))
    elif last is None:
        words = "waits for its next attempt" if attempts else "waits for a worker"
        end = row.available_at if row.available_at > at else None
        lane.spans.append(Span(at, end, "waiting", words))
    if last is None:
        for column, kind in _DEADLINES:
            deadline = getattr(row, column)
            if deadline is not None and _applies(row, kind):
                lane.marks.append(Mark(deadline, "deadline", kind.value.replace("_", "-")))
    return lane


def _applies(row: ActivityRow, kind: TimeoutKind) -> bool:
    """Return whether a deadline applies now: some apply only while the activity waits, some only while it runs."""
    if kind is TimeoutKind.SCHEDULE_TO_CLOSE:
        return True
    return (row.status == ActivityStatus.RUNNING) is not (kind is TimeoutKind.SCHEDULE_TO_START)


def _attempt_look(attempt: AttemptRow) -> str:
    return "timed_out" if attempt.timeout_kind is not None else "failed"


def _timer_lanes(events: list[Happening]) -> Iterable[tuple[int, Lane]]:
    lanes: dict[int, tuple[int, Lane]] = {}
    for event in events:
        id = event.payload.get("command_id")
        if event.type == "TimerScheduled":
            lane = Lane("timer", f"timer #{id}", "open")
            lane.spans.append(Span(event.recorded_at, event.payload["fire_at"], "timer", "waits"))
            lanes[event.payload["command_id"]] = (event.recorded_at, lane)
        elif event.type in ("TimerFired", "TimerCancelled") and id in lanes:
            lane = lanes[id][1]
            lane.state = "fired" if event.type == "TimerFired" else "cancelled"
            lane.spans[0].end = event.recorded_at
            lane.spans[0].words = lane.state
            if event.type == "TimerCancelled":
                lane.spans[0].look = "cancelled"
    return lanes.values()


def _child_lanes(events: list[Happening]) -> Iterable[tuple[int, Lane]]:
    lanes: dict[int, tuple[int, Lane]] = {}
    for event in events:
        payload = event.payload
        if event.type == "ChildWorkflowScheduled":
            lane = Lane(
                "child", f"child {payload['workflow_id']}", "running", workflow_id=payload["workflow_id"]
            )
            lane.spans.append(Span(event.recorded_at, None, "running", payload["workflow_type"]))
            lanes[payload["command_id"]] = (event.recorded_at, lane)
        elif event.type in _CHILD_ENDS and payload["command_id"] in lanes:
            lane = lanes[payload["command_id"]][1]
            lane.state = lane.spans[0].look = _CHILD_ENDS[event.type]
            lane.spans[0].end = event.recorded_at
    return lanes.values()


def _message_lane(events: list[Happening]) -> Lane:
    lane = Lane("messages", "signals and updates", "")
    for event in events:
        if event.type == "SignalReceived":
            lane.marks.append(Mark(event.recorded_at, "signal", f"signal {event.payload['name']}"))
        elif event.type == "UpdateAccepted":
            lane.marks.append(Mark(event.recorded_at, "update", f"update {event.payload['name']}"))
        elif event.type == "WorkflowCancelRequested":
            lane.marks.append(Mark(event.recorded_at, "cancel", "cancel requested"))
        elif event.type == "WorkflowTaskFailed":
            lane.marks.append(Mark(event.recorded_at, "failed", "workflow task failed"))
    if any(mark.look in ("cancel", "failed") for mark in lane.marks):
        lane.label = "signals and more"
    return lane
