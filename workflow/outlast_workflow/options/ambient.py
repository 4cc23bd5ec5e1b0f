"""Options that a scope gives to every start within it: ``with outlast.starting(run_timeout=60): …``."""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.search_attributes import SearchValue
from outlast_workflow.options.start import StartOptions
from outlast_workflow.options.validation import Seconds
from outlast_workflow.primitives.enums import DuplicatePolicy

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy


class AmbientOptions(TypedDict, total=False):
    """The options that a scope can give; :class:`outlast.StartOptions` explains them. ``None`` clears one."""

    execution_timeout: Seconds | None
    execution_deadline: datetime | None
    run_timeout: Seconds | None
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Any] | None
    search_attributes: Mapping[str, SearchValue | None] | None
    start_delay: Seconds | None
    priority: int | None
    duplicate_policy: DuplicatePolicy | str | None
    summary: str | None
    queue: str | None
    partition_key: str | None
    schedule_to_start_timeout: Seconds | None
    alerts: AlertPolicy | None


_AMBIENT: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("outlast_starting", default=None)
_DEFAULTS: Final = StartOptions()
_TIMEOUTS: Final = ("execution_timeout", "run_timeout")
"""What a workflow's definition may give, too: clearing one says something even where no scope around gives it."""
_NEED_A_QUEUE: Final = ("partition_key", "schedule_to_start_timeout")
_EITHER_OR: Final = {
    "execution_timeout": "execution_deadline",
    "execution_deadline": "execution_timeout",
}


def starting(**options: Unpack[AmbientOptions]) -> AbstractContextManager[None]:
    """Give options to every start in this scope: of a client, of a child, of a schedule that is declared here.

    A scope within another one wins field by field, ``None`` clears a field, and the end of the scope restores what held
    before. What a start is given itself wins over every scope. ``partition_key`` and ``schedule_to_start_timeout`` go
    only to starts that have a queue; an execution timeout takes the place of an execution deadline, and the other way
    round. A scope reaches what its own code starts, also in tasks and threads that copy the context; it does not reach
    the code of the workflows that are started. In a workflow it holds for that run's code.

    Args:
        **options: See :class:`outlast.StartOptions`.

    Raises:
        InvalidOptionError: There is no such option, or its value is not valid; raised by the call.
    """
    unknown = options.keys() - AmbientOptions.__annotations__.keys()
    if unknown:
        refuse_unknown(
            "starting",
            {name: value for name, value in options.items() if name in unknown},
            tuple(AmbientOptions.__annotations__),
        )
    _check(options)
    return _scope({**options})


@contextmanager
def _scope(options: Mapping[str, Any]) -> Generator[None]:
    outer = _AMBIENT.get()
    token = _AMBIENT.set({**options} if outer is None else _over(outer, options))
    try:
        yield
    finally:
        _AMBIENT.reset(token)


def start_options(options: object) -> StartOptions:
    """Return the options that a caller gave, ``None`` for none, over those of the scopes around him.

    Raises:
        InvalidOptionError: The caller gave something else, or what he gave does not go with a scope's options.
    """
    if options is None:
        options = _DEFAULTS
    elif not isinstance(options, StartOptions):
        raise InvalidOptionError(
            f"options must be StartOptions, not {type(options).__name__}", field="options"
        )
    if _AMBIENT.get() is None:
        return options
    return StartOptions(**filled(options.given(), StartOptions.fields))


def filled(given: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the options that a start was given over those of the scopes around it.

    Args:
        given: By name; what is there wins, ``None`` too.
        known: The options that this kind of start has.
    """
    ambient = _AMBIENT.get()
    if ambient is None:
        return given
    found = {
        name: value
        for name, value in _over(ambient, given).items()
        if name in given or (name in known and (value is not None or name in _TIMEOUTS))
    }
    if found.get("queue") is None:
        for name in _NEED_A_QUEUE:
            if name not in given:
                found.pop(name, None)
    return found


def unsaid(timeouts: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the timeouts of a workflow's definition of which a start says nothing.

    Args:
        timeouts: The timeouts of the definition, by name.
        given: The options of the start, by name, those of the scopes around it included.
    """
    return {
        name: timeout
        for name, timeout in timeouts.items()
        if name not in given and given.get(_EITHER_OR.get(name, "")) is None
    }


def leave_scopes() -> None:
    """Forget the scopes in this context: what runs in it later, such as activities, was not called within them."""
    _AMBIENT.set(None)


def _over(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**outer, **inner}
    for name, other in _EITHER_OR.items():
        if inner.get(name) is not None and other not in inner:
            merged.pop(other, None)
    return merged


def _check(options: AmbientOptions) -> None:
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "queue" not in given and any(name in given for name in _NEED_A_QUEUE):
        given["queue"] = "any"
    StartOptions(**given)
