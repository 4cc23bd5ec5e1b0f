"""Fixes for two places where ``asyncio`` iterates sets in the order of memory addresses.

* ``as_completed`` over coroutines builds a set of them and creates their tasks in its order. On a workflow's loop the
  tasks are created first, in the order given. The rest is asyncio's own code.
* ``gather`` returns a future of a private class, hashed by its address. On a workflow's loop it gets the run's next
  hash when it is first hashed.

Other loops see no difference. ``as_completed`` is patched in place, by giving the function another body, because
``from asyncio import as_completed`` may have run before this module was imported.
"""

from __future__ import annotations

import asyncio
from asyncio import events, tasks
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, cast

from outlast_workflow.loop.loop import DeterministicLoop

_MARK = "_outlast_as_completed"
_outlast_as_completed: Any = None  # for type checkers: the body below looks it up in asyncio.tasks


def _twin(function: FunctionType) -> FunctionType:
    """Return a copy of a function that keeps its present code."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _mend_as_completed() -> None:
    function = cast(FunctionType, tasks.as_completed)
    original = cast(Callable[..., Any], _twin(function))

    def in_order(fs: Any, *, timeout: float | None = None) -> Any:
        loop = events._get_running_loop()
        if isinstance(loop, DeterministicLoop) and not asyncio.isfuture(fs) and not asyncio.iscoroutine(fs):
            fs = [
                tasks.ensure_future(one, loop=loop) for one in dict.fromkeys(cast("list[Awaitable[Any]]", fs))
            ]
        return original(fs, timeout=timeout)

    def as_completed(fs: Any, *, timeout: float | None = None) -> Any:
        return _outlast_as_completed(fs, timeout=timeout)

    setattr(tasks, _MARK, in_order)
    function.__code__ = as_completed.__code__


def _mend_gather() -> None:
    def __hash__(self: Any) -> int:
        value: int | None = getattr(self, "_outlast_hash", None)
        if value is None:
            loop = self.get_loop()
            value = loop.hashes.next() if isinstance(loop, DeterministicLoop) else object.__hash__(self)
            self._outlast_hash = value
        return value

    private: Any = tasks
    private._GatheringFuture.__hash__ = __hash__


def mend() -> None:
    """Apply both fixes, once per process."""
    if not hasattr(tasks, _MARK):
        _mend_as_completed()
        _mend_gather()
