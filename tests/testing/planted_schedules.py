"""What breaks the rules about schedules, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, together


def change(schedule_id: str, what: str) -> str:
    return f"UPDATE schedules SET {what} WHERE schedule_id = '{schedule_id}'"


SLOTS = (
    "SELECT workflow_id FROM workflow_runs WHERE workflow_id LIKE 'every second-2026%' ORDER BY workflow_id"
)
FIRST, SECOND = f"({SLOTS} LIMIT 1)", f"({SLOTS} LIMIT 1 OFFSET 1)"
RUN_OF_SECOND = f"(SELECT run_id FROM workflow_runs WHERE workflow_id = {SECOND})"


def tell(slot: str, where: str) -> str:
    """Let a history say that it is for another slot."""
    return (
        f"UPDATE history_events SET payload = json_set(payload, '$.schedule.scheduled_at', {slot}) "
        f"WHERE type = 'WorkflowStarted' AND run_id = {where}"
    )


AS_A_FORK = "json_set(search_attributes, '$.outlast_forked_from', 'x')"

PLANTED: Planted = [
    (change("to come", "spec = '{}'"), "has a calendar that cannot be read"),
    (change("to come", "decided_until = created_at - 1"), "before it was created"),
    (change("every second", "last_slot_at = NULL"), "and its last one is None"),
    (change("every second", "last_slot_at = decided_until + 1"), "has started slot"),
    (
        change("every second", "decided_until = decided_until + 1000000"),
        "slots; started, skipped, missed and",
    ),
    (change("every second", "skipped = skipped + 1"), "slots; started, skipped, missed and"),
    (change("every second", "remaining_runs = NULL"), "and None are left"),
    (change("every second", "remaining_runs = 10"), "of 9 slots, and 10 are left"),
    (change("to come", "buffered = '[]'"), "has a buffer of 0 slots"),
    (change("buffering", "buffered = json_insert(buffered, '$[#]', 5)"), "out of their order, or twice"),
    (change("buffering", "decided_until = created_at"), "wait, which is not decided"),
    (change("buffering", 'action = \'{"queue":"slow"}\''), "has a queue and the overlap policy"),
    (change("resting", "next_look_at = 5"), "is paused, and is looked at again"),
    (change("to come", "next_look_at = next_look_at + 1"), "is looked at again at"),
    (change("buffering", "next_look_at = NULL"), "has slots that wait, is looked at again at None"),
    (change("every second", "last_workflow_id = NULL"), "last, as run"),
    (change("every second", "last_workflow_id = 'asleep'"), "last, whose history does not say so"),
    (
        change("every second", "recent = json_set(recent, '$[0]', json_extract(recent, '$[1]'))"),
        "slots, of which it has started",
    ),
    (
        f"UPDATE workflow_runs SET search_attributes = NULL WHERE workflow_id = {FIRST}",
        "and is listed with those of schedule None",
    ),
    (tell("'2020-01-01T00:00:00Z'", RUN_OF_SECOND), "is for slot 2020-01-01T00:00:00Z of schedule"),
    (
        together(
            tell(f"substr({FIRST}, length('every second-') + 1)", RUN_OF_SECOND),
            f"UPDATE workflow_runs SET workflow_id = {FIRST} WHERE workflow_id = {SECOND}",
        ),
        "has started slot 2026",
    ),
    (
        f"UPDATE workflow_runs SET search_attributes = {AS_A_FORK} WHERE search_attributes LIKE '%outlast_schedule%'",
        "is a fork, and is listed with those of schedule",
    ),
]
