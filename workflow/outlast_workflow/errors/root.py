"""The root of all errors: facts as attributes, which travel through history and between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from outlast_workflow.primitives.enums import FailureCategory

REGISTRY: dict[str, type[OutlastError]] = {}
"""The engine's own error classes by name: what a recorded failure can come back as."""


class OutlastError(Exception):
    """The root of all errors of this library."""

    category: FailureCategory = FailureCategory.APPLICATION
    """What kind of failure it is when it ends an activity or a run."""
    facts: ClassVar[tuple[str, ...]] = ()
    """The attributes that travel with the error."""
    stack: str | None = None
    """Where it was raised, if it was read from history; empty if that was not recorded."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0].startswith("outlast"):
            REGISTRY.setdefault(cls.__name__, cls)

    @property
    def message(self) -> str:
        """The message, without the class name."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return self.message

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> OutlastError:
        """The error of recorded facts, with the message that was recorded."""
        return _restored(cls, (message,), facts)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (type(self), self.args, dict(self.__dict__))


def _restored(cls: type[OutlastError], args: tuple[Any, ...], state: dict[str, Any]) -> OutlastError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
