"""A run as a drawing to scale: how long each part took, and when timers and deadlines are due.

The functions are pure: rows in, lanes out. Times are microseconds. The future is drawn as it is planned: timers until
they fire, deadlines as marks. A run with many parts is folded first (:mod:`~outlast_dashboard.pages.timeline.folding`).

::

    run            ██████████████████████▒▒▒▒▒▒▒▒▒▒│ run deadline
    charge         ──██✗──██████████▒▒▒▒▒▒│ start-to-close
    fetch × 3,000  ▁▂▅▇▇▇▅▂▁
    timer 3            ██████████████▒▒▒▒▒▒▒▒▒▒│ fires
    alerts                      ■         □
                                     now
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from outlast.text.alert_words import mark_words
from outlast.visibility.views import AlertsView
from outlast_dashboard.pages.rendering import nearness
from outlast_dashboard.pages.timeline.axis import WIDTH, Axis
from outlast_dashboard.pages.timeline.folding import Folded, Part
from outlast_store.reads.timeline import Happening, RunTimeline
from outlast_store.schema.rows import ActivityRow, AttemptRow, RunRow
from outlast_workflow.options.activity import is_transactional
from outlast_workflow.primitives.enums import ActivityStatus, AttemptOutcome, TimeoutKind
from outlast_workflow.primitives.times import from_datetime, seconds, to_datetime

LEAST_WIDTH: Final = 3.0
ALERT_WIDTH: Final = 8.0
"""Wide enough to be seen hollow."""
HEIGHT: Final = 20.0
BUCKETS: Final = 120
NO_ALERTS: Final = AlertsView()

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
_TIMER_ENDS: Final = {"TimerFired": "fired", "TimerCancelled": "cancelled"}


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
    width: float = LEAST_WIDTH


@dataclass(slots=True)
class Lane:
    """One line of the drawing.

    Attributes:
        kind: ``run``, ``alerts``, ``messages``, ``activity``, ``timer``, ``child`` or ``group``.
        label: What it is about.
        state: How that stands.
        summary: What the workflow's code says of it.
        inner: Whether it is one of a group, drawn below it.
        note: Why it is drawn by itself, if its state does not say it.
        workflow_id: The child workflow that the lane is about.
        anchor: The id of the element of the page that tells more.
        bars: For a group, how many of its parts were at work in each bucket of the past, and how many failed in it.
    """

    kind: str
    label: str
    state: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    summary: str = ""
    inner: bool = False
    note: str = ""
    workflow_id: str | None = None
    anchor: str = ""
    bars: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A rectangle of the drawing."""

    x: float
    width: float
    look: str
    words: str
    y: float = 4.0
    height: float = 12.0


@dataclass(slots=True)
class Timeline:
    """The lanes of a run on their axis. ``left_out`` is how many parts lie outside the part that is shown."""

    axis: Axis
    lanes: list[Lane]
    left_out: int = 0

    @property
    def looks(self) -> set[str]:
        """How its rectangles are drawn: what a legend has to explain."""
        return {word for lane in self.lanes for box in self.drawn(lane) for word in box.look.split()}

    def drawn(self, lane: Lane) -> list[Drawn]:
        """Return the rectangles of a lane: the past, the future, and the marks over them."""
        axis = self.axis
        found: list[Drawn] = list(self._bars(lane))
        # Waiting comes first, so that a short attempt is drawn over it.
        for span in sorted(lane.spans, key=lambda span: span.look != "waiting"):
            end = span.end if span.end is not None else axis.now
            if end < axis.start or span.start > axis.end:
                continue
            self._add(found, span.start, min(end, axis.now), span.look, span.words)
            if end > axis.now:
                self._add(found, max(span.start, axis.now), end, "ahead", span.words)
        for mark in lane.marks:
            if mark.at >= axis.start and axis.shows(mark.at):
                x = min(axis.x(mark.at), WIDTH - mark.width)
                found.append(Drawn(x, mark.width, mark.look, mark.words, 0.0, HEIGHT))
        return found

    def _add(self, found: list[Drawn], start: int, end: int, look: str, words: str) -> None:
        """Add a rectangle. One that would cover another of its look, both too short to see, makes it longer."""
        left = self.axis.x(start)
        right = max(self.axis.x(end), left + LEAST_WIDTH)
        last = found[-1] if found else None
        if last is not None and last.look == look and left < last.x + last.width:
            found[-1] = Drawn(last.x, max(right, last.x + last.width) - last.x, look, last.words)
            return
        found.append(
            Drawn(
                min(left, WIDTH - LEAST_WIDTH),
                min(right, WIDTH) - min(left, WIDTH - LEAST_WIDTH),
                look,
                words,
            )
        )

    def _bars(self, lane: Lane) -> Iterable[Drawn]:
        most = max((count for count, _ in lane.bars), default=0)
        if not most:
            return
        left, right = self.axis.x(self.axis.start), self.axis.x(min(self.axis.now, self.axis.end))
        width = max((right - left) / len(lane.bars), 0.5)
        for number, (count, failed) in enumerate(lane.bars):
            x = round(left + number * width, 2)
            if count:
                height = max(round((HEIGHT - 2) * count / most, 1), 2.0)
                yield Drawn(x, round(width, 2), "busy", f"{count} at a time", HEIGHT - 1 - height, height)
            if failed:
                yield Drawn(
                    x, round(max(width, LEAST_WIDTH), 2), "failed", f"{failed} failed", HEIGHT - 6, 5.0
                )


