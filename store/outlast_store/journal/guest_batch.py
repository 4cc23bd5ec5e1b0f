"""The engine's part of a guest's transaction: one change, applied on the connection of user code.

It is a batch as the journal's are, but on a foreign connection: every row is read under its lock, nothing is trusted
from the cache, and BEGIN and COMMIT are the guest's. It is applied **last**, after all that the code did. So the
engine's rows are locked for the moment of one commit, however long the code took, and whoever holds them waits for
nobody: two guests, or a guest and a journal, cannot wait for each other in a circle over them.
"""

from __future__ import annotations

from typing import TypeVar

from outlast_store.database.database import Database
from outlast_store.database.guests import Guest
from outlast_store.journal.batch import Batch, Change, Committed
from outlast_workflow.environment import Environment

T = TypeVar("T")


def apply_as_guest(
    guest: Guest, database: Database, environment: Environment, change: Change[T]
) -> Committed:
    """Write a change in a guest's transaction; return what its commit will make true.

    Args:
        guest: The transaction; its code has ended.
        database: The database.
        environment: The clock, which is read when the rows are locked.
        change: What is to be written. It does not close runs.

    Raises:
        RefusedError: A guard of the change failed; nothing of it was written.
        TransactionEndedError: The code has ended the transaction, or made it unusable.
        StoreReplacedError: The SQLite file is no longer the one that was opened.
    """
    link = guest.take()
    batch = Batch(link, database.statements(guest.connection), None, environment)
    batch.load([change])
    batch.begin(change)
    change.apply(batch)
    batch.flush()
    if database.file is not None:
        database.file.check()
    return batch.committed()
