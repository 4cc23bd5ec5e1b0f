"""Failures: exceptions as JSON documents, and their restoration.

A document has ``category``, ``type`` (the class name, or what an :class:`ApplicationError` calls itself), ``class``
(qualified), ``message`` and ``stack``; then the attributes of the error, and ``cause``, another document. The engine's
own errors are marked by a ``class`` under ``outlast.errors`` and come back as themselves; every other exception comes
back as an :class:`ApplicationError` with the same type and message. Reading is stable: a failure may pass through any
number of histories and reads the same each time. Categories come from classes, never from the text of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, cast

import orjson

from outlast_workflow import errors
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.writing import UnwritableError, dump
from outlast_workflow.errors import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    OutlastError,
    PayloadEncodeError,
)
from outlast_workflow.errors.root import named
from outlast_workflow.history.events import ActivityFailed, ActivityTimedOut, Failure
from outlast_workflow.primitives.enums import FailureCategory, RetryState, TimeoutKind
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import from_datetime, from_iso, iso, to_datetime

MAX_CAUSES = 20
"""How deep a document's chain of causes may be."""
MAX_TIMEOUT_CAUSES = 2
"""The same under an activity's timeout, whose chain every retry would otherwise lengthen."""
MAX_STACK_LINES = 30
"""How many of the innermost calls a stack keeps."""

MAX_TEXT = 20_000
"""How many characters a message or a stack keeps."""

_OWN = "outlast.errors."
_ENGINE = ("outlast.", "outlast_")
_CANCELLED = "asyncio.CancelledError"
_OWN_TEXTS = (OutlastError.__str__, ApplicationError.__str__)


def category_of(exc: BaseException) -> FailureCategory:
    """Return the category of an exception, by its class; of a group, that of all its exceptions, if they agree."""
    if isinstance(exc, OutlastError):
        return exc.category
    if isinstance(exc, asyncio.CancelledError):
        return FailureCategory.CANCELLED
    if isinstance(exc, BaseExceptionGroup):
        categories = {category_of(part) for part in exc.exceptions}
        if len(categories) == 1:
            return categories.pop()
    return FailureCategory.APPLICATION


def failure_of(exc: BaseException, converter: DataConverter) -> Failure:
    """Return the document of an exception and its causes. Never raises: details without JSON form are named."""
    return _document(exc, converter, MAX_CAUSES)


def exception_of(failure: Failure, converter: DataConverter) -> BaseException:
    """Return the exception of a document, with its causes chained.

    Raises:
        PayloadCodecError: Details were encoded by a codec that is not configured.
    """
    exc = _exception(failure, converter)
    stack = failure.get("stack")
    if stack:
        exc.add_note(stack_note(stack))
    cause = failure.get("cause")
    exc.__cause__ = exception_of(cause, converter) if cause is not None else None
    exc.__suppress_context__ = True
    return exc


def activity_error(
    event: ActivityFailed | ActivityTimedOut, activity_type: str, converter: DataConverter
) -> ActivityError:
    """Return what workflow code sees when an activity ends without a result."""
    retry_state = RetryState(event.retry_state)
    error: ActivityError
    cause: Failure | None
    if isinstance(event, ActivityTimedOut):
        error = ActivityTimeoutError(
            timeout_kind=TimeoutKind(event.timeout_kind),
            deadline_at=to_datetime(from_iso(event.deadline_at)),
            activity_type=activity_type,
            activity_id=event.command_id,
            attempt=event.attempt,
            retry_state=retry_state,
            heartbeat_details=_read_arguments(event.failure.get("heartbeat_details"), converter),
            lack=event.failure.get("lack"),
        )
        cause = event.failure.get("cause")
    else:
        error = ActivityError(
            activity_type=activity_type,
            activity_id=event.command_id,
            attempt=event.attempt,
            retry_state=retry_state,
        )
        cause = event.failure
    if cause is not None:
        error.__cause__ = exception_of(cause, converter)
    return error


