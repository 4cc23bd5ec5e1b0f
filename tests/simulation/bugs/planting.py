"""How a bug is planted: one function of the engine is made wrong while it lasts."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

Plant = Callable[[ExitStack], None]
BUGS: dict[str, Plant] = {}


def bug(plant: Plant) -> Plant:
    """Register a planted bug by its name."""
    BUGS[plant.__name__] = plant
    return plant


@contextmanager
def planted(name: str) -> Generator[None]:
    """While this lasts the engine has a bug."""
    with ExitStack() as stack:
        BUGS[name](stack)
        yield


def patch(stack: ExitStack, target: Any, name: str, wrong: Any) -> None:
    """Put something wrong in the place of a function until the stack is closed."""
    stack.enter_context(mock.patch.object(target, name, wrong))
