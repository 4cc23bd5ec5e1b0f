"""The committer: runs batches of changes as transactions, one at a time, and knows what became of each.

A batch goes through these steps:

1. It runs with cached rows trusted, without a read or a lock, unless a change requires locked rows.
2. If a cached row was stale, the transaction is rolled back, and the batch runs again with every row read under its
   lock.
3. After a transient error (deadlock, serialisation failure, busy) the batch runs again after a short pause.
4. A lost connection leaves the outcome of a COMMIT **unknown**. Each journal has a row ``(journal_id, batch_no)``,
   which every batch's transaction moves from the previous number to its own. On a new connection the committer moves
   the number past that of the batch in doubt, unless the batch has reached it. This waits for a commit that is still
   under way, and from then on anything of the old transaction that arrives late (from a buffer, or a network that was
   cut) fails. If the row then has the batch's number, the batch was applied, and its outcome is the one computed. If
   not, it was not applied and never will be, and it runs again. If the row is gone
   (:mod:`outlast_store.transitions.dead_journals`), nobody can know: the callers get an error that says so, and nothing
   is done twice.
5. After any other error the batch runs again in halves, until the change at fault is alone and is refused alone.

If the database stays away for longer than ``patience_s``, the callers get the error: nothing waits forever. A commit
that is in doubt by then stays so until the database is back. If it turns out to have been applied, the listeners are
notified late (:attr:`~outlast_store.journal.batch.Committed.late`), so that somebody takes care of what it started.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast_store.database.database import Database, is_disconnect, is_transient, translate
from outlast_store.database.driver_errors import is_conflict, is_refusal, stale_rows_of
from outlast_store.database.driver_roots import driver_roots
from outlast_store.database.fork_guard import forked
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.sqlite import wait_shortly
from outlast_store.database.statements import advance, statements_for
from outlast_store.journal.batch import Batch, Cache, Change, Committed, StaleRows
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    DamagedHistoryError,
    OutcomeUnknownError,
    OutlastError,
    StoreError,
    StoreReplacedError,
)

logger = logging.getLogger("outlast.journal")

FIRST_RETRY_AFTER_S: Final = 0.002
LONGEST_RETRY_AFTER_S: Final = 1.0
LONGEST_RETRY_ON_FILE_S: Final = 0.05
_NEEDS_LOCKS: Final = attrgetter("needs_locks")


class Outcome(NamedTuple):
    """What became of one change: its value, or the error that its caller gets."""

    value: Any = None
    error: BaseException | None = None


class TryAgain(Exception):
    """The batch could not be run now: run the same changes again after a pause, in seconds."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s


class Forgotten(Exception):
    """The journal's row is gone or has another number: it is made again before anything is written."""


Result = tuple[list[Outcome], list[Committed]]


