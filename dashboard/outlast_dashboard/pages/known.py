"""The workflow types and task queues that forms suggest."""

from __future__ import annotations

from outlast_dashboard.web import Web


async def known_names(web: Web) -> dict[str, list[str]]:
    """Return the names that live workers serve, as templates use them."""
    alive = [worker for worker in await web.client.workers() if worker.alive]
    return {
        "known_types": sorted({name for worker in alive for name in worker.workflows}),
        "known_queues": sorted({name for worker in alive for name in worker.task_queues}),
    }
