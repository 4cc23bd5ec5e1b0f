"""The workflow types, task queues and queues that forms suggest."""

from __future__ import annotations

from outlast_dashboard.web import Web
from outlast_store.reads.queues import queue_names


async def known_names(web: Web) -> dict[str, list[str]]:
    """Return the names that live workers serve, and those of the queues, as templates use them."""
    alive = [worker for worker in await web.client.workers() if worker.alive]
    return {
        "known_types": sorted({name for worker in alive for name in worker.workflows}),
        "known_task_queues": sorted({name for worker in alive for name in worker.task_queues}),
        "known_queues": await web.client.runtime.read(queue_names),
    }
