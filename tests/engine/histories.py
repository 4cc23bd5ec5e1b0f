"""What tests ask of a history again and again."""

from __future__ import annotations

from outlast.client.client import Client


async def types_of(client: Client, workflow_id: str, run_id: str | None = None) -> list[str]:
    """The types of a run's events, in order; by default of the newest run's."""
    return [event.type async for event in client.handle(workflow_id, run_id=run_id).history()]
