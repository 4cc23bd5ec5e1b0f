"""Updates on their way: from a client to a run that is open, from its owner back to whoever waits for the answer.

An update is a row of ``workflow_requests`` before it is anything else: it wakes the run and bumps its ``inbox``, and
has no event. The owner sees that the inbox is not what it has seen, reads what waits and asks the code. What the code
accepts becomes ``UpdateAccepted``, in the change of the workflow task that begins to handle it; what it rejects leaves
nothing but the answer in the row. The key of the row makes an update with one id happen once in a whole chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outlast_runs.run_change import RunChange
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.requests import OPEN
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.data.headers import stored, taken_apart
from outlast_workflow.history.events import UpdateAccepted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.handler_tasks import Considered


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """What a client asks."""

    update_id: str
    name: str
    input: Payload
    limits: StructuralLimits
    """They say how many updates may be open."""
    headers: dict[str, Any] | None = None

    @property
    def acceptance(self) -> UpdateAccepted:
        """The event that it becomes if it is accepted."""
        return UpdateAccepted(self.update_id, self.name, self.input, self.headers)


def known_update(batch: Batch, run: RunRow, update: UpdateRequest) -> RequestRow | None:
    """The update of the same id that the chain was asked before."""
    return requests.find(batch, (run.first_run_id, "update", update.update_id))


def ask(batch: Batch, run: RunRow, update: UpdateRequest) -> RequestRow:
    """Leave an update for an open run and wake it; returns its row, or the one of the same id that was there.

    Raises:
        StructuralLimitError: Too many updates are open: this one is refused alone.
    """
    known = known_update(batch, run, update)
    if known is not None:
        return known
    limits = update.limits
    most = limits.open_updates
    if most and (run.inbox + 1) * 5 >= most * 4:  # the inbox counts all that there ever were
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
    if not requests.add(batch, row):  # by another process, whose commit this one waited for
        taken = known_update(batch, run, update)
        assert taken is not None
        return taken
    run.inbox += 1
    requests.end_start_delay(run)
    run.wake(batch.now)
    return row


def acceptance(row: RequestRow) -> UpdateAccepted:
    """The event that an update becomes if it is accepted."""
    input, headers = taken_apart(row.input)
    return UpdateAccepted(row.request_id, row.name, input, headers)


def answer_updates(batch: Batch, run: RunRow, considered: Considered) -> None:
    """Write what became of the updates that a workflow task was given: before its record, which counts them."""
    for update_id, failure in considered.rejected:
        requests.rejected(batch, (run.first_run_id, "update", update_id), failure)
    for event in considered.accepted:
        seq = batch.append(run, event)
        if not requests.accepted(batch, (run.first_run_id, "update", event.update_id), seq):
            batch.require_locks()  # the owner that another one replaced; under the lock its fence will be refused
            raise AssertionError(f"update {event.update_id} was accepted twice")


class SendUpdate(RunChange):
    """Leave an update for a run, once for each id."""

    def __init__(self, workflow_id: str, run_id: str, update: UpdateRequest) -> None:
        super().__init__(workflow_id, run_id)
        self.update = update
        self.weight = 512 + len(update.input.json)

    def apply(self, batch: Batch) -> RequestRow | Ended:
        """Return the update's row, or how the run ended where it can take no update."""
        known = batch.run(self.run_id)
        row = known_update(batch, known, self.update) if known is not None else None
        if row is not None:
            return row
        run = self.open_run(batch)
        return run if isinstance(run, Ended) else ask(batch, run, self.update)
