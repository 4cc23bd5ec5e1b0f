"""The committer: runs batches of changes as transactions, one at a time, and knows what became of each.

For every batch it tries, in this order:

1. with cached rows trusted (no read, no lock), unless a change insists; a stale row rolls back and
2. again with every row read under its lock;
3. an error that is transient (deadlock, serialisation, busy) runs the batch again after a short pause;
4. a lost connection leaves the outcome **unknown**. Each journal has a row ``(journal_id, batch_no)`` that every
   batch's transaction brings from the number before to its own. On a new connection the number is brought past that of
   the batch in doubt, if it has not been reached: this waits for a commit still under way, and whatever of the old
   transaction is yet to arrive (it may stand in a buffer, or in a network that is cut) fails from then on. Is it the
   batch's, the batch was applied, and its outcome is the one computed; else it was not, never will be, and runs again.
   If the row is gone (:mod:`outlast_store.transitions.dead_journals`), nobody can know:
   the callers are told so, nothing is done twice;
5. any other error runs the batch again in halves, until the culprit stands alone and is refused alone.

Where the database stays away for longer than ``patience`` the callers get the error: nothing waits for ever. If a
commit was in doubt then, it stays so until the database is back; if it turns out to have been applied, the listeners
hear of it late (:attr:`~outlast_store.journal.batch.Committed.late`), so that what it set going is not left
without anyone.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from outlast_store.database.database import Database, is_disconnect, is_transient, translate
from outlast_store.database.driver_errors import is_conflict, is_refusal, stale_rows_of
from outlast_store.database.fork_guard import forked
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.statements import advance, statements_for
from outlast_store.journal.batch import Batch, Cache, Change, Committed, StaleRows
from outlast_workflow.environment import Environment
from outlast_workflow.errors import OutcomeUnknownError, OutlastError, StoreError

logger = logging.getLogger("outlast.journal")

FIRST_PAUSE = 0.002
LONGEST_PAUSE = 1.0


class Outcome:
    """What became of one change: a value, or the error that its caller gets."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error


class TryAgain(Exception):
    """The batch could not be run now; run the same changes again after ``pause`` seconds."""

    def __init__(self, pause: float) -> None:
        self.pause = pause


class Forgotten(Exception):
    """The journal's row is gone, or of another time: it is made anew before anything is written."""


Result = tuple[list[Outcome], list[Committed]]


