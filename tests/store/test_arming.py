"""Arming: what a batch arms for runs that begin, and end, within it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.changes import start

from outlast_store.alerts.arming import KEY, arm
from outlast_store.database.database import Database
from outlast_store.database.raw_connection import RawConnection
from outlast_store.schema import tables
from outlast_workflow.options.alerts import AlertPolicy, stored

SECOND = 1_000_000
BEGUN = 10 * SECOND
POLICY = stored(AlertPolicy(at=[0.5], after=[1, 100]), BEGUN)
Timer = tuple[Any, ...]


class Armed:
    """A database, and what is armed there of the runs of one chain."""

    def __init__(self, database: Database) -> None:
        self.connection = database.writer()
        self.raw = RawConnection(self.connection)
        self.statements = database.statements(self.connection)
        self.template = vars(start(database.environment, "w").run)

    def run(self, number: int, **values: Any) -> dict[str, Any]:
        previous = f"run-{number - 1}" if number > 1 else None
        given = {
            "run_id": f"run-{number}",
            "previous_run_id": previous,
            "alerts": POLICY,
            "created_at": BEGUN,
        }
        deadline = {"execution_deadline_at": BEGUN + 20 * SECOND, "execution_timeout": 20 * SECOND}
        return {**self.template, **given, **deadline, **values}

    def after(self, now: int, *runs: tuple[dict[str, Any], dict[str, Any] | None]) -> list[Timer]:
        """What is armed when these runs have changed."""
        arm(self.raw, self.statements, now, runs, [], [])
        names = [(row["run_id"], 0, kind, mark) for row, _ in runs for kind, mark in MARKS]
        found = self.statements.read(self.raw, tables.alert_timers, KEY, sorted(names))
        return sorted(tuple(row[:4]) for row in found)


MARKS = (("after", "+1s"), ("after", "+100s"), ("execution", "50%"))


@pytest.fixture
def armed(database: Database) -> Any:
    found = Armed(database)
    found.raw.exec_driver_sql("BEGIN")
    yield found
    found.raw.roll_back()
    found.connection.close()


def of(number: int) -> list[Timer]:
    return sorted((f"run-{number}", 0, *mark) for mark in MARKS)


def test_a_chain_whose_first_run_ends_in_the_commit_of_its_start_loses_no_mark(armed: Armed) -> None:
    """An eager start may be written long after it was made, when the first marks have passed."""
    now = BEGUN + 15 * SECOND
    first, second = armed.run(1, closed_at=now), armed.run(2, created_at=now)
    assert armed.after(now, (first, None), (second, None)) == of(2)


def test_a_mark_passes_through_a_run_that_begins_and_ends_within_a_commit(armed: Armed) -> None:
    first = armed.run(1)
    assert armed.after(BEGUN, (first, None)) == of(1)
    now = BEGUN + 15 * SECOND
    second, third = armed.run(2, created_at=now, closed_at=now), armed.run(3, created_at=now)
    changed = ({**first, "closed_at": now}, first)
    assert armed.after(now, changed, (second, None), (third, None)) == of(3)


def test_what_was_fired_is_not_armed_for_the_next_run(armed: Armed) -> None:
    first = armed.run(1)
    armed.after(BEGUN, (first, None))
    arm(armed.raw, armed.statements, BEGUN + 2 * SECOND, [], [], [("run-1", 0, "after", "+1s")])
    now = BEGUN + 15 * SECOND
    changed = ({**first, "closed_at": now}, first)
    left = armed.after(now, changed, (armed.run(2, created_at=now), None))
    assert left == [one for one in of(2) if one[3] != "+1s"]
