"""The root of all errors. Its attributes travel through history and between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from outlast_workflow.primitives.enums import FailureCategory

REGISTRY: dict[str, type[OutlastError]] = {}
"""The engine's own error classes by name, to which recorded failures are restored."""


class OutlastError(Exception):
    """The root of all errors of Outlast."""

    category: FailureCategory = FailureCategory.APPLICATION
    """The kind of failure when the error ends an activity or a run."""
    facts: ClassVar[tuple[str, ...]] = ()
    """The names of the attributes that travel with the error."""
    stack: str | None = None
    """Where the error was raised, if it was read from history; empty if that was not recorded."""

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
        """Return the error with its recorded message and attributes."""
        return _restored(cls, (message,), facts)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (type(self), self.args, dict(self.__dict__))


def _restored(cls: type[OutlastError], args: tuple[Any, ...], state: dict[str, Any]) -> OutlastError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
