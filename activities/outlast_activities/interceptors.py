"""Interceptors of activities: what may be put around an attempt and its heartbeats.

Heartbeats pass through the chain where a worker records them. A worker composes the chain around its activities'
functions when it is made, so the runner calls one function either way.

An attempt's interceptors run where its function does. A plain ``def`` runs on a thread without an event loop, so there
:meth:`ActivityInterceptor.run_activity` is ``async`` but can await nothing except ``next``. Activities that run in
another process are not intercepted, because neither interceptors nor what they hold could be sent there; their
heartbeats are, in the worker's process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from outlast_activities.context import CURRENT, ActivityInfo
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeat
from outlast_workflow.errors.context import NotInActivityError
from outlast_workflow.primitives.interceptor_chain import Chain

__all__ = ["ActivityInterceptor", "Heartbeat", "RunActivity", "intercepted"]


@dataclass(slots=True)
class RunActivity:
    """An attempt runs; ``headers`` are those of the call."""

    info: ActivityInfo
    args: tuple[Any, ...]
    headers: dict[str, str] = field(default_factory=dict)


class ActivityInterceptor:
    """The part of an interceptor that stands around activities: override the methods that you need."""

    async def run_activity(
        self, call: RunActivity, next: Callable[[RunActivity], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Around one attempt of an activity, where it runs."""
        return await next(call)

    def heartbeat(self, call: Heartbeat, next: Callable[[Heartbeat], None]) -> None:
        """Around a heartbeat, on the thread that sends it."""
        next(call)


Around = Callable[[RunActivity], Coroutine[Any, Any, Any]]


def intercepted(
    definition: ActivityDefinition[..., Any], interceptors: Iterable[ActivityInterceptor]
) -> ActivityDefinition[..., Any]:
    """Return an activity with interceptors around it; the same one where none of them overrides ``run_activity``.

    Args:
        definition: The activity. One that runs in another process is returned as it is.
        interceptors: The interceptors, the outermost first.
    """
    chain = Chain(interceptors, ActivityInterceptor)
    if "run_activity" not in chain or definition.executor == "process":
        return definition
    fn, is_async = definition.fn, definition.is_async

    async def innermost(call: RunActivity) -> Any:
        return await fn(*call.args) if is_async else fn(*call.args)

    def around(call: RunActivity) -> Coroutine[Any, Any, Any]:
        return chain.call("run_activity", call, innermost)

    attempt = _async(fn, around) if is_async else _plain(fn, around)
    return definition._variant(attempt, definition.options, is_method=False)


def _async(fn: Callable[..., Any], around: Around) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def attempt(*args: Any) -> Any:
        return await around(_call(args))

    return attempt


def _plain(fn: Callable[..., Any], around: Around) -> Callable[..., Any]:
    @functools.wraps(fn)
    def attempt(*args: Any) -> Any:
        coroutine = around(_call(args))
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        finally:
            coroutine.close()
        raise RuntimeError(
            f"an interceptor awaited something around the plain function {fn.__qualname__}: there it can await "
            "nothing but next(call), because the function's thread has no event loop"
        )

    return attempt


def _call(args: tuple[Any, ...]) -> RunActivity:
    running = CURRENT.get()
    if running is None:
        raise NotInActivityError("an attempt runs where its runner has put it")
    return RunActivity(running.info, args, dict(running.task.headers or ()))
