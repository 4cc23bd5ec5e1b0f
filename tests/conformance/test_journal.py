"""The journal: groups, refusals, halves, retries, and commits whose answers are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.conformance.changes import (
    Append,
    AppendMany,
    Crash,
    CrashAfterWriting,
    FaultyConnection,
    Poison,
    Refuse,
    Violate,
    busy,
    lost,
    lost_after,
    lost_before,
    start,
)

from outlast.testing import VirtualClock
from outlast_runs.start import Started, StartRun
from outlast_store.database.database import Database, PostgresSettings
from outlast_store.database.driver_errors import lasts
from outlast_store.database.urls import DatabaseUrl
from outlast_store.journal import journal as journal_module
from outlast_store.journal.batch import BaseChange, Batch, Change, Committed
from outlast_store.journal.committer import Committer, TryAgain
from outlast_store.journal.journal import Journal
from outlast_store.reads.histories import read_events, read_history
from outlast_store.transitions import dead_journals
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    DamagedHistoryError,
    JournalClosedError,
    OutcomeUnknownError,
    RefusedError,
    StoreError,
    StoreUnreachableError,
    WorkflowAlreadyStartedError,
)
from outlast_workflow.primitives.enums import DuplicatePolicy

Faults = list[tuple[str, Any]]


async def gathered(journal: Journal, *changes: Change[Any]) -> list[Any]:
    """The outcomes of changes that were handed over in one turn."""
    return await asyncio.gather(*[journal.apply(change) for change in changes], return_exceptions=True)


def histories(database: Database, *run_ids: str) -> list[list[str]]:
    with database.reader() as connection:
        return [[row[1] for row in read_history(connection, run_id)] for run_id in run_ids]


def starts(journal: Journal, count: int) -> list[Any]:
    environment = journal.committer._environment
    return [start(environment, f"w-{number}") for number in range(count)]


# --- groups ---------------------------------------------------------------------------------------------------------


async def test_what_gathers_is_one_transaction(journal: Journal, database: Database) -> None:
    changes = starts(journal, 50)
    outcomes = await gathered(journal, *changes)
    assert [outcome.run_id for outcome in outcomes] == [change.run.run_id for change in changes]
    # The first may be alone where a thread commits: it does not wait for others.
    assert journal.committer.batches <= 2
    assert histories(database, *[change.run.run_id for change in changes]) == [["WorkflowStarted"]] * 50


async def test_what_the_database_refuses_fails_alone_and_the_connection_is_as_good_as_before(
    journal: Journal, database: Database
) -> None:
    """Also where a batch's statements are sent together, and prepared: what came after the refused one never ran."""
    run_ids = [outcome.run_id for outcome in await gathered(journal, *starts(journal, 40))]
    for place in (3, 20, 37):
        changes: list[Change[Any]] = [AppendMany(run_id) for run_id in run_ids]
        changes[place] = Poison(run_ids[place])
        outcomes = await gathered(journal, *changes)
        assert [number for number, found in enumerate(outcomes) if isinstance(found, Exception)] == [place]
        environment = journal.committer._environment
        outcomes = await gathered(journal, *[start(environment, f"{place}-{number}") for number in range(5)])
        assert not [found for found in outcomes if isinstance(found, Exception)]
    counts = {
        run_id: len(events) for run_id, events in zip(run_ids, histories(database, *run_ids), strict=True)
    }
    assert sorted(counts.values()) == [3] * 3 + [4] * 37


async def test_a_batch_has_at_most_two_hundred_changes(journal: Journal) -> None:
    await gathered(journal, *starts(journal, 1000))
    assert journal.committer.batches >= 5
    assert journal.committer.statistics["changes"] == 1000


async def test_a_batch_has_at_most_four_mebibytes(journal: Journal) -> None:
    environment = journal.committer._environment
    large = [start(environment, f"w-{number}", input="x" * 1_500_000) for number in range(6)]
    await gathered(journal, *large)
    assert journal.committer.batches >= 2


