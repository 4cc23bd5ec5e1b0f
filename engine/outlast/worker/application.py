"""Outlast in a web application: a client and a worker that live as long as the application does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from outlast.client.client import Client
from outlast.worker.worker import Worker
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.options.limits import StructuralLimits

if TYPE_CHECKING:
    from outlast.client.interceptors import Interceptor
    from outlast.runtime.runtime import Runtime
    from outlast_store.database.urls import DatabaseUrl

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
        InvalidUrlError: The URL cannot be used.
        InvalidOptionError: An option is not valid, or two definitions share a name.
        StoreError: When the application starts: the database cannot be used.
    """
    # The first lifespan loads what a connection needs; a process that only imports the function does without it.
    from outlast.client.interceptors import checked_interceptors
    from outlast_store.database.urls import DatabaseUrl

    at = DatabaseUrl.parse(url)
    around_calls = checked_interceptors(interceptors)
    # An application may start more than once, and an iterator gives what it has only once.
    code = {"workflows": _kept(workflows), "activities": _kept(activities)}
    options = code | {name: _kept(value) for name, value in worker.items()}
    has_worker = bool(worker) or any(code.values())
    apart = not at.memory if own_thread is None else own_thread
    if has_worker:
        # It is made to check its options, and never started.
        runtime = cast("Runtime", _Unopened(at, Environment()))
        unopened = Client(
            url, runtime, converter or DataConverter(), limits or StructuralLimits(), around_calls
        )
        Worker(unopened, own_thread=apart, **options)

    @asynccontextmanager
    async def around(app: object) -> AsyncGenerator[dict[str, Client]]:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                Client.connect(url, converter=converter, limits=limits, interceptors=around_calls)
            )
            if has_worker:
                await stack.enter_async_context(Worker(client, own_thread=apart, **options))
            yield {"outlast": client}

    return around


@dataclass(frozen=True, slots=True)
class _Unopened:
    """What a worker asks of its client's runtime when it is made, without a database behind it."""

    url: DatabaseUrl
    environment: Environment


def _kept(value: Any) -> Any:
    return [*value] if isinstance(value, Iterator) else value
