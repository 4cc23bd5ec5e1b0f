"""The names that activity code uses: ``from outlast import activity``."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, overload

from outlast_activities.context import (
    ActivityInfo,
    ActivityStream,
    Cancelled,
    Deferred,
    async_connection,
    connection,
    current,
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

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    from outlast_activities.effects import AsyncEffect, Effect

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
    "once",
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


@overload
def once(connection: Connection | Session, name: str = "") -> Effect: ...


@overload
def once(connection: AsyncConnection | AsyncSession, name: str = "") -> Coroutine[Any, Any, AsyncEffect]: ...


def once(connection: Any, name: str = "") -> Any:
    """Note in your own transaction, in another database, that this activity has had its effect there.

    ::

        with engine.begin() as connection:
            effect = activity.once(connection)
            if effect.done:
                return effect.result
            connection.execute(…)
            return effect.keep(result)

    The note is committed with the effect, so an attempt that follows does not repeat it. The database needs the table
    that ``outlast effects create`` makes. With an asynchronous connection or session, await this and ``keep``.

    Args:
        connection: Your connection or session, in a transaction that you commit.
        name: Which effect, where an activity has several in one database; 100 characters at most.

    Raises:
        InvalidOptionError: The name is too long, or another effect of this transaction has it.
        EffectsTableMissingError: The database has no table of effects.
        NotInActivityError: The caller is not an activity.
    """
    # A process that only declares activities never loads SQLAlchemy.
    from outlast_activities.effects import once as once_now
    from outlast_activities.effects import once_async

    running = current("once")
    note = once_async if hasattr(connection, "run_sync") else once_now
    return note(running, connection, name)


if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
