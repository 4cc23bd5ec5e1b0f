"""What breaks the rules about debounced starts, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, append, run_of, say_in, together

OTHER = "UPDATE debounces SET run_id = {}"
GIVEN = '{"start_at":"x","input":[1]}'

PLANTED: Planted = [
    ("UPDATE debounces SET calls = 9", "has counted 9 calls"),
    (OTHER.format(run_of("asleep")), "which was started for"),
    (
        together(
            say_in("asleep", "WorkflowStarted", "debounce_key", "'k'"),
            append("asleep", "WorkflowStartChanged", GIVEN),
        ),
        "after it had begun",
    ),
    (append("delayed", "WorkflowStartChanged", GIVEN), "and is not debounced"),
]