class Committer:
    """One writing connection, and the protocol above. Not thread-safe: one thread at a time runs it."""

    def __init__(self, database: Database, environment: Environment, *, patience: float = 30.0) -> None:
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
        self._patience = patience
        self._failing_since: float | None = None
        self._pause = FIRST_PAUSE
        self._in_doubt: tuple[int, list[Outcome], Committed] | None = None
        self._given_up = False
        self._lost_track = False
        self._late: list[Committed] = []

    @property
    def journal_id(self) -> str:
        """Which row is this journal's."""
        return self._journal_id

    # --- the connection ---------------------------------------------------------------------------------------------

    def connect(self) -> Connection:
        """The writing connection, made (and the journal's row with it) where there is none."""
        if self._connection is None:
            connection = self._database.writer()
            try:
                rows = connection.exec_driver_sql(self._position, (self._journal_id,)).fetchall()
                if not rows:
                    self._lost_track = self._in_doubt is not None
                    connection.exec_driver_sql(self._register, (self._journal_id, self.batches))
                self._statements = self._database.statements(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._raw = connection, RawConnection(connection)
        return self._connection

    def close(self) -> None:
        """Forget the journal's row and close the connection."""
        connection, self._connection, self._raw = self._connection, None, None
        if connection is None:
            return
        try:
            connection.exec_driver_sql(self._remove, (self._journal_id,))
        except SQLAlchemyError:
            logger.debug("the journal's row stays behind", exc_info=True)
        connection.close()

    def hurry(self, patience: float) -> None:
        """Somebody wants to end: from now on wait no longer than this for a database that is away."""
        self._patience = min(self._patience, patience)

    def _drop_connection(self) -> None:
        connection, self._connection, self._raw = self._connection, None, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                logger.debug("closing a lost connection", exc_info=True)

    def data_version(self) -> int:
        """A number that changes when another connection has committed to this SQLite file; zero while there is none."""
        if self._connection is None:
            return 0
        try:
            row = self._connection.exec_driver_sql("PRAGMA data_version").fetchone()
        except SQLAlchemyError:  # between two batches: the next one finds out what is wrong
            logger.debug("the database does not say whether others write", exc_info=True)
            self._drop_connection()
            return 0
        return int(row[0]) if row is not None else 0

    # --- batches ----------------------------------------------------------------------------------------------------

    def run(self, changes: Sequence[Change[Any]]) -> Result:
        """Run the changes as one transaction, or in halves. Raises :class:`TryAgain`; never another error."""
        if os.getpid() != self._pid:  # the connection is the parent's: not even to be closed
            return [Outcome(None, forked()) for _ in changes], []
        try:
            settled = self._settle_doubt() if self._in_doubt is not None else None
            result = settled or self._try(changes)
        except Exception as error:  # whatever it is, every waiter learns of it
            result = self._after_error(changes, error)
        self._failing_since = None
        self._pause = FIRST_PAUSE
        if self._late:
            outcomes, committed = result
            result, self._late = (outcomes, self._late + committed), []
        return result

    def _try(self, changes: Sequence[Change[Any]]) -> Result:
        for change in changes:
            if change.needs_locks:
                break
        else:
            try:
                return self._transaction(changes, self.cache)
            except StaleRows:
                self.statistics["stale"] += 1
        return self._transaction(changes, None)

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
            # An event that another process wrote stands where this one's was to be: the guard failed as well.
            if stale is not None or (any(trusted) and is_conflict(error)):
                raise StaleRows from error
            raise
        return self._settled()

    def _write(self, raw: RawConnection, batch: Batch, outcomes: list[Outcome]) -> None:
        """Write the batch and commit it. If they are sent together the server passes over a COMMIT after a failure."""
        batch.flush()
        number = self.batches + 1
        if raw.exec_driver_sql(self._advance, (number, self._journal_id, self.batches)).rowcount == 0:
            raise Forgotten
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
        except StoreError:
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
        except (sqlite3.Error, psycopg.Error):
            self._drop_connection()

    def _abandon(self) -> None:
        """The COMMIT may have arrived or not: leave nothing open that could be taken for its outcome."""
        if self._database.backend == "sqlite":
            self._roll_back()
        else:
            self._drop_connection()

    # --- trouble ----------------------------------------------------------------------------------------------------

    def _after_error(self, changes: Sequence[Change[Any]], error: Exception) -> Result:
        """Decide what an error means for the batch: again, again on a new connection, or in halves."""
        if is_disconnect(error) or isinstance(error, StoreError):
            self._drop_connection()
        if self._in_doubt is not None:
            return self._again_or_give_up(changes, error)
        if isinstance(error, Forgotten):
            self._make_anew()
            self._failing_since = None  # the database answers: however long it was away, patience begins anew
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
        """Run a half to its end: its other half may have committed already, so there is no trying again later."""
        while True:
            try:
                return self.run(changes)
            except TryAgain as again:
                self._environment.pause(again.pause)

    def _make_anew(self) -> None:
        """The row is gone, or a server took over that had not heard of it yet (a standby that was not in step).

        No commit is in doubt, for that is settled before a batch begins.
        """
        try:
            connection = self.connect()
            connection.exec_driver_sql(self._remove, (self._journal_id,))
            connection.exec_driver_sql(self._register, (self._journal_id, self.batches))
        except (SQLAlchemyError, StoreError):  # the next batch finds out what is wrong
            self._drop_connection()

    def _again_or_give_up(self, changes: Sequence[Change[Any]], error: Exception) -> Result:
        now = self._environment.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._patience:
            self._given_up = self._in_doubt is not None
            return [Outcome(None, translate(error)) for _ in changes], []
        self.statistics["retries"] += 1
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        raise TryAgain(pause) from error

    @property
    def in_doubt(self) -> bool:
        """Whether callers were told an error about a batch that may have been applied."""
        return self._given_up

    def _settle_doubt(self) -> Result | None:
        """What became of the batch in doubt; ``None``: it was not applied, or those who asked for it have their error.

        If it was applied after all, the listeners are to hear of it late.
        """
        settled = self._resolve_doubt()
        if not self._given_up:
            return settled
        self._given_up = False
        if settled is not None:
            for committed in settled[1]:
                committed.late = True
                self._late.append(committed)
        return None

    def _resolve_doubt(self) -> Result | None:
        """After a lost connection: was the batch that was being committed applied? If not, it never will be."""
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
            "whether a change was written can't be known any more, for the database was away too long: look at what "
            "is there before you ask again"
        )
        return [Outcome(None, unknown) for _ in outcomes], []
