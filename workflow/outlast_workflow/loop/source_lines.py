"""Lines of workflow code: the one that requested a command, the one at which a coroutine waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from outlast_workflow.loop.greenlets import frames_of, in_greenlet

ENGINE_PACKAGES = frozenset(
    {
        "outlast",
        "outlast_activities",
        "outlast_runs",
        "outlast_schedules",
        "outlast_store",
        "outlast_watchdog",
        "outlast_workflow",
    }
)
"""The packages whose frames are never the user's code."""

_NOT_THE_USERS = ENGINE_PACKAGES | {"asyncio", "contextlib"}
_LOOP = "outlast_workflow.loop.loop"

Place = tuple[CodeType, int] | None
"""A code object and an instruction in it. Its line number is looked up only when needed."""


@lru_cache(4096)
def _is_the_users(module: str) -> bool:
    return module.partition(".")[0] not in _NOT_THE_USERS


def calling_place() -> Place:
    """Return the innermost line of workflow code on the stack, if there is one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if _is_the_users(module):
            return frame.f_code, frame.f_lasti
        if module == _LOOP and frame.f_code.co_name == "run_ready":
            return None
        frame = frame.f_back
    return None


def line_of(place: Place) -> str | None:
    """Return a place as ``file:line``."""
    if place is None:
        return None
    code, instruction = place
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def waiting_line(coroutine: Any) -> str | None:
    """Return the innermost line of workflow code at which a suspended coroutine waits, as ``file:line``."""
    found = None
    for frame in _suspended_frames(coroutine):
        if _is_the_users(frame.f_globals.get("__name__", "")):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return found


def waiting_stack(coroutine: Any) -> list[str]:
    """Return the lines of workflow code at which a suspended coroutine waits, outermost first."""
    return [
        f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        for frame in _suspended_frames(coroutine)
        if _is_the_users(frame.f_globals.get("__name__", ""))
    ]


def _suspended_frames(awaitable: Any) -> Iterator[Any]:
    while awaitable is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(awaitable, f"{prefix}_frame", None)
            if frame is not None:
                yield frame
                if frame.f_code is in_greenlet.__code__:
                    yield from frames_of(frame)
                awaitable = getattr(awaitable, "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await")
                break
        else:
            return
