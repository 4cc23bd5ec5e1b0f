"""The drawing of a run, from rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.run_rows import run_row

from outlast_dashboard.pages.timeline import WIDTH, Lane, Mark, Span, Timeline, timeline
from outlast_store.reads.timeline import Happening, RunTimeline
from outlast_store.schema.rows import ActivityRow, AttemptRow

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


def attempt(number: int, started_at: int | None, ended_at: int, **values: Any) -> AttemptRow:
    given: dict[str, Any] = {"worker_id": "w", "outcome": "failed", "timeout_kind": None, "failure": None}
    return AttemptRow("r", 1, number, started_at=started_at, ended_at=ended_at, **{**given, **values})


def drawing(
    *activities: ActivityRow,
    attempts: tuple[AttemptRow, ...] = (),
    events: tuple[Happening, ...] = (),
    now: int = 10 * S,
    **run: Any,
) -> Timeline:
    told = RunTimeline(list(activities), list(attempts), list(events), False, False, [], None)
    row = run_row(1, created_at=0, **run)
    return timeline(row, told, now)


def lane(found: Timeline, label: str) -> Lane:
    return next(lane for lane in found.lanes if lane.label.startswith(label))


def test_a_run_is_drawn_from_its_creation_and_its_deadlines_are_marks() -> None:
    found = drawing(execution_deadline_at=40 * S, run_deadline_at=20 * S)
    first = found.lanes[0]
    assert first.spans == [Span(0, None, "running", "running")]
    assert first.marks == [
        Mark(40 * S, "deadline", "execution deadline"),
        Mark(20 * S, "deadline", "run deadline"),
    ]
    assert found.end > 40 * S


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
    assert found.marks == [Mark(12 * S, "deadline", "start-to-close")]


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
    assert found.marks == [Mark(30 * S, "deadline", "schedule-to-start")]


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
    found = lane(drawing(events=events), "child c-1")
    assert (found.workflow_id, found.state, found.spans[0].end) == ("c-1", "timed_out", 5 * S)


def test_signals_share_a_lane_as_marks() -> None:
    events = tuple(Happening(n, "SignalReceived", n * S, {"name": f"s{n}"}) for n in (1, 2))
    assert [mark.words for mark in lane(drawing(events=events), "signals").marks] == [
        "signal s1",
        "signal s2",
    ]


def test_a_deadline_far_away_does_not_squeeze_what_has_happened() -> None:
    found = drawing(execution_deadline_at=10_000 * S)
    assert found.x(10 * S) > WIDTH / 6
    assert (found.cut_off, drawing(execution_deadline_at=20 * S).cut_off) == (True, False)
    (mark,) = [box for box in found.drawn(found.lanes[0]) if box.look == "deadline"]
    assert mark.x + mark.width <= WIDTH


def test_what_lies_ahead_is_drawn_apart_from_what_has_passed() -> None:
    events = (Happening(3, "TimerScheduled", 2 * S, {"command_id": 2, "fire_at": 30 * S}),)
    found = drawing(events=events)
    past, ahead = found.drawn(lane(found, "timer"))
    assert (past.look, ahead.look) == ("timer", "ahead")
    assert past.x + past.width == pytest.approx(ahead.x)


@pytest.mark.parametrize("length", [1_000, 7 * S, 61 * S, 3 * 3600 * S, 40 * 86_400 * S, 10**16])
def test_the_axis_has_a_few_marks_that_are_as_far_apart(length: int) -> None:
    found = Timeline(17, 17 + length, 17, [])
    ticks = found.ticks
    assert len(ticks) <= 6
    for number, (x, seconds) in enumerate(ticks, 1):
        assert seconds == pytest.approx(number * ticks[0][1])
        assert x == pytest.approx(WIDTH * seconds * S / length, abs=0.01)
    assert length < 5_000 or len(ticks) >= 2


@given(
    start=st.integers(0, 10**16),
    length=st.integers(1, 10**12),
    at=st.integers(0, 2 * 10**16),
    end=st.one_of(st.none(), st.integers(0, 2 * 10**16)),
)
def test_nothing_is_ever_drawn_outside(start: int, length: int, at: int, end: int | None) -> None:
    found = Timeline(start, start + length, start + length // 2, [])
    for box in found.drawn(Lane("x", "x", "x", [Span(at, end, "running", "")], [Mark(at, "deadline", "")])):
        assert 0 <= box.x <= WIDTH
        assert box.width > 0