class Committer:
    """One writing connection and the protocol above. It is not thread-safe: one thread at a time runs it.

    Args:
        database: Where it writes.
        environment: Clock, ids and randomness.
        patience_s: How long the database may stay away, in seconds, before callers get the error.
    """

    def __init__(self, database: Database, environment: Environment, *, patience_s: float = 30.0) -> None:
        self.cache = Cache()
        self.batches = 0
        self.statistics = {"batches": 0, "changes": 0, "stale": 0, "retries": 0}
        self._database = database
        self._environment = environment
        self._statements = statements_for(database.backend)
        self._begin = "BEGIN IMMEDIATE" if database.backend == "sqlite" else "BEGIN"
        mark = "?" if database.backend == "sqlite" else "%s"
        self._advance, self._bar = advance(database.backend)
        self._register = f"INSERT INTO journals (journal_id, batch_no) VALUES ({mark}, {mark})"
        lock = "" if database.backend == "sqlite" else " FOR UPDATE"
        self._position = f"SELECT batch_no FROM journals WHERE journal_id = {mark}{lock}"
        self._remove = f"DELETE FROM journals WHERE journal_id = {mark}"
        self._connection: Connection | None = None
        self._raw: RawConnection | None = None
        self._pid = os.getpid()
        self._journal_id = environment.ids.next()
        self._patience_s = patience_s
        self._failing_since: float | None = None
        self._retry_after_s = FIRST_RETRY_AFTER_S
        # A file is locked by other processes for moments, and whoever looks rarely misses its turn.
        on_file = database.file is not None
        self._longest_retry_after_s = LONGEST_RETRY_ON_FILE_S if on_file else LONGEST_RETRY_AFTER_S
        self._in_doubt: tuple[int, list[Outcome], Committed] | None = None
        self.in_doubt = False
        """Whether callers got an error about a batch that may have been applied."""
        self._lost_track = False
        self._late: list[Committed] = []

    @property
    def journal_id(self) -> str:
        """The key of this journal's row."""
        return self._journal_id

    # --- the connection ---------------------------------------------------------------------------------------------

    def connect(self) -> Connection:
        """Return the writing connection; open it, and make the journal's row, if there is none."""
        if self._connection is None:
            connection = self._database.writer()
            try:
                rows = connection.exec_driver_sql(self._position, (self._journal_id,)).fetchall()
                if not rows:
                    self._lost_track = self._in_doubt is not None
                    connection.exec_driver_sql(self._register, (self._journal_id, self.batches))
                self._statements = self._database.statements(connection)
                if self._database.file is not None:
                    wait_shortly(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._raw = connection, RawConnection(connection)
        return self._connection

    def close(self) -> None:
        """Delete the journal's row and close the connection."""
        connection, self._connection, self._raw = self._connection, None, None
        if connection is None:
            return
        try:
            if self._database.file is not None:
                wait_shortly(connection, shortly=False)
            connection.exec_driver_sql(self._remove, (self._journal_id,))
        except SQLAlchemyError:
            logger.debug("the journal's row stays behind", exc_info=True)
        connection.close()

    def hurry(self, patience_s: float) -> None:
        """From now on, wait no longer than this many seconds for a database that is away."""
        self._patience_s = min(self._patience_s, patience_s)

    def _drop_connection(self) -> None:
        connection, self._connection, self._raw = self._connection, None, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                logger.debug("closing a lost connection", exc_info=True)

    def data_version(self) -> int:
        """Return a number that changes when another connection commits to this SQLite file; 0 if not connected.

        Raises:
            ForkedConnectionError: The connection is that of the process which forked this one.
        """
        if self._raw is None:
            return 0
        if os.getpid() != self._pid:
            raise forked()
        try:
            row = self._raw.exec_driver_sql("PRAGMA data_version").fetchone()
        except driver_roots():
            # This is between two batches: the next one will find out what is wrong.
            logger.debug("the database does not say whether others write", exc_info=True)
            self._drop_connection()
            return 0
        return int(row[0]) if row is not None else 0

    # --- batches ----------------------------------------------------------------------------------------------------

    def run(self, changes: Sequence[Change[Any]]) -> Result:
        """Run the changes as one transaction, or in halves.

        Returns:
            An outcome for each change, and what was committed.

        Raises:
            TryAgain: The database cannot do it now. No other error is raised: each is a change's outcome.
        """
        # After a fork the connection is the parent's, and the child must not even close it.
        if os.getpid() != self._pid:
            return [Outcome(None, forked()) for _ in changes], []
        try:
            result = self._settle_doubt() if self._in_doubt is not None else None
            if result is None:
                trusting = not any(map(_NEEDS_LOCKS, changes))
                try:
                    result = self._transaction(changes, self.cache if trusting else None)
                except StaleRows:
                    if not trusting:
                        raise
                    self.statistics["stale"] += 1
                    result = self._transaction(changes, None)
        except Exception as error:
            # Whatever it is, every caller must get an outcome.
            result = self._after_error(changes, error)
        self._failing_since = None
        self._retry_after_s = FIRST_RETRY_AFTER_S
        if self._late:
            outcomes, committed = result
            result, self._late = (outcomes, self._late + committed), []
        return result

    def _transaction(self, changes: Sequence[Change[Any]], cache: Cache | None) -> Result:
        if self._raw is None:
            self.connect()
        raw = self._raw
        assert raw is not None
        if raw.pipelined:
            raw.begin(self._begin)
        else:
            raw.exec_driver_sql(self._begin)
        batch = Batch(raw, self._statements, cache, self._environment)
        try:
            batch.load(changes)
            outcomes = [self._apply(batch, change) for change in changes]
            if raw.pipelined:
                with raw.together():
                    self._write(raw, batch, outcomes)
            else:
                self._write(raw, batch, outcomes)
        except BaseException as error:
            if self._in_doubt is not None and not is_refusal(error):
                self._abandon()
                raise
            self._in_doubt = None
            trusted = batch.trusted()
            self.cache.forget(*trusted)
            self._roll_back()
            stale = stale_rows_of(error)
            if stale == "journals":
                raise Forgotten from error
            # Another process's event already has this one's seq, so the guard would have failed as well.
            if stale is not None or (any(trusted) and is_conflict(error)):
                raise StaleRows from error
            raise
        return self._settled()

    def _write(self, raw: RawConnection, batch: Batch, outcomes: list[Outcome]) -> None:
        """Write the batch and commit it. If they are sent together, the server skips the COMMIT after a failure."""
        batch.flush()
        number = self.batches + 1
        if raw.exec_driver_sql(self._advance, (number, self._journal_id, self.batches)).rowcount == 0:
            raise Forgotten
        if self._database.file is not None:
            self._database.file.check()
        self._in_doubt = (number, outcomes, batch.committed())
        raw.exec_driver_sql("COMMIT")

    def _settled(self) -> Result:
        assert self._in_doubt is not None
        number, outcomes, committed = self._in_doubt
        self.cache.remember(committed)
        self._in_doubt = None
        self.batches = number
        self.statistics["batches"] += 1
        self.statistics["changes"] += len(outcomes)
        return outcomes, [committed]

    def _apply(self, batch: Batch, change: Change[Any]) -> Outcome:
        batch.begin(change)
        try:
            return Outcome(change.apply(batch))
        except (StoreError, DamagedHistoryError):
            # Nothing that a change looks for, so it may have written already: its batch is rolled back.
            raise
        except OutlastError as refusal:
            batch.require_locks()
            if batch.touched:
                raise AssertionError(f"{type(change).__name__} was refused after it had written") from refusal
            return Outcome(None, refusal)

    def _roll_back(self) -> None:
        try:
            if self._raw is not None:
                self._raw.roll_back()
        except driver_roots():
            self._drop_connection()

    def _abandon(self) -> None:
        """Drop what the COMMIT, which may have arrived or not, was sent through, so that only the row decides."""
        if self._database.backend == "sqlite":
            self._roll_back()
        else:
            self._drop_connection()

    # --- errors -----------------------------------------------------------------------------------------------------

    def _after_error(self, changes: Sequence[Change[Any]], error: Exception) -> Result:
        """Decide what an error means: run the batch again, on a new connection if need be, or in halves."""
        if is_disconnect(error) or isinstance(error, StoreError):
            self._drop_connection()
        if isinstance(error, StoreReplacedError):
            self._in_doubt = None
            return [Outcome(None, error) for _ in changes], []
        if self._in_doubt is not None:
            return self._again_or_give_up(changes, error)
        if isinstance(error, Forgotten):
            self._restore_row()
            # The database answers, however long it was away, so patience starts over.
            self._failing_since = None
            return self._again_or_give_up(changes, error)
        if is_transient(error) or is_disconnect(error) or isinstance(error, StoreError):
            return self._again_or_give_up(changes, error)
        if len(changes) == 1:
            logger.debug("a change failed alone", exc_info=error)
            return [Outcome(None, translate(error))], []
        half = len(changes) // 2
        outcomes: list[Outcome] = []
        committed: list[Committed] = []
        for part in (changes[:half], changes[half:]):
            more, written = self._run_part(part)
            outcomes += more
            committed += written
        return outcomes, committed

    def _run_part(self, changes: Sequence[Change[Any]]) -> Result:
        """Run one half until it has an outcome: the other half may have committed, so neither can be left for later."""
        while True:
            try:
                return self.run(changes)
            except TryAgain as again:
                self._environment.pause(again.pause_s)

    def _restore_row(self) -> None:
        """Make the journal's row again: it is gone, or a standby that lagged behind was promoted without it.

        No commit is in doubt here, because that is settled before a batch begins.
        """
        try:
            connection = self.connect()
            connection.exec_driver_sql(self._remove, (self._journal_id,))
            connection.exec_driver_sql(self._register, (self._journal_id, self.batches))
        except (SQLAlchemyError, StoreError):
            # The next batch will find out what is wrong.
            self._drop_connection()

    def _again_or_give_up(self, changes: Sequence[Change[Any]], error: Exception) -> Result:
        now = self._environment.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._patience_s:
            self.in_doubt = self._in_doubt is not None
            return [Outcome(None, translate(error)) for _ in changes], []
        self.statistics["retries"] += 1
        pause_s = self._retry_after_s
        self._retry_after_s = min(pause_s * 2, self._longest_retry_after_s)
        raise TryAgain(pause_s) from error

    def _settle_doubt(self) -> Result | None:
        """Return the outcome of the batch in doubt; ``None`` if it was not applied, or its callers have their error.

        If it was applied after all, the listeners are notified late.
        """
        settled = self._resolve_doubt()
        if not self.in_doubt:
            return settled
        self.in_doubt = False
        if settled is not None:
            for committed in settled[1]:
                committed.late = True
                self._late.append(committed)
        return None

    def _resolve_doubt(self) -> Result | None:
        """Find out, after a lost connection, whether the batch in doubt was applied. If not, it never will be."""
        assert self._in_doubt is not None
        number, outcomes, _ = self._in_doubt
        connection = self.connect()
        connection.exec_driver_sql(self._bar, (number + 1, self._journal_id, number - 1))
        row = connection.exec_driver_sql(self._position, (self._journal_id,)).fetchone()
        lost_track, self._lost_track = self._lost_track or row is None, False
        if row is not None and int(row[0]) == number:
            return self._settled()
        self._in_doubt, self.batches = None, number + 1
        if not lost_track:
            return None
        unknown = OutcomeUnknownError(
            "it is no longer known whether a change was written, because the database was away too long: check what "
            "is there before you try again"
        )
        return [Outcome(None, unknown) for _ in outcomes], []