def parts_of(found: RunTimeline, now: int) -> list[Part]:
    """Return the parts of a run: its activities, timers and children, in the order in which they began.

    Args:
        found: What happened in the run.
        now: The current time.
    """
    parts = [
        Part("activity", row.activity_type, row.activity_id, row.status, row.scheduled_at, row.closed_at,
             row.started_at, row.attempt)
        for row in found.activities
    ]  # fmt: skip
    open_parts: dict[int, Part] = {}
    for event in found.events:
        payload = event.payload
        id = payload.get("command_id")
        if event.type == "TimerScheduled":
            part = Part("timer", "timer", payload["command_id"], "open", event.recorded_at, None,
                        event.recorded_at, 1, payload.get("summary") or "", ends=payload["fire_at"])  # fmt: skip
        elif event.type == "ChildWorkflowScheduled":
            part = Part("child", payload["workflow_type"], payload["command_id"], "running", event.recorded_at, None,
                        event.recorded_at, 1, payload.get("summary") or "", payload["workflow_id"])  # fmt: skip
        else:
            end = _CHILD_ENDS.get(event.type) or _TIMER_ENDS.get(event.type)
            if end is not None and id in open_parts:
                open_parts[id].status, open_parts[id].closed_at = end, event.recorded_at
            continue
        open_parts[part.id] = part
        parts.append(part)
    parts.sort(key=lambda part: (part.began_at, part.id))
    return parts


def timeline(
    run: RunRow,
    found: RunTimeline,
    folded: Folded,
    rows: Sequence[ActivityRow],
    attempts: Sequence[AttemptRow],
    now: int,
    span: tuple[int, int] | None = None,
    alerts: AlertsView = NO_ALERTS,
) -> Timeline:
    """Return the drawing of a run.

    Args:
        run: The run.
        found: What happened in it.
        folded: Which of its parts are drawn by themselves, and which together.
        rows: The activities among those that are drawn by themselves.
        attempts: Their attempts that did not succeed.
        now: The current time.
        span: The part of the time that is shown, in microseconds since the run was created; all if ``None``.
        alerts: The alerts of its workflow.
    """
    by_activity: dict[int, list[AttemptRow]] = {}
    for attempt in attempts:
        by_activity.setdefault(attempt.activity_id, []).append(attempt)
    known = {row.activity_id: row for row in rows}
    lanes = [_run_lane(run, now)]
    told = _alert_lane(alerts, run)
    if told.marks:
        lanes.append(told)
    messages = _message_lane(found.events)
    if messages.marks:
        lanes.append(messages)
    groups: list[tuple[Lane, Sequence[Part]]] = []
    for item in folded.items:
        if isinstance(item, Part):
            lanes.append(_lane(item, known.get(item.id), by_activity.get(item.id, []), now))
            continue
        lane = Lane("group", f"{item.label} × {len(item.parts):,}", item.state)
        groups.append((lane, item.parts))
        lanes.append(lane)
        for part, note in item.notable:
            one = _lane(part, known.get(part.id), by_activity.get(part.id, []), now)
            one.inner, one.note = True, note
            lanes.append(one)
    last = run.closed_at if run.closed_at is not None else now
    ahead = [at for lane in lanes for at in _ahead(lane, now)] if run.closed_at is None else []
    axis = Axis.of(run.created_at, last, ahead, span)
    for lane, parts in groups:
        lane.bars = _bars(parts, axis)
    return Timeline(axis, lanes, folded.left_out)


