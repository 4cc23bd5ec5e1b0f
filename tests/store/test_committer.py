"""The committer: each step of its protocol, by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.changes import (
    Append,
    AppendMany,
    Crash,
    FaultyConnection,
    Poison,
    Refuse,
    busy,
    lost_after,
    lost_before,
    start,
)

from outlast.runtime.schema_check import ensure_schema
from outlast_store.database.database import Database
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.journal.committer import (
    FIRST_RETRY_AFTER_S,
    LONGEST_RETRY_AFTER_S,
    LONGEST_RETRY_ON_FILE_S,
    Committer,
    TryAgain,
)
from outlast_store.reads.histories import read_history
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    ForkedConnectionError,
    RefusedError,
    StoreError,
    StoreUnreachableError,
)

Faults = list[tuple[str, Any]]
OWNER = "me"


class SteppedClock:
    """A clock that moves when a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> int:
        return round(self.seconds * 1_000_000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def committer(faults: Faults, database: Database, clock: SteppedClock) -> Iterator[Committer]:
    """A committer whose connection does what the test plans; it waits ten seconds for a database that is away."""
    committer = Committer(database, Environment(clock), patience_s=10.0)
    yield committer
    committer.close()


def started(committer: Committer, **options: Any) -> str:
    change = start(committer._environment, "w", **options)
    (outcome,), _ = committer.run([change])
    assert outcome.error is None
    return change.run.run_id


def owned(committer: Committer) -> str:
    """A run whose row the committer may trust."""
    committer.cache.owners.add(OWNER)
    return started(committer, owner_id=OWNER)


def sent(committer: Committer) -> list[str]:
    """The statements of the latest transaction."""
    assert isinstance(committer._raw, FaultyConnection)
    return [text for text, _ in committer._raw.sent]


def length(database: Database, run_id: str) -> int:
    with database.reader() as connection:
        return len(read_history(connection, run_id))


def position(database: Database, committer: Committer) -> list[Any]:
    with database.reader() as connection:
        return fetch(
            connection, "SELECT batch_no FROM journals WHERE journal_id = ?", (committer.journal_id,)
        )


# --- rows -----------------------------------------------------------------------------------------------------------


def test_cached_rows_are_trusted_without_a_read(committer: Committer) -> None:
    run_id = owned(committer)
    (outcome,), _ = committer.run([AppendMany(run_id)])
    assert outcome.value == 2
    assert not [text for text in sent(committer) if text.startswith("SELECT")]


def test_a_change_that_requires_locks_gets_them(committer: Committer) -> None:
    run_id = owned(committer)
    change = AppendMany(run_id)
    change.needs_locks = True
    committer.run([change])
    assert [text for text in sent(committer) if text.startswith("SELECT")]
    assert change.tried == 1


def test_a_stale_row_runs_the_batch_again_with_locks(committer: Committer, database: Database) -> None:
    run_id = owned(committer)
    before = committer.cache.runs[run_id].copy()
    committer.run([AppendMany(run_id)])
    committer.cache.runs[run_id] = before
    change = AppendMany(run_id)
    (outcome,), _ = committer.run([change])
    assert (outcome.value, change.tried) == (3, 2)
    assert committer.statistics["stale"] == 1
    assert length(database, run_id) == 3


def test_a_refusal_is_never_based_on_a_trusted_row(committer: Committer) -> None:
    run_id = owned(committer)
    change = Append(run_id, fence=7)
    (outcome,), _ = committer.run([change])
    assert isinstance(outcome.error, RefusedError)
    assert change.tried == 2, "the second time under its lock"


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_transient_error_asks_for_another_try_after_pauses_that_double(
    faults: Faults, committer: Committer
) -> None:
    run_id = started(committer)
    change = AppendMany(run_id)
    pauses: list[float] = []
    faults += [("BEGIN", busy)] * 12
    while faults:
        with pytest.raises(TryAgain) as again:
            committer.run([change])
        pauses.append(again.value.pause_s)
    assert pauses[:3] == [FIRST_RETRY_AFTER_S, 2 * FIRST_RETRY_AFTER_S, 4 * FIRST_RETRY_AFTER_S]
    on_file = committer._database.file is not None
    assert pauses[-1] == (LONGEST_RETRY_ON_FILE_S if on_file else LONGEST_RETRY_AFTER_S)
    (outcome,), _ = committer.run([change])
    assert outcome.value == 2
    faults.append(("BEGIN", busy))
    with pytest.raises(TryAgain) as again:
        committer.run([AppendMany(run_id)])
    assert again.value.pause_s == FIRST_RETRY_AFTER_S, "a success starts the pauses over"


@pytest.mark.parametrize("culprit", [Crash(), None])
def test_a_culprit_is_found_by_halves(committer: Committer, database: Database, culprit: Any) -> None:
    run_id = started(committer)
    changes: list[Any] = [AppendMany(run_id) for _ in range(7)]
    changes.insert(4, culprit or Poison(run_id))
    outcomes, committed = committer.run(changes)
    errors = [place for place, outcome in enumerate(outcomes) if outcome.error is not None]
    assert errors == [4]
    assert [outcome.value for outcome in outcomes if outcome.error is None] == list(range(2, 9))
    assert len(committed) > 1
    assert length(database, run_id) == 8


def test_a_change_that_is_refused_after_it_has_written_is_a_bug(
    committer: Committer, database: Database
) -> None:
    class WriteAndRefuse(BaseChange):
        def __init__(self, run_id: str) -> None:
            self.runs = (run_id,)

        def apply(self, batch: Batch) -> None:
            AppendMany.apply(AppendMany(self.runs[0]), batch)
            raise RefusedError("tried", "too late")

    run_id = started(committer)
    outcomes, _ = committer.run([WriteAndRefuse(run_id), Refuse()])
    assert isinstance(outcomes[0].error, AssertionError)
    assert isinstance(outcomes[1].error, RefusedError)
    assert length(database, run_id) == 1


# --- doubt ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "tried"), [(lost_after, 1), (lost_before, 2)])
def test_the_journals_row_says_what_became_of_a_lost_commit(
    on_disk: Database, faults: Faults, committer: Committer, fault: Any, tried: int
) -> None:
    run_id = started(committer)
    change = AppendMany(run_id)
    faults.append(("COMMIT", fault))
    with pytest.raises(TryAgain):
        committer.run([change])
    (outcome,), (committed,) = committer.run([change])
    assert (outcome.value, change.tried) == (2, tried)
    assert run_id in committed.runs
    assert not committed.late
    assert length(on_disk, run_id) == 2
    assert position(on_disk, committer) == [(committer.batches,)]


def test_callers_get_the_error_when_patience_ends_and_listeners_the_news_when_it_was_applied(
    on_disk: Database,
    faults: Faults,
    committer: Committer,
    clock: SteppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = started(committer)
    with monkeypatch.context() as away:
        away.setattr(Database, "writer", unreachable)
        faults.append(("COMMIT", lost_after))
        change = AppendMany(run_id)
        for _ in range(3):
            with pytest.raises(TryAgain):
                committer.run([change])
        clock.seconds += 10.1
        (outcome,), committed = committer.run([change])
        assert isinstance(outcome.error, StoreError)
        assert committed == []
        assert committer.in_doubt
    (outcome,), committed = committer.run([AppendMany(run_id)])
    assert outcome.value == 3
    assert [news.late for news in committed] == [True, False]
    assert not committer.in_doubt


def unreachable(database: Database) -> Any:
    raise StoreUnreachableError("it is away")


def test_a_committer_in_a_hurry_waits_no_longer_than_it_was_told(
    on_disk: Database,
    committer: Committer,
    clock: SteppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Database, "writer", unreachable)
    committer.hurry(1.0)
    committer.hurry(60.0)
    with pytest.raises(TryAgain):
        committer.run([Refuse()])
    clock.seconds += 1.1
    (outcome,), _ = committer.run([Refuse()])
    assert isinstance(outcome.error, StoreUnreachableError)


# --- its row and its connection -------------------------------------------------------------------------------------


def test_a_row_that_is_gone_is_made_again(committer: Committer, database: Database) -> None:
    run_id = started(committer)
    writer = database.writer()
    writer.exec_driver_sql("DELETE FROM journals")
    writer.close()
    change = AppendMany(run_id)
    with pytest.raises(TryAgain):
        committer.run([change])
    (outcome,), _ = committer.run([change])
    assert outcome.value == 2
    assert position(database, committer) == [(committer.batches,)]


def test_closing_deletes_the_row(committer: Committer, database: Database) -> None:
    started(committer)
    assert position(database, committer) == [(1,)]
    committer.close()
    assert position(database, committer) == []


def test_a_forked_child_commits_nothing(committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = started(committer)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        (outcome,), committed = committer.run([AppendMany(run_id)])
    assert isinstance(outcome.error, ForkedConnectionError)
    assert committed == []
    (outcome,), _ = committer.run([AppendMany(run_id)])
    assert outcome.value == 2, "and the parent's connection is as good as before"


def test_the_data_version_tells_of_others_commits(
    sqlite_url: str, open_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(sqlite_url)
    ensure_schema(database)
    mine, others = (Committer(database, database.environment) for _ in range(2))
    assert mine.data_version() == 0, "before it is connected"
    started(mine)
    before = mine.data_version()
    mine.run([start(mine._environment, "own")])
    assert mine.data_version() == before
    others.run([start(others._environment, "other")])
    assert mine.data_version() != before
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ForkedConnectionError):
            mine.data_version()
    assert mine.data_version() != before, "and the parent's connection is as good as before"
    mine.close()
    others.close()
