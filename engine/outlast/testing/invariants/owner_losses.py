"""What must hold of the owners that a run has lost: they are counted, and too many of them end it, not fewer."""

from __future__ import annotations

from collections.abc import Iterator

from outlast_store.schema.rows import RunRow
from outlast_workflow.history import events
from outlast_workflow.history.events import Event


def check_owner_losses(run: RunRow, last: Event) -> Iterator[str]:
    """Check what a run's row says of the owners that it has lost, and its end by them.

    Args:
        run: The run.
        last: The last event of its history.
    """
    if run.owner_losses > run.fence:
        yield f"owner_losses is {run.owner_losses}, and only {run.fence} owners can have lost it"
    if run.closed_at is None:
        if run.owner_losses >= 3 and run.attention is None:
            yield f"has lost {run.owner_losses} owners in a row, and needs no attention"
        return
    if not isinstance(last, events.WorkflowFailed) or last.by != "owner_losses":
        return
    lost, limit = last.failure.get("owner_losses"), last.failure.get("limit", 0)
    if last.failure.get("type") != "OwnersDiedError" or lost != run.owner_losses:
        yield f"ended because it had lost {lost} owners, and owner_losses is {run.owner_losses}"
    if not 0 < limit < run.owner_losses:
        yield f"ended with owner_losses={run.owner_losses} and may lose {limit}"
    if last.next_run_id is not None:
        yield f"took its owners down and was retried as run {last.next_run_id}"
