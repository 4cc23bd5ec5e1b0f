"""The schedule of a document as pages show it: one of the engine's, or a workflow that waits for events or ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from outlast import Client
from outlast_serverless.schedules.scheduler import workflow_id_of
from outlast_serverless.schedules.specs import schedule_id_of
from outlast_workflow.errors import ScheduleNotFoundError, WorkflowNotFoundError


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    """A schedule of a document.

    Attributes:
        path: Its page.
        when: When it starts the document, in words.
        paused: Whether it is paused.
        next_at: When it starts the next run, if that is known.
    """

    path: str
    when: str
    paused: bool
    next_at: datetime | None


async def schedule_of(client: Client, namespace: str, name: str) -> ShownSchedule | None:
    """Return how a document is scheduled; ``None`` if it is not.

    Args:
        client: A client of the database.
        namespace: Its namespace.
        name: Its name.
    """
    id = schedule_id_of(namespace, name)
    try:
        found = await client.schedules.handle(id).describe(next=1)
    except ScheduleNotFoundError:
        return await _by_workflow(client, namespace, name)
    next_at = found.next_slots[0] if found.next_slots else None
    return ShownSchedule(f"/schedules/{quote(id, safe='')}", found.when, found.paused, next_at)


async def _by_workflow(client: Client, namespace: str, name: str) -> ShownSchedule | None:
    id = workflow_id_of(namespace, name)
    try:
        found = await client.describe(id)
    except WorkflowNotFoundError:
        return None
    if found.run.closed_at is not None:
        return None
    ends = any((one.summary or "").endswith("/schedule/after") for one in found.pending_timers)
    ends = ends or any((one.summary or "").endswith("/schedule/after") for one in found.pending_children)
    next_at = found.pending_timers[0].fire_at if found.pending_timers else None
    when = "after the end of the run before" if ends else "by events"
    path = f"/workflows/{quote(id, safe='')}"
    return ShownSchedule(path, when, paused=False, next_at=next_at)
