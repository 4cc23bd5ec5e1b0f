"""The drawing of a run, from rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.run_rows import run_row

from outlast.visibility.views import Alert, AlertsView, ArmedAlert
from outlast_dashboard.pages.timeline.axis import WIDTH, Axis, roughly
from outlast_dashboard.pages.timeline.drawing import Lane, Mark, Span, Timeline, parts_of, timeline
from outlast_dashboard.pages.timeline.folding import ALONE, MOST_LINES, Group, Part, fold
from outlast_store.reads.timeline import ActivitySpan, Happening, RunTimeline
from outlast_store.schema.rows import ActivityRow, AttemptRow
from outlast_workflow.primitives.enums import AlertKind
from outlast_workflow.primitives.times import to_datetime

S = 1_000_000


def activity(**values: Any) -> ActivityRow:
    given: dict[str, Any] = dict.fromkeys(ActivityRow.__annotations__, None)
    given |= {
        "run_id": "r",
        "activity_id": 1,
        "activity_type": "charge",
        "status": "running",
        "attempt": 1,
        "uncharged": 0,
        "scheduled_at": 0,
        "available_at": 0,
        "options": "{}",
    }
    return ActivityRow(**{**given, **values})


def span_of(row: ActivityRow) -> ActivitySpan:
    return ActivitySpan(
        row.activity_id,
        row.activity_type,
        row.status,
        row.attempt,
        row.scheduled_at,
        row.started_at,
        row.closed_at,
    )


def attempt(number: int, started_at: int | None, ended_at: int, **values: Any) -> AttemptRow:
    given: dict[str, Any] = {"worker_id": "w", "outcome": "failed", "timeout_kind": None, "failure": None}
    return AttemptRow("r", 1, number, started_at=started_at, ended_at=ended_at, **{**given, **values})


def drawing(
    *activities: ActivityRow,
    attempts: tuple[AttemptRow, ...] = (),
    events: tuple[Happening, ...] = (),
    now: int = 10 * S,
    span: tuple[int, int] | None = None,
    alerts: AlertsView | None = None,
    **run: Any,
) -> Timeline:
    told = RunTimeline([span_of(row) for row in activities], list(events), False, [], None)
    row = run_row(1, created_at=0, **run)
    folded = fold(parts_of(told, now), now, span)
    return timeline(row, told, folded, activities, attempts, now, span, alerts or AlertsView())


def lane(found: Timeline, label: str) -> Lane:
    return next(lane for lane in found.lanes if lane.label.startswith(label))


def fired(run_id: str, at: int, **values: Any) -> Alert:
    given: dict[str, Any] = dict.fromkeys(("activity_id", "activity_type", "attempt", "deadline_at"))
    given |= dict.fromkeys(("alert_id", "workflow_id", "workflow_type", "task_queue"), "x")
    given |= {"run_id": run_id, "kind": AlertKind.RUN, "mark": "80%", "due_at": to_datetime(at)}
    given |= {"text": "80% of its run timeout is used up", "fired_at": to_datetime(at)}
    return Alert(**{**given, **values})


def test_alerts_are_marks_of_a_lane_filled_once_fired_and_hollow_while_armed() -> None:
    run_id = run_row(1, created_at=0).run_id
    seen = {"acknowledged_at": to_datetime(9 * S), "acknowledged_by": "ada"}
    about = {"activity_id": 3, "activity_type": "charge", "text": "it has taken 5 s"}
    ahead = ArmedAlert(
        activity_id=None, attempt=None, kind=AlertKind.RUN, mark="90%",
        deadline_at=to_datetime(20 * S), due_at=to_datetime(18 * S),
    )  # fmt: skip
    told = AlertsView(
        armed=(ahead,),
        fired=(fired("another", 8 * S), fired(run_id, 8 * S, **seen), fired(run_id, 5 * S, **about)),
    )
    found = drawing(alerts=told, run_deadline_at=20 * S)
    marks = lane(found, "alerts").marks
    assert [(mark.at, mark.look, mark.words) for mark in marks] == [
        (5 * S, "fired", "charge #3: it has taken 5 s, fired at 1970-01-01 00:00:05 UTC"),
        (8 * S, "fired",
         "80% of its run timeout is used up, fired at 1970-01-01 00:00:08 UTC, acknowledged by ada"),
        (18 * S, "armed", "alert at 90% of the run timeout, at 1970-01-01 00:00:18 UTC"),
    ]  # fmt: skip
    assert {"fired", "armed"} <= found.looks
    ended = drawing(alerts=told, run_deadline_at=20 * S, closed_at=9 * S, status="completed")
    assert [mark.look for mark in lane(ended, "alerts").marks] == ["fired", "fired"]
    assert all(one.label != "alerts" for one in drawing().lanes)


def test_a_run_is_drawn_from_its_creation_and_its_deadlines_are_marks() -> None:
    found = drawing(execution_deadline_at=25 * S, run_deadline_at=20 * S)
    first = found.lanes[0]
    assert first.spans == [Span(0, None, "running", "running")]
    assert [(mark.at, mark.words) for mark in first.marks] == [
        (25 * S, "execution deadline"),
        (20 * S, "run deadline"),
    ]
    assert found.axis.end > 25 * S


def test_a_deadline_has_no_colour_until_it_is_near() -> None:
    def look(left_s: int) -> str:
        timeout = 7200 * S
        found = drawing(run_deadline_at=10 * S + left_s * S, run_timeout=timeout)
        return found.lanes[0].marks[0].look

    assert [look(left) for left in (3600, 599, 59)] == ["deadline far", "deadline soon", "deadline near"]


def test_each_attempt_is_a_span_and_what_is_between_was_waiting() -> None:
    found = lane(
        drawing(
            activity(attempt=3, started_at=8 * S, start_to_close_deadline_at=12 * S),
            attempts=(
                attempt(1, 1 * S, 2 * S),
                attempt(2, 4 * S, 6 * S, outcome="timed_out", timeout_kind="heartbeat"),
            ),
        ),
        "charge",
    )
    assert [(span.start // S, span.end and span.end // S, span.look) for span in found.spans] == [
        (0, 1, "waiting"),
        (1, 2, "failed"),
        (2, 4, "waiting"),
        (4, 6, "timed_out"),
        (6, 8, "waiting"),
        (8, None, "running"),
    ]
    assert [(mark.at, mark.words) for mark in found.marks] == [(12 * S, "start-to-close")]


def test_an_attempt_that_was_lost_with_its_worker_did_not_fail() -> None:
    attempts = (
        attempt(1, 1 * S, 2 * S, outcome="rescued"),
        attempt(2, 2 * S, 3 * S, outcome="handed_back"),
        attempt(3, 3 * S, 4 * S, outcome="cancelled"),
    )
    found = drawing(activity(status="cancelled", attempt=3, closed_at=4 * S), attempts=attempts)
    looks = [span.look for span in lane(found, "charge").spans]
    assert looks == ["waiting", "lost", "lost", "cancelled"]
    assert {"lost", "cancelled", "running"} <= found.looks


def test_an_activity_in_backoff_waits_until_its_next_attempt() -> None:
    found = lane(
        drawing(
            activity(
                status="pending", started_at=None, available_at=15 * S, schedule_to_start_deadline_at=30 * S
            ),
            attempts=(attempt(1, 1 * S, 2 * S),),
        ),
        "charge",
    )
    assert found.spans[-1] == Span(2 * S, 15 * S, "waiting", "waits for its next attempt")
    assert [mark.words for mark in found.marks] == ["schedule-to-start"]


def test_a_closed_activity_has_no_deadlines_left() -> None:
    found = lane(
        drawing(
            activity(
                status="completed", started_at=1 * S, closed_at=3 * S, schedule_to_close_deadline_at=9 * S
            )
        ),
        "charge",
    )
    assert found.spans[-1] == Span(1 * S, 3 * S, "completed", "attempt 1: completed")
    assert found.marks == []


@pytest.mark.parametrize(
    ("ending", "state"), [("TimerFired", "fired"), ("TimerCancelled", "cancelled"), (None, "open")]
)
def test_a_timer_is_drawn_to_when_it_fires_or_fired(ending: str | None, state: str) -> None:
    events = [Happening(3, "TimerScheduled", 1 * S, {"command_id": 2, "fire_at": 30 * S})]
    if ending is not None:
        events.append(Happening(5, ending, 4 * S, {"command_id": 2, "fire_at": 30 * S}))
    found = lane(drawing(events=tuple(events)), "timer #2")
    assert (found.state, found.spans[0].end) == (state, 30 * S if ending is None else 4 * S)


def test_a_child_links_to_itself_and_ends_as_it_ended() -> None:
    child = {"command_id": 4, "workflow_id": "c-1", "workflow_type": "Child"}
    events = (
        Happening(3, "ChildWorkflowScheduled", 1 * S, child),
        Happening(4, "ChildWorkflowTimedOut", 5 * S, {"command_id": 4}),
    )
    found = lane(drawing(events=events), "c-1")
    assert (found.workflow_id, found.state, found.spans[0].end) == ("c-1", "timed_out", 5 * S)


def test_signals_share_a_lane_as_marks() -> None:
    events = tuple(Happening(n, "SignalReceived", n * S, {"name": f"s{n}"}) for n in (1, 2))
    assert [mark.words for mark in lane(drawing(events=events), "signals").marks] == [
        "signal s1",
        "signal s2",
    ]


# --- the axis ---------------------------------------------------------------------------------------------------------


def test_a_deadline_far_away_is_behind_a_break_and_does_not_squeeze_what_has_happened() -> None:
    found = drawing(execution_deadline_at=10_000 * S)
    axis = found.axis
    assert axis.x(10 * S) > WIDTH / 2
    assert (axis.far, drawing(execution_deadline_at=20 * S).axis.far) == ((10_000 * S,), ())
    (mark,) = [box for box in found.drawn(found.lanes[0]) if box.look.startswith("deadline")]
    assert axis.width < mark.x < WIDTH
    assert axis.far_labels == [(mark.x, "3 h")]


def test_what_is_behind_the_break_stays_in_order() -> None:
    axis = Axis.of(0, 10 * S, [500 * S, 400 * S, 90_000 * S, 900_000 * S])
    places = [axis.x(at) for at in (29 * S, 400 * S, 500 * S, 90_000 * S, 900_000 * S)]
    assert places == sorted(places)
    assert len(axis.far_labels) == 3
    assert places[-1] <= WIDTH


def test_what_lies_ahead_is_drawn_apart_from_what_has_passed() -> None:
    events = (Happening(3, "TimerScheduled", 2 * S, {"command_id": 2, "fire_at": 30 * S}),)
    found = drawing(events=events)
    past, ahead = found.drawn(lane(found, "timer"))
    assert (past.look, ahead.look) == ("timer", "ahead")
    assert past.x + past.width == pytest.approx(ahead.x)


@pytest.mark.parametrize("length", [1_000, 7 * S, 61 * S, 3 * 3600 * S, 40 * 86_400 * S, 10**16])
def test_the_axis_has_a_few_marks_that_are_as_far_apart(length: int) -> None:
    ticks = Axis(17, 17, 17 + length, 17).ticks
    assert len(ticks) <= 8
    for number, tick in enumerate(ticks, 1):
        assert tick.seconds == pytest.approx(number * ticks[0].seconds)
        assert tick.x == pytest.approx(WIDTH * tick.seconds * S / length, abs=0.01)
    assert length < 5_000 or len(ticks) >= 2


def test_a_part_of_the_time_is_shown_with_ways_to_the_rest() -> None:
    whole = Axis.of(0, 100 * S, [])
    stretch = whole.stretches[2]
    start, end = (int(text) * 1000 for text in stretch.zoom.split("-"))
    part = Axis.of(0, 100 * S, [], (start, end))
    assert (part.start, part.end, part.zoomed) == (30 * S, 45 * S, True)
    assert part.earlier == "15000-30000"
    assert part.later is not None
    assert part.wider is not None
    assert all(30 <= tick.seconds <= 45 for tick in part.ticks)
    assert (whole.earlier, whole.later, whole.wider) == (None, None, None)


def test_far_instants_are_named_by_their_largest_unit() -> None:
    assert [roughly(value) for value in (30, 60, 5400, 86_400 * 30 - 5)] == ["30 s", "1 min", "2 h", "30 d"]


@given(
    start=st.integers(0, 10**16),
    length=st.integers(1_000, 10**12),
    at=st.integers(0, 2 * 10**16),
    end=st.one_of(st.none(), st.integers(0, 2 * 10**16)),
    far=st.lists(st.integers(0, 2 * 10**16), max_size=5),
    bars=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=120),
)
def test_nothing_is_ever_drawn_outside(
    start: int, length: int, at: int, end: int | None, far: list[int], bars: list[tuple[int, int]]
) -> None:
    beyond = tuple(sorted(start + length + one for one in far))
    found = Timeline(Axis(start, start, start + length, start + length // 2, beyond), [])
    one = Lane("x", "x", "x", [Span(at, end, "running", "")], [Mark(at, "deadline", "")], bars=bars)
    for box in found.drawn(one):
        assert 0 <= box.x <= WIDTH
        assert box.x + box.width <= WIDTH + 0.02
        assert box.width > 0


# --- big runs ---------------------------------------------------------------------------------------------------------


def many(count: int, **values: Any) -> list[Part]:
    given: dict[str, Any] = {"status": "completed", "attempt": 1}
    return [
        Part("activity", "fetch", id, began_at=0, closed_at=2 * S, started_at=1 * S, **{**given, **values})
        for id in range(1, count + 1)
    ]


def test_a_small_run_is_drawn_part_by_part() -> None:
    parts = many(MOST_LINES)
    assert fold(parts, 10 * S).items == parts


def test_a_big_run_is_folded_by_type_and_shows_the_failed_the_open_and_the_slowest() -> None:
    parts = many(3000)
    parts[10].status = "failed"
    parts[20].status, parts[20].closed_at, parts[20].attempt = "running", None, 7
    parts[30].closed_at = 9 * S
    alone = [Part("activity", "pay", 5000 + n, "completed", 0, S, 0, 1) for n in range(ALONE)]
    folded = fold(parts + alone, 10 * S)
    group, *rest = folded.items
    assert isinstance(group, Group)
    assert (len(group.parts), rest) == (3000, alone)
    assert group.state == "2,998 completed, 1 failed, 1 running"
    assert [(part.id, note) for part, note in group.notable[:3]] == [(11, ""), (21, ""), (31, "slowest")]
    assert len(folded.shown) < MOST_LINES


def test_only_what_was_at_work_in_a_part_of_the_time_is_in_it() -> None:
    parts = many(10)
    parts[0].closed_at = 50 * S
    parts[1].closed_at = None
    parts[1].status = "running"
    parts[2].began_at, parts[2].closed_at = 45 * S, 46 * S
    folded = fold(parts, 60 * S, (40 * S, 44 * S))
    assert ([part.id for part in folded.shown], folded.left_out) == ([1, 2], 8)


def test_many_types_are_still_few_lines() -> None:
    parts = [Part("activity", f"t{n % 200}", n, "completed", n, n + 5, n, 1) for n in range(4000)]
    folded = fold(parts, 10_000)
    assert len(folded.items) <= 26
    assert sum(len(item.parts) for item in folded.items if isinstance(item, Group)) == 4000


def test_the_line_of_a_group_shows_how_many_were_at_work_and_where_some_failed() -> None:
    rows = [
        activity(activity_id=n, status="completed", started_at=(n % 5) * S, closed_at=(n % 5 + 2) * S)
        for n in range(1, 101)
    ]
    rows[0].status = "failed"
    found = drawing(*rows)
    group = lane(found, "charge × 100")
    # In the bucket where some end and others begin, both are counted.
    assert max(count for count, _ in group.bars) == 60
    assert group.bars[6] == (20, 0)
    assert sum(failed for _, failed in group.bars) == 1
    assert any(box.look == "failed" for box in found.drawn(group))
    below = found.lanes[found.lanes.index(group) + 1]
    assert (below.inner, below.state) == (True, "failed")
