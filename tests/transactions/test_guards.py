"""Each guard at the end of a transaction is missed: a test of this folder fails when it is left out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tests.transactions import test_deaths
from tests.transactions.test_deaths import ahead as ahead
from tests.transactions.test_deaths import before as before
from tests.transactions.test_deaths import deaf as deaf

from outlast_activities import changes
from outlast_activities.changes import CompleteInTransaction
from outlast_activities.transactions import Transactions
from outlast_store.database.guests import Guest
from outlast_store.journal.batch import Batch

Plant = Callable[[pytest.MonkeyPatch], None]


def the_token_is_not_checked(planting: pytest.MonkeyPatch) -> None:
    def held(self: CompleteInTransaction, batch: Batch) -> Any:
        return batch.run(self.runs[0]), batch.activity(*self.activities[0])

    planting.setattr(CompleteInTransaction, "held", held)


def no_deadline_is_checked(planting: pytest.MonkeyPatch) -> None:
    planting.setattr(changes, "passed", lambda row, now: None)


def no_deadline_of_the_run_is_checked(planting: pytest.MonkeyPatch) -> None:
    planting.setattr(changes, "deadline_passed", lambda run, now: None)


def no_cancel_request_is_checked(planting: pytest.MonkeyPatch) -> None:
    right = CompleteInTransaction.apply

    def wrong(self: CompleteInTransaction, batch: Batch) -> bool:
        row = batch.activity(*self.activities[0])
        assert row is not None
        row.cancel_requested = False
        return right(self, batch)

    planting.setattr(CompleteInTransaction, "apply", wrong)


def the_engines_rows_are_locked_first(planting: pytest.MonkeyPatch) -> None:
    right = Transactions._begin

    def wrong(self: Transactions, guest: Guest, running: Any) -> None:
        right(self, guest, running)
        assert guest.link is not None
        if not guest.link.qmark:
            text = "SELECT 1 FROM workflow_runs WHERE run_id = %s FOR UPDATE"
            guest.link.exec_driver_sql(text, (running.task.run_id,))

    planting.setattr(Transactions, "_begin", wrong)


def a_commit_unheard_of_is_taken_for_lost(planting: pytest.MonkeyPatch) -> None:
    async def wrong(*_: Any) -> bool:
        return False

    planting.setattr(Transactions, "_was_applied", wrong)


GUARDS: list[tuple[Plant, Callable[..., Any], set[str]]] = [
    (the_token_is_not_checked, test_deaths.test_a_zombie_leaves_nothing, set()),
    (no_deadline_is_checked, test_deaths.test_a_deadline_that_has_passed_leaves_nothing, set()),
    (
        no_deadline_of_the_run_is_checked,
        test_deaths.test_a_deadline_of_the_run_that_has_passed_leaves_nothing,
        set(),
    ),
    (no_cancel_request_is_checked, test_deaths.test_a_cancelled_attempt_leaves_nothing, set()),
    (
        the_engines_rows_are_locked_first,
        test_deaths.test_the_engines_rows_are_free_while_the_code_runs,
        {"sqlite-file"},
    ),
    (
        a_commit_unheard_of_is_taken_for_lost,
        test_deaths.test_a_commit_that_is_not_heard_of_is_found_out,
        set(),
    ),
]
"""What is left out, which test misses it, and where nothing can be missed."""


@pytest.mark.parametrize(("plant", "test", "nowhere"), GUARDS, ids=[guard[0].__name__ for guard in GUARDS])
async def test_a_guard_that_is_left_out_is_missed(
    plant: Plant,
    test: Callable[..., Any],
    nowhere: set[str],
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    invariants: list[str],
) -> None:
    plant(monkeypatch)
    wanted = inspect.signature(test).parameters
    given = {name: request.getfixturevalue(name) for name in wanted if name != "applied"}
    if "applied" in wanted:
        given["applied"] = True
    if kind in nowhere:
        await test(**given)
        return
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await test(**given)
    invariants.clear()
