"""Outlast in a web application: a client and a worker that live as long as the application does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from outlast.client.client import Client
from outlast.worker.worker import Worker

if TYPE_CHECKING:
    from outlast.client.interceptors import Interceptor
    from outlast_workflow.data.converter import DataConverter
    from outlast_workflow.options.limits import StructuralLimits

Lifespan = Callable[[Any], AbstractAsyncContextManager[dict[str, Client]]]
"""What ASGI frameworks take as the lifespan of an application: it is called with the application."""


def lifespan(
    url: str,
    *,
    workflows: Iterable[Any] = (),
    activities: Iterable[Any] = (),
    own_thread: bool | None = None,
    converter: DataConverter | None = None,
    interceptors: Sequence[Interceptor] = (),
    limits: StructuralLimits | None = None,
    **worker: Any,
) -> Lifespan:
    """Return the lifespan of a web application with a client and, where it has anything to run, a worker.

    ``FastAPI(lifespan=outlast.lifespan("sqlite:///shop.db", workflows=[Order]))``. Requests find the client as
    ``request.state.outlast``. When the server stops, the worker takes nothing new, gives running activities their time
    to end, and leaves its runs to others; then the client closes.

    Args:
        url: The database's URL.
        workflows: What the worker runs; without workflows and activities there is no worker.
        activities: Likewise.
        own_thread: Whether the worker has its own thread, so that requests do not wait for it. By default yes, but for
            a database in memory.
        converter: Converts values; see :meth:`Client.connect`.
        interceptors: Those of the client.
        limits: The structural limits, of both.
        **worker: Further options of the :class:`~outlast.Worker`.

    Raises:
        OutlastError: When the application starts: the database cannot be used, or an option is not valid.
    """
    runs = [*workflows]
    acts = [*activities]

    @asynccontextmanager
    async def around(app: object) -> AsyncGenerator[dict[str, Client]]:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                Client.connect(url, converter=converter, interceptors=interceptors, limits=limits)
            )
            if runs or acts or worker:
                apart = not client.runtime.url.memory if own_thread is None else own_thread
                options: dict[str, Any] = {**worker} if limits is None else {"limits": limits, **worker}
                await stack.enter_async_context(
                    Worker(client, workflows=runs, activities=acts, own_thread=apart, **options)
                )
            yield {"outlast": client}

    return around