async def test_listeners_hear_of_a_batch_before_its_callers(journal: Journal) -> None:
    news: list[str] = []

    def listen(committed: Committed) -> None:
        news.append(f"listener: {len(committed.runs)} runs")

    journal.subscribe(listen)
    change = start(journal.committer._environment, "w")
    done = asyncio.Event()

    def call_back(value: Any, error: BaseException | None) -> None:
        news.append("caller")
        done.set()

    journal.submit(change, call_back)
    await done.wait()
    journal.unsubscribe(listen)
    await journal.apply(Append(change.run.run_id))
    assert news == ["listener: 1 runs", "caller"]


async def test_later_changes_see_what_earlier_ones_of_the_batch_did(journal: Journal) -> None:
    environment = journal.committer._environment
    one, two = start(environment, "w"), start(environment, "w")
    three = start(environment, "w", policy=DuplicatePolicy.RETURN_EXISTING)
    four = start(environment, "w", policy=DuplicatePolicy.TERMINATE_EXISTING)
    outcomes = await gathered(journal, one, two, three, four)
    assert outcomes[0].created
    assert isinstance(outcomes[1], WorkflowAlreadyStartedError)
    assert outcomes[1].run_id == one.run.run_id
    assert (outcomes[2].run_id, outcomes[2].created) == (one.run.run_id, False)
    assert outcomes[3].run_id == four.run.run_id


