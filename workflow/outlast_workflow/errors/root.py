"""The root of all errors. Its attributes travel through history and between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from outlast_workflow.primitives.enums import FailureCategory

REGISTRY: dict[str, type[OutlastError]] = {}
"""The engine's own error classes by name, to which recorded failures are restored."""


PUBLIC_MODULE = "outlast.errors"


class OutlastError(Exception):
    """The root of all errors of Outlast."""

    __module__ = PUBLIC_MODULE

    category: FailureCategory = FailureCategory.APPLICATION
    """The kind of failure when the error ends an activity or a run."""
    facts: ClassVar[tuple[str, ...]] = ()
    """The names of the attributes that travel with the error."""
    joins_cause: ClassVar[str] = ""
    """If not empty, the text of the error ends with its cause, joined to the message by this."""
    told_as_cause: ClassVar[bool] = True
    """Whether it is told at the end of an error that it causes; not if that one's message says the same."""
    stack: str | None = None
    """Where the error was raised, if it was read from history; empty if that was not recorded."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0].startswith("outlast"):
            REGISTRY.setdefault(cls.__name__, cls)
            # Tracebacks name the module that users import errors from.
            cls.__module__ = PUBLIC_MODULE

    @property
    def message(self) -> str:
        """The message, without the class name."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return with_cause(self.message, type(self), self.__cause__)

    @property
    def in_words(self) -> str:
        """The text with the name of the class, unless its words tell what it is."""
        return str(self) if self.joins_cause else named(type(self).__name__, str(self))

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> OutlastError:
        """Return the error with its recorded message and attributes."""
        return _restored(cls, (message,), facts)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (type(self), self.args, dict(self.__dict__))


def in_words(error: BaseException) -> str:
    """Return an exception as a traceback ends: its type and its message."""
    return error.in_words if isinstance(error, OutlastError) else named(type(error).__name__, str(error))


def named(name: str, message: str) -> str:
    """Return a message after the name of its type; the name alone if there is no message.

    Args:
        name: The type's name.
        message: The message.
    """
    return f"{name}: {message}" if message else name


def with_cause(message: str, cls: type[OutlastError], cause: BaseException | None) -> str:
    """Return the message of an error, and its cause where errors of its class tell it.

    Args:
        message: The message.
        cls: The error's class.
        cause: Its cause.
    """
    if not cls.joins_cause or cause is None or (isinstance(cause, OutlastError) and not cause.told_as_cause):
        return message
    return f"{message}{cls.joins_cause}{in_words(cause)}"


def _restored(cls: type[OutlastError], args: tuple[Any, ...], state: dict[str, Any]) -> OutlastError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
