"""Which deadline of a run has passed: a pure function of its row and an instant."""

from __future__ import annotations

import pytest

from outlast_store.schema.rows import RunRow
from outlast_store.transitions.new_runs import first_run
from outlast_store.transitions.run_deadlines import deadline_passed, earliest
from outlast_workflow.options.options import StartOptions

STARTED_AT = 1_767_225_600_000_000
SECOND = 1_000_000


def run_with(options: StartOptions) -> RunRow:
    return first_run(
        run_id="run-1",
        workflow_id="workflow-1",
        workflow_type="Order",
        task_queue="default",
        options=options,
        memo=None,
        now=STARTED_AT,
        owner_id=None,
    )


@pytest.mark.parametrize(
    ("options", "after", "kind", "deadline"),
    [
        (StartOptions(execution_timeout=60), 60, "execution_timeout", 60),
        (StartOptions(run_timeout=60), 60, "run_timeout", 60),
        (StartOptions(execution_timeout=90, run_timeout=60), 60, "run_timeout", 60),
        (StartOptions(execution_timeout=90, run_timeout=60), 90, "execution_timeout", 90),
        (StartOptions(run_timeout=60, start_delay=30), 90, "run_timeout", 90),
    ],
    ids=["execution", "run", "run-first", "execution-beats-run", "after-the-delay"],
)
def test_a_deadline_has_passed_at_its_very_microsecond(
    options: StartOptions, after: int, kind: str, deadline: int
) -> None:
    run = run_with(options)
    passed = deadline_passed(run, STARTED_AT + after * SECOND)
    assert passed == (kind, STARTED_AT + deadline * SECOND)
    first = run.next_deadline_at
    assert first is not None
    assert deadline_passed(run, first - 1) is None


def test_a_run_without_timeouts_has_no_deadline() -> None:
    run = run_with(StartOptions())
    assert run.next_deadline_at is None
    assert deadline_passed(run, STARTED_AT + 10**15) is None


def test_the_earliest_instant_is_the_least_of_those_that_are_set() -> None:
    assert earliest(None, 3, 2) == 2
    assert earliest(None, None) is None
