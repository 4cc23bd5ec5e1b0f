"""The checker of invariants finds what is planted, and nothing in what the engine wrote."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import pytest
from tests.testing import (
    planted_activities,
    planted_alerts,
    planted_attributes,
    planted_chains,
    planted_dags,
    planted_debounces,
    planted_outbox,
    planted_owner_losses,
    planted_parents,
    planted_queues,
    planted_requests,
    planted_run_deadlines,
    planted_runs,
    planted_schedules,
    planted_streams,
    planted_waking,
)
from tests.testing.planting import Planted, copy_of, rules, run_of, seen_by, violations

from outlast.testing import TestEnvironment, check_database
from outlast.testing.invariants import (
    activities,
    alerts,
    attributes,
    chains,
    checker,
    dags,
    debounces,
    outbox,
    owner_losses,
    parents,
    queues,
    requests,
    run_deadlines,
    schedules,
    streams,
    waking,
)
from outlast_store.database.database import Database, PostgresSettings
from outlast_store.database.sql_text import fetch
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

PLANTED: dict[ModuleType, Planted] = {
    checker: planted_runs.PLANTED,
    activities: planted_activities.PLANTED,
    alerts: planted_alerts.PLANTED,
    attributes: planted_attributes.PLANTED,
    chains: planted_chains.PLANTED,
    dags: planted_dags.PLANTED,
    debounces: planted_debounces.PLANTED,
    owner_losses: planted_owner_losses.PLANTED,
    outbox: planted_outbox.PLANTED,
    parents: planted_parents.PLANTED,
    queues: planted_queues.PLANTED,
    requests: planted_requests.PLANTED,
    run_deadlines: planted_run_deadlines.PLANTED,
    schedules: planted_schedules.PLANTED,
    streams: planted_streams.PLANTED,
    waking: planted_waking.PLANTED,
}
"""By the file of the checker whose rules it breaks."""


def test_what_the_engine_wrote_is_in_order(saved: bytes) -> None:
    with copy_of(saved) as database:
        assert check_database(database) == []
        found = fetch(database, "SELECT DISTINCT status FROM workflow_runs")
        statuses = {row[0] for row in found}
        assert statuses >= {"queued", "pending", "running", "completed", "failed", "timed_out", "cancelled"}
        assert statuses >= {"terminated", "continued_as_new"}
        found = fetch(database, "SELECT DISTINCT status FROM activity_executions")
        assert {row[0] for row in found} == {
            "pending",
            "running",
            "completed",
            "failed",
            "timed_out",
            "cancelled",
        }


@pytest.mark.parametrize("module", PLANTED, ids=lambda module: module.__name__)
def test_each_rule_sees_what_breaks_it(saved: bytes, module: ModuleType) -> None:
    """What is planted is told by one rule, and no rule has nothing planted for it."""
    unseen = rules(module)
    for statement, said in PLANTED[module]:
        seen = seen_by(saved, statement, said, module)
        assert len(seen) == 1, (said, seen)
        unseen -= seen
    assert unseen == set()


@pytest.mark.parametrize(("statement", "said"), planted_run_deadlines.IN_THE_ROW)
def test_a_limit_is_in_the_row_too(saved: bytes, statement: str, said: str) -> None:
    assert any(said in what for what in violations(saved, statement))


@pytest.mark.parametrize(("statement", "said"), planted_runs.HISTORIES)
def test_a_history_that_can_not_be_is_found(saved: bytes, statement: str, said: str) -> None:
    found = violations(saved, statement)
    assert any(said in violation for violation in found), found


@pytest.mark.parametrize(("statement", "said"), [*planted_runs.NOT_WRONG, *planted_activities.NOT_WRONG])
def test_what_may_be_late_is_not_found(saved: bytes, statement: str, said: str) -> None:
    assert not any(said in violation for violation in violations(saved, statement))


@pytest.mark.parametrize("left", ["nothing", "seq > 1", "seq = 1"])
def test_a_run_whose_history_is_gone_in_part_is_a_breach(saved: bytes, left: str) -> None:
    """Whatever run it is of, and whoever was forked from it, continues it or is its child: the checker says so."""
    with copy_of(saved) as connection:
        runs = fetch(connection, "SELECT run_id FROM workflow_runs WHERE last_seq > 1")
    for (run_id,) in runs:
        with copy_of(saved) as connection:
            kept = "" if left == "nothing" else f" AND NOT ({left})"
            connection.exec_driver_sql(f"DELETE FROM history_events WHERE run_id = '{run_id}'{kept}")
            found = check_database(connection)
        assert any(run_id in violation for violation in found), found


def test_an_empty_database_is_in_order() -> None:
    async def body() -> list[str]:
        async with TestEnvironment() as env:
            with env.client.runtime.database.reader() as connection:
                return check_database(connection)

    assert TestEnvironment.run(body) == []


def test_where_retention_is_at_work_a_chain_may_have_lost_its_first_runs(saved: bytes) -> None:
    with copy_of(saved) as connection:
        first = connection.exec_driver_sql(f"SELECT {run_of('chain', 1)}").scalar_one()
        for table in ("workflow_runs", "history_events", "activity_executions"):
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE run_id = ?", (first,))
        assert check_database(connection, deleting=True) == []
        assert check_database(connection) != []


@pytest.mark.postgresql
def test_whoever_looks_for_long_is_not_cut_off(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PostgresSettings(idle_in_transaction_timeout_s=0.1)
    database = Database(DatabaseUrl.parse(postgresql_url), Environment(), postgres=settings)
    with database.reader() as connection:
        look = checker._Checker.check

        def slow(self: Any) -> list[str]:
            # Not of the connection, which would not be idle then.
            time.sleep(0.3)
            return look(self)

        monkeypatch.setattr(checker._Checker, "check", slow)
        assert check_database(connection) == []
    database.dispose()
