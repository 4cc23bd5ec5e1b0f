"""What must hold of waking: an open run that has something to do is awake, since no worker claims it otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.requests import OPEN
from outlast_workflow.history import events
from outlast_workflow.history.events import Event


def check_awake(run: RunRow, history: Sequence[Event], requests: Sequence[RequestRow]) -> Iterator[str]:
    """Check that an open run whose ``wake_at`` is null has no unapplied event and no update to consider.

    Args:
        run: The run.
        history: Its events, in order.
        requests: Its requests.
    """
    if run.closed_at is not None or run.wake_at is not None or run.status == "queued":
        return
    news = unseen(history)
    if news:
        named = ", ".join(f"{history[seq - 1].type} (event {seq})" for seq in news[:5])
        yield f"is asleep, and its code has not seen {named}"
    for request in requests:
        if request.kind == "update" and request.state == OPEN and request.answer_seq is None:
            yield f"is asleep, and update {request.request_id} waits to be considered"


def unseen(history: Sequence[Event]) -> list[int]:
    """Return the seqs of inbound events that no workflow task has applied, without starts of children."""
    news: list[int] = []
    for seq, event in enumerate(history, 1):
        if isinstance(event, events.WorkflowTaskCompleted):
            news = [one for one in news if one > event.through]
            if event.own:
                del news[-event.own :]
        elif (
            event.inbound
            and getattr(event, "by", None) is None
            and not isinstance(event, events.ChildWorkflowStarted)
        ):
            news.append(seq)
    return news