def activity_timeout_failure(
    *,
    timeout_kind: TimeoutKind,
    deadline_at: int,
    activity_type: str,
    activity_id: int,
    attempt: int,
    retry_state: RetryState | None = None,
    heartbeat_details: Payload | None = None,
    cause: Failure | None = None,
    lack: str | None = None,
) -> Failure:
    """Return the document of an activity's timeout, built from rows, without user code or a data converter.

    Args:
        timeout_kind: Which deadline passed.
        deadline_at: The deadline, in microseconds since the epoch.
        activity_type: The activity's name.
        activity_id: Its command id.
        attempt: The attempt, as users count it.
        retry_state: Why it is not retried; None if it is.
        heartbeat_details: The payload of the last heartbeat.
        cause: The previous attempt's failure; its own causes are cut off at the second level.
        lack: What it waited for, if nobody has started it: a worker that was missing, or room in its queue.
    """
    error = ActivityTimeoutError(
        timeout_kind=timeout_kind,
        deadline_at=to_datetime(deadline_at),
        activity_type=activity_type,
        activity_id=activity_id,
        attempt=attempt,
        retry_state=retry_state,
        lack=lack,
    )
    failure: Failure = {
        "category": FailureCategory.TIMEOUT,
        "type": "ActivityTimeoutError",
        "class": f"{_OWN}ActivityTimeoutError",
        "message": error.message,
        "activity_type": activity_type,
        "activity_id": activity_id,
        "attempt": attempt,
        "timeout_kind": timeout_kind,
        "deadline_at": iso(deadline_at),
    }
    if retry_state is not None:
        failure["retry_state"] = retry_state
    if lack is not None:
        failure["lack"] = lack
    if heartbeat_details is not None:
        failure["heartbeat_details"] = heartbeat_details.value
    if cause is not None:
        failure["cause"] = clipped(cause, MAX_TIMEOUT_CAUSES - 1)
    return failure


def plain_failure(category: FailureCategory, type: str, message: str, **facts: Any) -> Failure:
    """Return the document of a failure without an exception: a lost worker, a limit, a termination."""
    return {"category": category, "type": type, "message": message, **facts}


def message_of(failure: Failure) -> str:
    """Return the message of a document, with its cause where the error would tell it."""
    message: str = failure.get("message", "")
    cls, cause = _own_class(failure), failure.get("cause")
    if cls is None or not cls.joins_cause or cause is None:
        return message
    cause_class = _own_class(cause)
    if cause_class is not None and not cause_class.told_as_cause:
        return message
    return f"{message}{cls.joins_cause}{in_words(cause)}"


def in_words(failure: Failure) -> str:
    """Return a document in the words of its exception: its type and its message."""
    cls = _own_class(failure)
    message, name = message_of(failure), failure.get("type", ApplicationError.__name__)
    if cls is not None and cls.joins_cause:
        return message
    return (message or name) if name == ApplicationError.__name__ else named(name, message)


def stack_note(stack: str) -> str:
    """Return the recorded stack of an exception as the note that a traceback shows."""
    lines = "\n".join(f"  {line}" for line in stack.splitlines())
    return f"Recorded where it was raised (most recent call last):\n{lines}"


def clipped(failure: Failure, causes: int) -> Failure:
    """Return the document with its chain of causes cut to a depth."""
    cause = failure.get("cause")
    if cause is None:
        return failure
    kept = {name: value for name, value in failure.items() if name != "cause"}
    if causes > 0:
        kept["cause"] = clipped(cause, causes - 1)
    return kept


# --- exception to document -------------------------------------------------------------------------------------------


def _document(exc: BaseException, converter: DataConverter, causes: int) -> Failure:
    if isinstance(exc, ActivityTimeoutError):
        causes = min(causes, MAX_TIMEOUT_CAUSES)
    failure: Failure = {
        "category": category_of(exc),
        "type": _clean(str(exc.type)) if isinstance(exc, ApplicationError) else type(exc).__name__,
        "class": _class_name(exc),
        "message": _message(exc),
    }
    stack = _stack(exc)
    if stack is not None:
        failure["stack"] = stack
    if isinstance(exc, OutlastError):
        failure.update(_facts(exc, converter))
    cause = exc.__cause__
    if isinstance(exc, BaseExceptionGroup):
        failure["exception_types"] = [type(part).__name__ for part in exc.exceptions]
        cause = exc.exceptions[0]
    if cause is not None and causes > 0:
        failure["cause"] = _document(cause, converter, causes - 1)
    return failure


def _class_name(exc: BaseException) -> str:
    if isinstance(exc, asyncio.CancelledError):
        return _CANCELLED
    if isinstance(exc, ApplicationError) and exc.exception_class is not None:
        return exc.exception_class
    cls = type(exc)
    if errors.REGISTRY.get(cls.__name__) is cls:
        return f"{_OWN}{cls.__name__}"
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _message(exc: BaseException) -> str:
    """Return the message alone: the type and the cause have places of their own."""
    if isinstance(exc, BaseExceptionGroup):
        return _clean(exc.message)
    try:
        plain = isinstance(exc, OutlastError) and type(exc).__str__ in _OWN_TEXTS
        text = cast("OutlastError", exc).message if plain else str(exc)
    except Exception:
        text = f"(the message of this {type(exc).__name__} cannot be shown)"
    return _clean(text)


