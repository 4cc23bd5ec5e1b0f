"""How the deliveries of a channel are named."""

from __future__ import annotations

from typing import Final

from outlast_workflow.options.alerts import DELIVERY

_QUEUE: Final = "outlast.alerts."


def task_queue_of(channel: str) -> str:
    """Return the task queue on which a channel's deliveries wait."""
    return _QUEUE + channel


def channel_of(task_queue: str) -> str | None:
    """Return the channel whose deliveries wait on a task queue; ``None`` if it is another task queue."""
    return task_queue.removeprefix(_QUEUE) if task_queue.startswith(_QUEUE) else None


def delivery_id(channel: str, unique: str) -> str:
    """Return the workflow id of a delivery.

    Args:
        channel: The channel.
        unique: What no other delivery has.
    """
    return f"{DELIVERY}/{channel}/{unique}"
