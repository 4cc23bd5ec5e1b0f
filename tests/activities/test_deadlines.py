"""The four deadlines of an activity: pure functions of a row and an instant."""

from __future__ import annotations

import pytest
from tests.activities.running import running_row

from outlast_activities.deadlines import passed, refresh, set_available, set_claimed
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.options.options import ActivityOptions

NOW = 1_767_225_600_000_000
SECOND = 1_000_000
ALL = ActivityOptions(
    schedule_to_start_timeout=5, start_to_close_timeout=10, schedule_to_close_timeout=20, heartbeat_timeout=3
)


def row(**columns: object) -> ActivityRow:
    made = running_row(ALL, available_at=NOW, **columns)
    refresh(made)
    return made


def test_an_attempt_that_waits_has_only_the_deadlines_of_waiting() -> None:
    activity = row(schedule_to_close_deadline_at=NOW + 20 * SECOND)
    set_available(activity, ALL)
    assert activity.schedule_to_start_deadline_at == NOW + 5 * SECOND
    assert (activity.start_to_close_deadline_at, activity.heartbeat_deadline_at) == (None, None)
    assert activity.next_deadline_at == NOW + 5 * SECOND


def test_a_claim_clears_schedule_to_start_and_sets_the_deadlines_of_the_attempt() -> None:
    activity = row(schedule_to_close_deadline_at=NOW + 20 * SECOND)
    set_available(activity, ALL)
    set_claimed(activity, ALL, NOW + SECOND)
    assert activity.schedule_to_start_deadline_at is None
    assert activity.start_to_close_deadline_at == NOW + 11 * SECOND
    assert activity.heartbeat_deadline_at == NOW + 4 * SECOND
    assert activity.next_deadline_at == NOW + 4 * SECOND


@pytest.mark.parametrize(
    ("deadlines", "kind"),
    [
        ({"start_to_close": 2, "heartbeat": 1}, "heartbeat"),
        ({"start_to_close": 1, "heartbeat": 2}, "start_to_close"),
        ({"start_to_close": 2, "heartbeat": 2}, "start_to_close"),
        ({"schedule_to_close": 5, "start_to_close": 1}, "schedule_to_close"),
        ({"schedule_to_close": 9, "start_to_close": 5}, "start_to_close"),
        ({"schedule_to_start": 5, "schedule_to_close": 9}, "schedule_to_start"),
    ],
    ids=[
        "the-first",
        "the-first-again",
        "heartbeat-last-on-a-tie",
        "schedule-to-close-wins-if-passed",
        "and-only-if-passed",
        "schedule-to-start",
    ],
)
def test_the_deadline_that_ends_an_attempt(deadlines: dict[str, int], kind: str) -> None:
    columns = {f"{name}_deadline_at": NOW + after * SECOND for name, after in deadlines.items()}
    found = passed(row(**columns), NOW + 5 * SECOND)
    assert found == (kind, columns[f"{kind}_deadline_at"])


def test_a_deadline_passes_at_its_very_microsecond() -> None:
    activity = row(start_to_close_deadline_at=NOW)
    assert passed(activity, NOW - 1) is None
    assert passed(activity, NOW) == ("start_to_close", NOW)


def test_an_activity_without_timeouts_has_no_deadline() -> None:
    assert passed(row(), NOW + 10**15) is None
