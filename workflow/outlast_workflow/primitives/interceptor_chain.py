"""The chain of interceptors around a verb: the one seam at which a client, a run and an activity call them.

Each owner of a verb asks ``if chain:`` first, so a program without interceptors pays for one empty check and no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

C = TypeVar("C")
R = TypeVar("R")


class Chain(dict[str, tuple[Callable[..., Any], ...]]):
    """The methods of interceptors by verb, the outermost first; empty where none overrides anything.

    Args:
        interceptors: The interceptors, the outermost first.
        base: The class whose public methods are the verbs. An interceptor that leaves a method as it is there does not
            take part in that verb.
    """

    __slots__ = ()

    def __init__(self, interceptors: Iterable[object] = (), base: type[Any] = object) -> None:
        super().__init__()
        given = tuple(interceptors)
        for verb in [name for name in vars(base) if not name.startswith("_")]:
            plain = (None, getattr(base, verb))
            methods = tuple(
                getattr(one, verb) for one in given if getattr(type(one), verb, None) not in plain
            )
            if methods:
                self[verb] = methods

    def call(self, verb: str, call: C, innermost: Callable[[C], R]) -> R:
        """Pass a call through the interceptors of a verb.

        Args:
            verb: The name of the method that interceptors override.
            call: What they get, and may change.
            innermost: What the last of them calls as ``next``.

        Returns:
            What the outermost interceptor returns; what ``innermost`` returns where there is none.
        """
        for method in reversed(self.get(verb, ())):
            innermost = partial(_link, method, innermost)
        return innermost(call)


def _link(method: Callable[[C, Callable[[C], R]], R], next: Callable[[C], R], call: C) -> R:
    return method(call, next)


NO_INTERCEPTORS: Final = Chain()
