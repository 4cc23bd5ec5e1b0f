"""Updates: how they reach an open run, and how its owner's answers reach the callers.

An update is first a row of ``workflow_requests``. It wakes the run and bumps its ``inbox``, but has no event. The owner
notices that the inbox has changed, reads what waits, and calls the validators. An update that is accepted becomes
``UpdateAccepted``, in the change of the workflow task that starts its handler; one that is rejected leaves only the
answer in its row. The key of the row makes an update of one id happen once in a whole chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outlast_runs.run_change import RunChange
from outlast_store.journal.batch import Batch
from outlast_store.reads.requests import input_of
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.requests import OPEN
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.data.headers import stored
from outlast_workflow.history.events import UpdateAccepted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.handler_tasks import Considered


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """An update as a client sends it.

    Attributes:
        update_id: Its id.
        name: Its name.
        input: Its arguments.
        limits: How many updates may be open.
        headers: Its headers.
    """

    update_id: str
    name: str
    input: Payload
    limits: StructuralLimits
    headers: dict[str, Any] | None = None

    @property
    def acceptance(self) -> UpdateAccepted:
        """The event that it becomes if it is accepted."""
        return UpdateAccepted(self.update_id, self.name, self.input, self.headers)


def known_update(batch: Batch, run: RunRow, update: UpdateRequest) -> RequestRow | None:
    """Return the update of the same id that the chain got before, if any."""
    return requests.find(batch, (run.first_run_id, "update", update.update_id))


def add_update(batch: Batch, run: RunRow, update: UpdateRequest) -> RequestRow:
    """Add an update to an open run and wake it; return its row, or the row of the same id that was there already.

    Args:
        batch: The batch.
        run: The run, open.
        update: The update.

    Raises:
        StructuralLimitError: Too many updates are open already; only this one is refused.
    """
    limits = update.limits
    # The inbox counts all updates that there ever were, so a smaller one cannot have that many open.
    if run.inbox + 1 >= limits.near["open_updates"]:
        known = known_update(batch, run, update)
        if known is not None:
            return known
        limits.check_next(
            "open_updates", requests.count_open_updates(batch, run.run_id) + 1, whose=run.workflow_id
        )
    row = RequestRow(
        first_run_id=run.first_run_id,
        kind="update",
        request_id=update.update_id,
        run_id=run.run_id,
        name=update.name,
        input=stored(update.input, update.headers),
        state=OPEN,
        answer=None,
        answer_seq=None,
        created_at=batch.now,
        expires_at=None,
    )
    # The key says whether it is there, even if another process adds it now: then this waits for its commit.
    if not requests.add(batch, row):
        known = known_update(batch, run, update)
        assert known is not None
        return known
    run.inbox += 1
    batch.note_update(run.run_id, update.acceptance)
    requests.end_start_delay(batch, run)
    run.wake(batch.now)
    return row


def acceptance(row: RequestRow) -> UpdateAccepted:
    """Return the event that an update becomes if it is accepted.

    Raises:
        DamagedHistoryError: The update cannot be read.
    """
    return UpdateAccepted(row.request_id, row.name, *input_of(row))


def answer_updates(batch: Batch, run: RunRow, considered: Considered) -> None:
    """Write the outcomes of the updates that a workflow task was given.

    This comes before the record of the workflow task, which counts them.

    Args:
        batch: The batch.
        run: The run.
        considered: The updates that were accepted and rejected.
    """
    for update_id, failure in considered.rejected:
        requests.rejected(batch, (run.first_run_id, "update", update_id), failure)
    for event in considered.accepted:
        seq = batch.append(run, event)
        if not requests.accepted(batch, (run.first_run_id, "update", event.update_id), seq):
            # Another owner has replaced this one: with locked rows its fence will be refused.
            batch.require_locks()
            raise AssertionError(f"update {event.update_id} was accepted twice")


class SendUpdate(RunChange):
    """Send an update to a run, once for each id."""

    def __init__(self, workflow_id: str, run_id: str, update: UpdateRequest) -> None:
        super().__init__(workflow_id, run_id)
        self.update = update
        self.weight = 512 + len(update.input.json)

    def apply(self, batch: Batch) -> RequestRow | Ended:
        """Return the update's row, or how the run ended where it can take no update."""
        known = batch.run(self.run_id)
        if known is not None and (not known.is_open or deadline_passed(known, batch.now) is not None):
            # It takes no new update, but it may have taken this one before.
            row = known_update(batch, known, self.update)
            if row is not None:
                return row
        run = self.open_run(batch)
        return run if isinstance(run, Ended) else add_update(batch, run, self.update)
