"""Plain code in a coroutine: how a synchronous workflow blocks without a thread.

::

    task ── coroutine of the run ──▶ switch ──▶ greenlet: the user's plain function
                   ▲                                │ blocking.sleep(5) makes the same future as workflow.sleep(5)
                   └── awaits that future ◀── switch ┘ … and its result, or what it raises, switches back

The coroutine is awaited in place of the function, so plain code is treated like any task: results arrive in order,
cancellation and eviction are raised where it blocks, and its context is the task's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from inspect import isawaitable
from types import FrameType
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class PlainCode(greenlet):
    """The greenlet of a plain function of a run."""


async def in_greenlet(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a plain function that may block, which suspends this coroutine.

    If the function returns a coroutine after all (a decorator may hide that), the coroutine is awaited.
    """
    plain = PlainCode(fn)
    plain.gr_context = getcurrent().gr_context
    step = plain.switch(*args)
    while not plain.dead:
        failure: BaseException | None = None
        value = None
        try:
            value = await step
        except BaseException as error:
            failure = error
        plain.parent = getcurrent()
        if failure is None:
            step = plain.switch(value)
        else:
            try:
                step = plain.throw(failure)
            finally:
                failure = None  # whose traceback holds this frame
    return await step if isawaitable(step) else step


def wait(awaitable: Awaitable[T]) -> T:
    """Block the calling plain code until an awaitable has a result, and return it."""
    parent = getcurrent().parent
    assert parent is not None, "the main greenlet does not wait"
    result: T = parent.switch(awaitable)
    return result


def in_plain_code() -> bool:
    """Return whether the caller may :func:`wait`."""
    return type(getcurrent()) is PlainCode


def frames_of(frame: FrameType) -> Iterator[FrameType]:
    """Return the frames of the plain code that a suspended :func:`in_greenlet` waits for, outermost first."""
    plain = frame.f_locals.get("plain")
    frames: list[FrameType] = []
    inner: FrameType | None = plain.gr_frame if plain is not None and not plain.dead else None
    while inner is not None:
        frames.append(inner)
        inner = inner.f_back
    yield from reversed(frames)