async def test_the_intake_is_bounded(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MOST_QUEUED", 10)
    outcomes = await gathered(journal, *starts(journal, 300))
    assert all(outcome.created for outcome in outcomes)


async def test_a_caller_that_is_cancelled_does_not_withdraw_its_change(
    journal: Journal, database: Database
) -> None:
    change = start(journal.committer._environment, "w")
    task = asyncio.ensure_future(journal.apply(change))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await journal.apply(Append(change.run.run_id))
    assert histories(database, change.run.run_id) == [["WorkflowStarted", "WorkflowCancelRequested"]]


async def test_closing_commits_what_was_handed_over(database: Database) -> None:
    journal = Journal(database, database.environment)
    changes = starts(journal, 20)
    tasks = [asyncio.ensure_future(journal.apply(change)) for change in changes]
    await asyncio.sleep(0)
    await journal.close()
    outcomes = await asyncio.gather(*tasks)
    assert all(outcome.created for outcome in outcomes)
    with pytest.raises(JournalClosedError):
        await journal.apply(start(database.environment, "late"))


# --- refusals and errors --------------------------------------------------------------------------------------------


async def test_a_refused_change_is_refused_alone(journal: Journal, database: Database) -> None:
    one, two = starts(journal, 2)
    outcomes = await gathered(journal, one, Refuse(), Append("none"), two)
    assert [type(outcome) for outcome in outcomes[1:3]] == [RefusedError, RefusedError]
    assert outcomes[0].created
    assert outcomes[3].created
    assert journal.committer.statistics["changes"] == 4


@pytest.mark.parametrize("culprit", [Crash, CrashAfterWriting, Violate])
async def test_a_culprit_is_found_by_halves_and_stands_alone(
    journal: Journal, database: Database, culprit: Any
) -> None:
    known = start(journal.committer._environment, "known")
    await journal.apply(known)
    bad: Change[Any] = Crash()
    if culprit is CrashAfterWriting:
        bad = CrashAfterWriting(known.run.run_id)
    elif culprit is Violate:
        bad = Violate("twice")
    changes = starts(journal, 21)
    outcomes = await gathered(journal, *changes[:13], bad, *changes[13:])
    error = outcomes.pop(13)
    assert isinstance(error, StoreError if culprit is Violate else ZeroDivisionError)
    assert all(outcome.created for outcome in outcomes)
    assert histories(database, known.run.run_id) == [["WorkflowStarted"]]


async def test_a_listener_that_fails_harms_nobody(journal: Journal) -> None:
    def fail(committed: Committed) -> None:
        raise ZeroDivisionError

    journal.subscribe(fail)
    assert (await journal.apply(start(journal.committer._environment, "w"))).created
    journal.unsubscribe(fail)


# --- failures -------------------------------------------------------------------------------------------------------


async def started(journal: Journal) -> str:
    change = start(journal.committer._environment, "w")
    await journal.apply(change)
    return change.run.run_id


@pytest.mark.parametrize("statement", ["BEGIN", "UPDATE", "COMMIT"])
async def test_transient_errors_are_retried(
    faults: Faults, journal: Journal, database: Database, statement: str
) -> None:
    run_id = await started(journal)
    faults += [(statement, busy), (statement, busy)]
    change = Append(run_id)
    assert await journal.apply(change) == 2
    assert journal.committer.statistics["retries"] == 2
    assert histories(database, run_id) == [["WorkflowStarted", "WorkflowCancelRequested"]]


@pytest.mark.parametrize("statement", ["BEGIN", "UPDATE", "COMMIT"])
async def test_a_connection_lost_before_the_commit(
    on_disk: Database, faults: Faults, journal: Journal, statement: str
) -> None:
    run_id = await started(journal)
    faults.append((statement, lost_before))
    change = Append(run_id)
    assert await journal.apply(change) == 2
    assert change.tried == (2 if statement != "BEGIN" else 1)
    assert histories(on_disk, run_id) == [["WorkflowStarted", "WorkflowCancelRequested"]]


async def test_a_commit_whose_answer_was_lost_is_not_repeated(
    on_disk: Database, faults: Faults, journal: Journal
) -> None:
    run_id = await started(journal)
    faults.append(("COMMIT", lost_after))
    changes = [AppendMany(run_id), AppendMany(run_id)]
    news: list[int] = []
    journal.subscribe(lambda committed: news.append(len(committed.events.get(run_id, ()))))
    outcomes = await gathered(journal, changes[0])
    assert outcomes == [2]
    assert changes[0].tried == 1, "it was applied: it is not done again"
    assert news == [1], "and the listeners are notified"
    assert await journal.apply(changes[1]) == 3
    assert len(histories(on_disk, run_id)[0]) == 3


async def test_a_commit_that_was_lost_again_and_again(
    on_disk: Database, faults: Faults, journal: Journal
) -> None:
    run_id = await started(journal)
    faults += [("COMMIT", lost_before), ("COMMIT", lost_before), ("COMMIT", lost_after)]
    change = AppendMany(run_id)
    assert await journal.apply(change) == 2
    assert change.tried == 3
    assert len(histories(on_disk, run_id)[0]) == 2


async def test_the_database_that_stays_away(
    on_disk: Database, faults: Faults, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await started(journal)
    monkeypatch.setattr(journal.committer, "_patience_s", 0.0)
    monkeypatch.setattr(on_disk.__class__, "writer", _unreachable)
    faults.append(("COMMIT", lost_before))
    outcomes = await gathered(journal, Append(run_id))
    assert isinstance(outcomes[0], StoreError)
    monkeypatch.undo()
    assert await journal.apply(Append(run_id)) == 2


async def test_a_commit_in_doubt_when_patience_ended_is_announced_late(
    on_disk: Database, faults: Faults, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its callers got an error. If it was applied all the same, the listeners still learn what it started."""
    run_id = await started(journal)
    news: list[Any] = []
    notified = asyncio.Event()

    def note(committed: Any) -> None:
        if committed.runs:
            news.append(committed)
            notified.set()

    journal.subscribe(note)
    with monkeypatch.context() as away:
        away.setattr(journal.committer, "_patience_s", 0.0)
        away.setattr(on_disk.__class__, "writer", _unreachable)
        away.setattr("outlast_store.journal.journal.SETTLE_DOUBT_AFTER_S", 0.01)
        faults.append(("COMMIT", lost_after))
        outcomes = await gathered(journal, Append(run_id))
        assert isinstance(outcomes[0], StoreError)
        assert news == []
        doubts = [journal.committer.in_doubt]
    await notified.wait()
    (committed,) = news
    assert committed.late
    assert committed.runs[run_id].last_seq == 2
    assert [*doubts, journal.committer.in_doubt] == [True, False]
    assert await journal.apply(AppendMany(run_id)) == 3
    assert not news[-1].late


async def test_a_commit_in_doubt_that_was_not_applied_is_forgotten(
    on_disk: Database, faults: Faults, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await started(journal)
    news: list[Any] = []
    with monkeypatch.context() as away:
        away.setattr(journal.committer, "_patience_s", 0.0)
        away.setattr(on_disk.__class__, "writer", _unreachable)
        faults.append(("COMMIT", lost_before))
        assert isinstance((await gathered(journal, Append(run_id)))[0], StoreError)
    journal.subscribe(news.append)
    assert await journal.apply(Append(run_id)) == 2
    assert [committed.late for committed in news] == [False]


async def test_a_journal_whose_row_is_gone_makes_it_anew(database: Database, journal: Journal) -> None:
    run_id = await started(journal)
    change = AppendMany(run_id)
    with database.reader() as connection:
        assert [row[0] for row in dead_journals.oldest(connection, 1 << 52, 10)] == [
            journal.committer.journal_id
        ]
    _forget(database, journal)
    assert await journal.apply(change) == 2
    assert len(histories(database, run_id)[0]) == 2
    with database.reader() as connection:
        assert dead_journals.oldest(connection, 1 << 52, 10) == [
            (journal.committer.journal_id, journal.committer.batches)
        ]


@pytest.mark.parametrize("done", [True, False])
async def test_a_commit_in_doubt_whose_row_is_gone_is_not_done_again(
    on_disk: Database, faults: Faults, journal: Journal, done: bool
) -> None:
    """Nobody can know what became of it, and its callers get an error that says so."""
    run_id = await started(journal)

    def lost_and_forgotten(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
        try:
            (lost_after if done else lost_before)(raw, text, values)
        finally:
            _forget(on_disk, journal)

    faults.append(("COMMIT", lost_and_forgotten))
    change = AppendMany(run_id)
    with pytest.raises(OutcomeUnknownError, match="it is no longer known whether a change was written"):
        await journal.apply(change)
    assert change.tried == 1
    assert len(histories(on_disk, run_id)[0]) == 1 + done
    assert await journal.apply(AppendMany(run_id)) == 2 + done


@pytest.mark.parametrize("needs_locks", [False, True])
async def test_a_transaction_that_arrives_after_it_was_given_up_is_refused(
    on_disk: Database, faults: Faults, journal: Journal, needs_locks: bool
) -> None:
    """What a connection had sent when it was lost may reach the server late, out of a network that was cut."""
    journal.cache.owners.add("me")
    mine = start(on_disk.environment, "w", owner_id="me")
    await journal.apply(mine)
    run_id = mine.run.run_id
    on_its_way: list[tuple[str, tuple[Any, ...]]] = []

    def held_up(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
        on_its_way.extend([*raw.sent, (text, values)])
        raw.lose()
        raise lost()

    def arrives(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
        assert not _goes_through(on_disk, on_its_way)
        return raw.real(text)

    faults += [("COMMIT", held_up), ("BEGIN", arrives)]
    change = AppendMany(run_id)
    change.needs_locks = needs_locks
    assert await journal.apply(change) == 2
    assert on_its_way[0][0].startswith("BEGIN")
    assert change.tried == 2
    assert len(histories(on_disk, run_id)[0]) == 2
    assert await journal.apply(AppendMany(run_id)) == 3


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("error", [OSError("poll"), AssertionError("a driver's bug"), KeyboardInterrupt()])
async def test_any_error_during_a_commit_leaves_it_in_doubt(
    database: Database, faults: Faults, error: BaseException, done: bool
) -> None:
    """Only the database can say that nothing was applied; all else leaves it in doubt."""
    committer = Committer(database, database.environment)
    first = start(database.environment, "w")
    committer.run([first])
    run_id = first.run.run_id

    def fail(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
        if done:
            raw.real(text)
        raise error

    faults.append(("COMMIT", fail))
    change = AppendMany(run_id)
    try:
        committer.run([change])
    except (TryAgain, KeyboardInterrupt):
        pass
    (outcome,), _ = committer.run([change])
    assert (outcome.value, outcome.error) == (2, None)
    assert len(histories(database, run_id)[0]) == 2
    assert change.tried == (1 if done else 2)
    (outcome,), _ = committer.run([AppendMany(run_id)])
    assert outcome.value == 3
    committer.close()


def test_a_row_that_is_gone_is_no_end_of_patience(on_disk: Database, faults: Faults) -> None:
    """A process that was paused between two attempts finds its row gone, and gets no error for it."""
    committer = Committer(on_disk, on_disk.environment, patience_s=0.05)
    first = start(on_disk.environment, "w")
    committer.run([first])
    faults.append(("BEGIN", busy))
    change = AppendMany(first.run.run_id)
    with pytest.raises(TryAgain):
        committer.run([change])
    time.sleep(0.06)
    connection = on_disk.writer()
    connection.exec_driver_sql("DELETE FROM journals")
    connection.close()
    with pytest.raises(TryAgain):
        committer.run([change])
    (outcome,), _ = committer.run([change])
    assert (outcome.value, outcome.error) == (2, None)
    committer.close()


def test_patience_is_whole_again_when_it_has_ended(
    on_disk: Database, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = Committer(on_disk, on_disk.environment, patience_s=0.05)
    first = start(on_disk.environment, "w")
    committer.run([first])
    monkeypatch.setattr(on_disk.__class__, "writer", _unreachable)
    faults.append(("COMMIT", lost_before))
    for _ in range(2):
        change = AppendMany(first.run.run_id)
        with pytest.raises(TryAgain):
            committer.run([change])
        time.sleep(0.06)
        (outcome,), _ = committer.run([change])
        assert isinstance(outcome.error, StoreError)
    monkeypatch.undo()
    committer.close()


@pytest.mark.postgresql
async def test_a_process_that_was_stopped_does_not_lock_rows_forever(postgresql_url: str) -> None:
    """Between what it has read and what it writes, a process may be paused: the server ends its session then."""
    environment = Environment()
    settings = PostgresSettings(idle_in_transaction_timeout_s=0.2)
    database = Database(DatabaseUrl.parse(postgresql_url), environment, postgres=settings)
    journal = Journal(database, environment)
    try:
        change = Paused(await started(journal), database)
        assert await journal.apply(change) == 2
        assert change.tried == 2
    finally:
        await journal.close()
        database.dispose()


class Paused(AppendMany):
    """Takes so long to decide, the first time, that the server ends its session."""

    def __init__(self, run_id: str, database: Database) -> None:
        super().__init__(run_id)
        self.database = database

    def apply(self, batch: Any) -> int:
        if not self.tried:
            pid = batch.raw.connection.connection.driver_connection.info.backend_pid
            with self.database.reader() as other:
                ask = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
                for _ in range(1000):
                    if not other.exec_driver_sql(ask, (pid,)).scalar():
                        break
                    time.sleep(0.01)
        return super().apply(batch)


def _goes_through(database: Database, statements: list[tuple[str, tuple[Any, ...]]]) -> bool:
    """Whether a server that gets these takes all of them; what it does not take whole, it takes nothing of."""
    connection = database.writer()
    driver: Any = connection.connection.driver_connection
    try:
        for text, values in statements:
            if driver.execute(text, values).rowcount == 0:
                return False
    except psycopg.DataError:
        return False
    finally:
        driver.rollback()
        connection.close()
    return True


async def test_a_journal_whose_row_is_of_another_time_makes_it_anew(
    on_disk: Database, journal: Journal
) -> None:
    """As after a failover to a standby that had not received the last commits."""
    run_id = await started(journal)
    connection = on_disk.writer()
    connection.exec_driver_sql("UPDATE journals SET batch_no = batch_no - 1")
    connection.close()
    assert await journal.apply(AppendMany(run_id)) == 2
    assert len(histories(on_disk, run_id)[0]) == 2
    with on_disk.reader() as reader:
        assert dead_journals.oldest(reader, 1 << 52, 10) == [
            (journal.committer.journal_id, journal.committer.batches)
        ]


@pytest.mark.postgresql
@pytest.mark.parametrize("cached", [True, False])
async def test_a_batch_goes_to_the_server_in_one_round_trip(
    postgresql_url: str, tmp_path: Path, cached: bool
) -> None:
    """And two more for rows that are read under their lock: the BEGIN, and the reading."""
    environment = Environment()
    database = Database(DatabaseUrl.parse(postgresql_url), environment)
    journal = Journal(database, environment)
    try:
        journal.cache.owners.add("me")
        mine = start(environment, "w", owner_id="me" if cached else "other")
        await journal.apply(mine)
        connection = journal.committer.connect().connection.driver_connection
        assert isinstance(connection, psycopg.Connection)
        with (tmp_path / "trace").open("w") as trace:
            connection.pgconn.trace(trace.fileno())
            await journal.apply(AppendMany(mine.run.run_id))
            connection.pgconn.untrace()
        assert (tmp_path / "trace").read_text().count("ReadyForQuery") == (1 if cached else 3)
    finally:
        await journal.close()
        database.dispose()


def _forget(database: Database, journal: Journal) -> None:
    """As a watchdog does that takes it for a dead process's."""
    connection = database.writer()
    mark = "?" if database.backend == "sqlite" else "%s"
    text = f"DELETE FROM journals WHERE journal_id = {mark}"
    assert connection.exec_driver_sql(text, (journal.committer.journal_id,)).rowcount == 1
    connection.close()


def _unreachable(self: Database) -> Any:
    raise StoreUnreachableError("nobody answers")


@pytest.mark.postgresql
async def test_a_backend_that_is_terminated_while_it_commits(
    postgresql_url: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment()
    database = Database(DatabaseUrl.parse(postgresql_url), environment)
    journal = Journal(database, environment)
    try:
        run_id = await started(journal)

        def terminated(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
            pid = raw.real("SELECT pg_backend_pid()").fetchone()[0]
            with database.reader() as other:
                other.exec_driver_sql("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            return raw.real(text)

        for expected in (2, 3, 4):
            faults.append(("COMMIT", terminated))
            change = AppendMany(run_id)
            assert await journal.apply(change) == expected
            assert change.tried == 2
        assert len(histories(database, run_id)[0]) == 4
    finally:
        await journal.close()
        database.dispose()


@pytest.mark.postgresql
async def test_a_commit_still_under_way_is_waited_for(postgresql_url: str, faults: Faults) -> None:
    """An early reader gets no answer: the journal's row is locked until the old session is through."""
    environment = Environment()
    settings = PostgresSettings(lock_timeout_s=0.05)
    database = Database(DatabaseUrl.parse(postgresql_url), environment, postgres=settings)
    journal = Journal(database, environment)
    try:
        run_id = await started(journal)
        held = threading.Event()

        def still_committing(raw: FaultyConnection, text: str, values: tuple[Any, ...]) -> Any:
            """The commit is done, but its session seems to hold its locks for another while."""
            raw.real(text)
            holder = database.writer()
            holder.exec_driver_sql("BEGIN")
            holder.exec_driver_sql("SELECT batch_no FROM journals FOR UPDATE")
            held.set()

            def let_go() -> None:
                holder.exec_driver_sql("ROLLBACK")
                holder.close()

            threading.Timer(0.4, let_go).start()
            raw.lose()
            raise lost()

        faults.append(("COMMIT", still_committing))
        change = AppendMany(run_id)
        assert await journal.apply(change) == 2
        assert held.is_set()
        assert change.tried == 1
        assert len(histories(database, run_id)[0]) == 2
    finally:
        await journal.close()
        database.dispose()


# --- trust ----------------------------------------------------------------------------------------------------------


async def test_a_cached_row_that_others_changed_is_read_again(on_disk: Database, journal: Journal) -> None:
    """What this process believes of its own runs is proved by each write."""
    environment = on_disk.environment
    journal.cache.owners.add("me")
    mine = start(environment, "w", owner_id="me")
    await journal.apply(mine)
    run_id = mine.run.run_id
    assert run_id in journal.cache.runs
    other = Committer(on_disk, environment)
    other.run([AppendMany(run_id)])
    assert await journal.apply(AppendMany(run_id)) == 3
    assert journal.committer.statistics["stale"] == 1
    other.close()


async def test_a_fenced_owner_is_refused_and_not_merged(on_disk: Database, journal: Journal) -> None:
    environment = on_disk.environment
    journal.cache.owners.add("me")
    mine = start(environment, "w", owner_id="me")
    await journal.apply(mine)
    other = Committer(on_disk, environment)
    other.run([TakeOver(mine.run.run_id)])
    outcomes = await gathered(journal, Append(mine.run.run_id, fence=1))
    assert isinstance(outcomes[0], RefusedError)
    assert histories(on_disk, mine.run.run_id) == [["WorkflowStarted"]]
    other.close()


class TakeOver(BaseChange):
    def __init__(self, run_id: str) -> None:
        self.runs = (run_id,)

    def apply(self, batch: Any) -> None:
        run = batch.run(self.runs[0])
        run.owner_id = "other"
        run.fence += 1


async def test_two_journals_write_to_one_run(on_disk: Database, journal: Journal) -> None:
    run_id = await started(journal)
    second = Journal(on_disk, on_disk.environment)
    seqs = await asyncio.gather(
        *[one.apply(AppendMany(run_id)) for _ in range(100) for one in (journal, second)]
    )
    assert sorted(seqs) == list(range(2, 202))
    await second.close()


async def test_two_journals_start_the_same_ids(on_disk: Database, journal: Journal) -> None:
    second = Journal(on_disk, on_disk.environment)
    outcomes = await asyncio.gather(
        *[one.apply(start(on_disk.environment, f"w-{n}")) for n in range(50) for one in (journal, second)],
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, WorkflowAlreadyStartedError) for outcome in outcomes) == 50
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 50
    await second.close()


async def test_a_connection_that_goes_between_two_batches_stalls_nothing(
    on_disk: Database, journal: Journal
) -> None:
    run_id = await started(journal)
    connection = journal.committer._connection
    assert connection is not None
    connection.invalidate()
    connection.close()
    assert journal.committer.data_version() == 0, "nobody knows whether others write"
    await journal.apply(Append(run_id))


# --- time -----------------------------------------------------------------------------------------------------------


def test_time_never_falls_within_a_run(database: Database) -> None:
    from outlast.testing import TestEnvironment

    async def body() -> None:
        clock = VirtualClock()
        environment = Environment(clock, threads=False)
        journal = Journal(database, environment)
        change = start(environment, "w")
        await journal.apply(change)
        clock.jump(-3600)
        await journal.apply(Append(change.run.run_id))
        other = start(environment, "other")
        await journal.apply(other)
        with database.reader() as connection:
            stamps = [row[2] for row in read_events(connection, change.run.run_id, 0, 10)]
            assert stamps[0] == stamps[1]
            ours = read_events(connection, other.run.run_id, 0, 10)[0][2]
            assert ours == stamps[0] - 3_600_000_000, "one run's stamp never moves another's"
        await journal.close()

    TestEnvironment.run(body)


class FindsDamage(StartRun):
    """A change that has written when it meets something that cannot be read."""

    def apply(self, batch: Batch) -> Started:
        super().apply(batch)
        raise DamagedHistoryError("r-1", "payload", seq=7)


async def test_damage_that_a_change_meets_undoes_it_alone_and_is_named(journal: Journal) -> None:
    environment = journal.committer._environment
    made = start(environment, "damaged")
    finding = FindsDamage(made.run, made.started, made.policy)
    before, found, after = await asyncio.gather(
        journal.apply(start(environment, "before")),
        journal.apply(finding),
        journal.apply(start(environment, "after")),
        return_exceptions=True,
    )
    assert isinstance(found, DamagedHistoryError)
    assert found.seq == 7
    assert lasts(found), "it is the task's failure, and not tried again at once forever"
    assert isinstance(before, Started)
    assert isinstance(after, Started)
    assert (await journal.apply(start(environment, "damaged"))).created