def _bars(parts: Sequence[Part], axis: Axis) -> list[tuple[int, int]]:
    """Return how many parts were at work in each bucket of the past, and how many failed in it."""
    end = min(axis.now, axis.end)
    length = max(end - axis.start, 1)
    busy, failed = [0] * (BUCKETS + 1), [0] * BUCKETS

    def bucket(at: int) -> int:
        return min(max((at - axis.start) * BUCKETS // length, 0), BUCKETS - 1)

    for part in parts:
        began = part.started_at if part.started_at is not None else part.closed_at
        over = part.closed_at if part.closed_at is not None else end
        if began is None or over < axis.start or began > end:
            continue
        busy[bucket(began)] += 1
        busy[bucket(over) + 1] -= 1
        if part.failed and part.closed_at is not None and part.closed_at <= end:
            failed[bucket(over)] += 1
    found: list[tuple[int, int]] = []
    count = 0
    for change, bad in zip(busy, failed, strict=False):
        count += change
        found.append((count, bad))
    return found


def _ahead(lane: Lane, now: int) -> Iterable[int]:
    for span in lane.spans:
        if span.end is not None and span.end > now:
            yield span.end
    for mark in lane.marks:
        if mark.at > now:
            yield mark.at


def _run_lane(run: RunRow, now: int) -> Lane:
    lane = Lane("run", "run", run.status)
    begun = run.started_at
    if begun is None:
        ahead = run.not_before if run.closed_at is None and run.not_before > run.created_at else run.closed_at
        lane.spans.append(Span(run.created_at, ahead, "waiting", "waits to start"))
    else:
        if begun > run.created_at:
            lane.spans.append(Span(run.created_at, begun, "waiting", "waited to start"))
        lane.spans.append(Span(begun, run.closed_at, run.status, run.status))
    for at, whole, words in (
        (run.execution_deadline_at, run.execution_timeout, "execution deadline"),
        (run.run_deadline_at, run.run_timeout, "run deadline"),
    ):
        if at is not None:
            lane.marks.append(_deadline(at, now if run.closed_at is None else None, whole, words))
    return lane


def _deadline(at: int, now: int | None, whole: int | None, words: str) -> Mark:
    """Return the mark of a deadline, which has no colour until it is near."""
    near = "far" if now is None else nearness(to_datetime(at), to_datetime(now), seconds(whole))
    return Mark(at, f"deadline {near}", words)


def _lane(part: Part, row: ActivityRow | None, attempts: Sequence[AttemptRow], now: int) -> Lane:
    if part.kind == "activity":
        return _activity_lane(part, row, attempts, now)
    if part.kind == "timer":
        lane = Lane("timer", f"timer #{part.id}", part.status, summary=part.summary)
        words = "waits" if part.closed_at is None else part.status
        look = "cancelled" if part.status == "cancelled" else "timer"
        lane.spans.append(Span(part.began_at, part.closed_at or part.ends, look, words))
        return lane
    lane = Lane(
        "child",
        part.workflow_id,
        part.status,
        summary=part.summary or part.type,
        workflow_id=part.workflow_id,
    )
    lane.spans.append(Span(part.began_at, part.closed_at, part.status, f"{part.type}: {part.status}"))
    return lane


def _activity_lane(part: Part, row: ActivityRow | None, attempts: Sequence[AttemptRow], now: int) -> Lane:
    lane = Lane("activity", f"{part.type} #{part.id}", part.status)
    if row is None:
        # It was deleted between two reads.
        return lane
    lane.summary = row.summary or ""
    if row.closed_at is None:
        lane.anchor = f"activity-{row.activity_id}"
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
        kind = ", transactional" if is_transactional(row.options) else ""
        words = f"attempt {row.attempt}: {row.status}{kind}"
        lane.spans.append(Span(row.started_at, last, row.status, words))
    elif last is None:
        words = "waits for its next attempt" if attempts else "waits for a worker"
        end = row.available_at if row.available_at > at else None
        lane.spans.append(Span(at, end, "waiting", words))
    if last is None:
        for column, kind in _DEADLINES:
            deadline = getattr(row, column)
            if deadline is not None and _applies(row, kind):
                begun = row.heartbeat_at if kind is TimeoutKind.HEARTBEAT else row.started_at
                whole = deadline - (begun if begun is not None else row.scheduled_at)
                lane.marks.append(_deadline(deadline, now, whole, kind.value.replace("_", "-")))
    return lane


def _applies(row: ActivityRow, kind: TimeoutKind) -> bool:
    """Return whether a deadline applies now: some apply only while the activity waits, some only while it runs."""
    if kind is TimeoutKind.SCHEDULE_TO_CLOSE:
        return True
    return (row.status == ActivityStatus.RUNNING) is not (kind is TimeoutKind.SCHEDULE_TO_START)


def _attempt_look(attempt: AttemptRow) -> str:
    if attempt.timeout_kind is not None:
        return "timed_out"
    outcome = AttemptOutcome(attempt.outcome)
    # An attempt whose worker died or stopped did not fail: another one does its work.
    return outcome.value if outcome in (AttemptOutcome.FAILED, AttemptOutcome.CANCELLED) else "lost"


def _alert_lane(alerts: AlertsView, run: RunRow) -> Lane:
    lane = Lane("alerts", "alerts", "")
    for fired in reversed(alerts.fired):
        # Other runs of the chain have theirs.
        if fired.run_id == run.run_id:
            about = "" if fired.activity_type is None else f"{fired.activity_type} #{fired.activity_id}: "
            words = f"{about}{fired.text}, fired at {_clock(fired.fired_at)}"
            if fired.acknowledged_at is not None:
                words += f", acknowledged by {fired.acknowledged_by}"
            lane.marks.append(Mark(from_datetime(fired.fired_at), "fired", words, ALERT_WIDTH))
    for armed in alerts.armed if run.closed_at is None else ():
        about = "" if armed.activity_id is None else f"activity #{armed.activity_id}: "
        words = f"{about}alert {mark_words(armed.mark, armed.kind)}, at {_clock(armed.due_at)}"
        lane.marks.append(Mark(from_datetime(armed.due_at), "armed", words, ALERT_WIDTH))
    return lane


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _message_lane(events: Sequence[Happening]) -> Lane:
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
