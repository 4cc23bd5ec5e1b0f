"""What breaks the rules about run deadlines, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, change_run, say_in, together

PLANTED: Planted = [
    (
        say_in("limited", "WorkflowDeadlineLowered", "run_deadline_at", "'2999-01-01T00:00:00+00:00'"),
        "the code moved the run deadline",
    ),
    (
        say_in("limited", "WorkflowDeadlineLowered", "timeout_seconds", "100000"),
        "a limit of 100000 s was recorded beside a timeout of 100000 s",
    ),
]
"""Rules of their own."""

IN_THE_ROW: Planted = [
    # the row does not take over what the code asked for
    (
        together(
            change_run("limited", "run_deadline_at = created_at + run_timeout"),
            change_run("limited", "next_deadline_at = run_deadline_at"),
        ),
        "the history says run_deadline_at=",
    ),
]
"""What the checker says of the row of a run that has limited itself."""