def _clean(text: str) -> str:
    """Return text of bounded length that JSON and every database can hold: PostgreSQL accepts no NUL in text."""
    if len(text) > MAX_TEXT:
        text = f"{text[: MAX_TEXT - 100]}… ({len(text) - MAX_TEXT + 100:,} more characters)"
    text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _stack(exc: BaseException) -> str | None:
    """Return file, line and function of the innermost calls. A stack that was recorded elsewhere stays as it is."""
    if isinstance(exc, OutlastError) and exc.stack is not None:
        return exc.stack or None
    if exc.__traceback__ is None or isinstance(exc, ActivityError | asyncio.CancelledError):
        return None
    lines = list(_frames(_from_users_code(exc.__traceback__)))
    return _clean("\n".join(lines[-MAX_STACK_LINES:]))


def _from_users_code(traceback: TracebackType) -> TracebackType:
    """Return the traceback from the first call that is not the engine's; all of it if there is none."""
    found: TracebackType | None = traceback
    while found is not None:
        if not str(found.tb_frame.f_globals.get("__name__", "")).startswith(_ENGINE):
            return found
        found = found.tb_next
    return traceback


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield f'File "{code.co_filename}", line {traceback.tb_lineno}, in {code.co_qualname}'
        traceback = traceback.tb_next


def _facts(exc: OutlastError, converter: DataConverter) -> Iterator[tuple[str, Any]]:
    for name in exc.facts:
        value = getattr(exc, name, None)
        if name == "type" or value is None or value == () or value is False:
            continue
        if name in ("details", "heartbeat_details"):
            yield name, _write_arguments(value, converter)
        elif isinstance(value, datetime):
            yield name, iso(from_datetime(value))
        elif name != "exception_class":
            yield name, _plain_fact(value)


def _plain_fact(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list | tuple):
        return [_plain_fact(item) for item in value]
    try:
        return orjson.loads(dump(value))
    except UnwritableError:
        return _clean(str(value))


def _write_arguments(values: tuple[Any, ...], converter: DataConverter) -> Any:
    try:
        return converter.encode_args(values, None, "error details").value
    except PayloadEncodeError:
        return converter.encode_args([_writable(value, converter) for value in values], None).value


def _writable(value: Any, converter: DataConverter) -> Any:
    try:
        return converter.encode(value).value
    except PayloadEncodeError:
        return f"(a {type(value).__name__}, which has no JSON form)"


# --- document to exception -------------------------------------------------------------------------------------------


def _exception(failure: Failure, converter: DataConverter) -> BaseException:
    name = failure.get("class") or ""
    message = failure.get("message", "")
    if name == _CANCELLED:
        return asyncio.CancelledError(message) if message else asyncio.CancelledError()
    cls = _own_class(failure)
    if cls is None or issubclass(cls, ApplicationError):
        return _application_error(failure, converter)
    exc = cls.restore(message, dict(_read_facts(cls, failure, converter)))
    exc.stack = failure.get("stack", "")
    return exc


def _own_class(failure: Failure) -> type[OutlastError] | None:
    """Return the engine's class that a document was made of; ``None`` for users' exceptions."""
    name = failure.get("class") or ""
    return errors.REGISTRY.get(name.removeprefix(_OWN)) if name.startswith(_OWN) else None


def _application_error(failure: Failure, converter: DataConverter) -> ApplicationError:
    exc = ApplicationError(
        failure.get("message", ""),
        *_read_arguments(failure.get("details"), converter),
        type=failure.get("type", "ApplicationError"),
        non_retryable=bool(failure.get("non_retryable")),
        next_retry_delay=failure.get("next_retry_delay"),
    )
    exc.category = FailureCategory(failure.get("category", FailureCategory.APPLICATION))
    exc.stack = failure.get("stack", "")
    exc.exception_class = failure.get("class")
    exc.exception_types = tuple(failure.get("exception_types", ()))
    return exc


def _read_facts(
    cls: type[OutlastError], failure: Failure, converter: DataConverter
) -> Iterator[tuple[str, Any]]:
    for name in cls.facts:
        value = failure.get(name)
        if name in ("details", "heartbeat_details"):
            value = _read_arguments(value, converter)
        elif value is not None and name in _READERS:
            value = _READERS[name](value)
        yield name, value


_READERS: dict[str, Any] = {
    "deadline_at": lambda text: to_datetime(from_iso(text)),
    "timeout_kind": TimeoutKind,
    "retry_state": RetryState,
}


def _read_arguments(value: Any, converter: DataConverter) -> tuple[Any, ...]:
    return () if value is None else tuple(converter.decode_args(Payload.of(value), None))
