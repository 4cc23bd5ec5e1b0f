"""The client that a worker lends to its activities."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.blocking.thread import Caller, refuse_on_a_loop
from outlast.client.client import Client
from outlast_activities.context import CURRENT
from outlast_workflow.errors import JournalClosedError
from outlast_workflow.errors.context import NotInActivityError

if TYPE_CHECKING:
    from outlast.blocking.client import Client as BlockingClient

T = TypeVar("T")


class LentClient(Client):
    """A worker's client in the hands of an activity, which cannot close it."""

    async def close(self) -> None:
        """Leave the connection open: the worker needs it."""


LENT: ContextVar[tuple[LentClient, asyncio.AbstractEventLoop] | None] = ContextVar(
    "outlast_lent_client", default=None
)
"""The client that the activities of the current context may use, and the loop that it lives on."""


class LoopCaller(Caller):
    """Access to the worker's loop from the thread of an activity."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def forked(self) -> bool:
        """Never: an activity that runs in another process has no client."""
        return False

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the worker's loop and wait for it."""
        refuse_on_a_loop()
        if self._loop.is_closed():
            raise JournalClosedError
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def leave(self) -> None:
        """Do nothing: the loop is the worker's."""


def lend(client: Client) -> tuple[LentClient, asyncio.AbstractEventLoop]:
    """Return a client for activities that shares the connection of a worker's client."""
    lent = LentClient(client.url, client.runtime, client.converter, client.limits, client.interceptors)
    return lent, asyncio.get_running_loop()


def lent_client() -> Client | BlockingClient:
    """Return the client of the activity that is calling: a blocking one if it is a plain function.

    Raises:
        NotInActivityError: The caller is not an activity, or the activity runs in a process of its own.
    """
    running = CURRENT.get()
    lent = LENT.get()
    if running is None:
        raise NotInActivityError(
            "activity.client() was called outside an activity: use the client that your program connected, or call it "
            "from an activity's code, and in threads of your own within a copy of its context "
            "(contextvars.copy_context().run)"
        )
    if lent is None:
        raise NotInActivityError(
            f"activity {running.definition.name} has no client here: activities in processes of their own connect one "
            'themselves, or run in threads (executor="thread"); in a test, give one to ActivityEnvironment(client=…)'
        )
    client, loop = lent
    if running.definition.is_async:
        return client
    # A worker without such activities does without it.
    from outlast.blocking.client import Client as BlockingClient

    return BlockingClient(client, LoopCaller(loop))
