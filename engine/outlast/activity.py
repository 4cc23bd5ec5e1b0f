"""The names that activity code uses: ``from outlast import activity``."""

from typing import TYPE_CHECKING, Any

from outlast_activities.context import (
    ActivityInfo,
    ActivityStream,
    Cancelled,
    Deferred,
    async_connection,
    connection,
    defer,
    heartbeat,
    in_activity,
    info,
    is_cancelled,
    logger,
    stream,
)
from outlast_activities.definitions import ActivityDefinition, defn
from outlast_activities.stop_reason import StopReason
from outlast_workflow.primitives.lazy_names import names_of_module

__all__ = [
    "ActivityDefinition",
    "ActivityInfo",
    "ActivityStream",
    "Cancelled",
    "Deferred",
    "StopReason",
    "async_connection",
    "client",
    "connection",
    "defer",
    "defn",
    "heartbeat",
    "in_activity",
    "info",
    "is_cancelled",
    "logger",
    "stream",
]


def client() -> Any:
    """Return the worker's client: an :class:`outlast.Client` in an ``async def``, a blocking one in a plain function.

    It lists, starts, signals, awaits and reads as any client does. What it starts is a workflow of its own, no child.
    An activity may be repeated, so give ids and request ids that repeat, too: made of ``activity.info()``, for example.
    Closing this client does nothing.

    Raises:
        NotInActivityError: The caller is not an activity, or the activity runs in a process of its own.
    """
    # A process that only declares activities never loads the engine.
    from outlast.worker.lent_client import lent_client

    return lent_client()


if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
