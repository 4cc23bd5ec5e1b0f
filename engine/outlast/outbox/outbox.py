"""What a client does with the outbox: ``client.outbox``."""

from __future__ import annotations

from typing import Literal

from outlast.outbox.bells import bell_of
from outlast.runtime.runtime import Runtime
from outlast.visibility.views import Instant, View
from outlast_runs.outbox import DeleteOutbox, RetryOutbox
from outlast_store.reads.outbox import find_row, read_load, read_page
from outlast_store.schema.rows import OutboxRow
from outlast_workflow.errors import InvalidOptionError, OutboxRefusedError, OutboxRowNotFoundError
from outlast_workflow.options.validation import integer
from outlast_workflow.primitives.times import to_datetime

OutboxState = Literal["waiting", "refused"]


class OutboxEntry(View):
    """A row of the outbox: what is to happen to a workflow, asked for in somebody's own transaction.

    Attributes:
        outbox_id: Its number. Rows of one transaction have the order of their statements.
        kind: ``start``, ``signal`` or ``cancel``.
        workflow_id: The workflow.
        name: The workflow's type, or the signal's name; ``None`` for a cancel request.
        created_at: When it was written, if it says so.
        state: ``waiting``: it is applied in a moment; ``refused``: it could not be, and is kept for a week.
        reason: Why it was refused.
        refused_at: When.
    """

    outbox_id: int
    kind: str
    workflow_id: str
    name: str | None
    created_at: Instant | None
    state: OutboxState
    reason: str | None
    refused_at: Instant | None


class OutboxSummary(View):
    """How much is in the outbox.

    Attributes:
        waiting: How many rows are to be applied, counted up to 10,000.
        refused: How many were refused and are kept, counted up to 10,000.
        oldest_waiting_seconds: How long the first of those that wait has waited, if it says when it was written.
    """

    waiting: int
    refused: int
    oldest_waiting_seconds: float | None


class Outbox:
    """The outbox of one database: what is started, signalled and cancelled in users' own transactions.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def list(
        self, *, state: OutboxState | None = None, after: int = 0, limit: int = 100
    ) -> list[OutboxEntry]:
        """Return a page of rows, in their order.

        Args:
            state: Only rows that are ``waiting``, or only ``refused`` ones.
            after: The number of the row to begin after.
            limit: Rows at most, 1 to 1000.

        Raises:
            InvalidOptionError: Something cannot be used.
        """
        rows = await self._runtime.read(
            read_page, integer("after", after, 0), integer("limit", limit, 1, 1000), checked_state(state)
        )
        return [_entry(row) for row in rows]

    async def summary(self) -> OutboxSummary:
        """Return how much is in the outbox."""
        load = await self._runtime.read(read_load)
        waited = None
        if load.oldest_waiting_at is not None:
            waited = max(0, self._runtime.environment.clock.now() - load.oldest_waiting_at) / 1_000_000
        return OutboxSummary(waiting=load.waiting, refused=load.refused, oldest_waiting_seconds=waited)

    async def retry(self, outbox_id: int) -> None:
        """Let a refused row wait again, for example once its queue is defined. It is applied at once.

        Args:
            outbox_id: The row.

        Raises:
            OutboxRowNotFoundError: There is no such row, or it was not refused.
            OutboxRefusedError: It was refused again; the row is kept.
        """
        if not await self._runtime.journal.apply(RetryOutbox(_number(outbox_id))):
            raise OutboxRowNotFoundError(outbox_id)
        await self.drain()
        row = await self._runtime.read(find_row, outbox_id)
        if row is not None and row.state == "refused":
            raise OutboxRefusedError(
                row.workflow_id, outbox_id=outbox_id, reason=row.reason or "", kind=row.kind
            )

    async def delete(self, outbox_id: int) -> None:
        """Delete a row: what it asks for never happens.

        Args:
            outbox_id: The row, waiting or refused.

        Raises:
            OutboxRowNotFoundError: There is no such row, because it was applied or deleted already.
        """
        if not await self._runtime.journal.apply(DeleteOutbox(_number(outbox_id))):
            raise OutboxRowNotFoundError(outbox_id)

    async def drain(self) -> int:
        """Apply what waits now, without waiting for a watchdog, and return how many rows were applied.

        Raises:
            StoreError: The database cannot be read or written.
        """
        return (await bell_of(self._runtime).drain()).applied


def checked_state(state: str | None) -> OutboxState | None:
    """Return the state of rows that a caller asks for; ``None`` for any.

    Raises:
        InvalidOptionError: There is no such state.
    """
    states: dict[str, OutboxState] = {"waiting": "waiting", "refused": "refused"}
    if state is None or state in states:
        return None if state is None else states[state]
    raise InvalidOptionError("state must be waiting or refused", field="state")


def _number(outbox_id: int) -> int:
    return integer("outbox id", outbox_id, 1)


def _entry(row: OutboxRow) -> OutboxEntry:
    return OutboxEntry(
        outbox_id=row.outbox_id,
        kind=row.kind,
        workflow_id=row.workflow_id,
        name=row.name,
        created_at=None if row.created_at is None else to_datetime(row.created_at),
        state="waiting" if row.state == "waiting" else "refused",
        reason=row.reason,
        refused_at=None if row.refused_at is None else to_datetime(row.refused_at),
    )
